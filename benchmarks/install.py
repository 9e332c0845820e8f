"""How long each way to install takes and how much disk it needs, next to other memory servers: `make bench-install`.

Every installation has an empty home and, the first time, an empty cache; then the cache stays and the home is new.
Peers take the newest version of their registry. Nothing is left behind. It needs the package registries.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.distribution import build_wheel, copy_tree
from tools.install_ways import WAYS, Failed, Requested, User, pythons

from benchmarks.figures import introduction, load, print_table

MIN_MINOR = 12  # basic-memory runs on nothing older
WARM_RUNS = 3
BLOCK_BYTES = 512
MB = 1_000_000

Install = Callable[[User], object]


@dataclass(frozen=True)
class Figures:
    cold_s: float
    warm_s: float
    size_bytes: int

    @property
    def cells(self) -> tuple[str, str, str]:
        return f"{self.cold_s:.1f}", f"{self.warm_s:.1f}", f"{self.size_bytes / MB:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure only rows whose name contains this")
    only = parser.parse_args().only
    version, python = next(reversed(pythons(range(MIN_MINOR, 15)).items()))
    print(f"{introduction()}; the installations use Python {version}", flush=True)
    rows = [("what", "how", "empty cache, s", "warm cache, s", "on disk, MB")]
    with tempfile.TemporaryDirectory(prefix="bench-install-") as scratch:
        wheel = build_wheel(copy_tree(Path(scratch) / "tree"), Path(scratch) / "wheel")
        for what, how, install in installations(str(wheel)):
            if only in f"{what} {how}":
                try:
                    cells = measure(Path(scratch), python, install).cells
                except Failed as exc:
                    print(f"{what}, {how}: {exc}", file=sys.stderr, flush=True)
                    cells = ("failed", "failed", "failed")
                print("| " + " | ".join((what, how, *cells)) + " |", flush=True)
                rows.append((what, how, *cells))
    print_table(f"Installing ({load()} at the end)", rows)
    return 0


def installations(wheel: str) -> Iterator[tuple[str, str, Install]]:
    ours = Requested(wheel, "memory-mcp")
    for how, way in WAYS.items():
        yield "Memory MCP", how, lambda user, way=way: way(user, ours)  # type: ignore[misc]
    portals = Requested(wheel, "memory-mcp", extra="portals")
    yield "Memory MCP with portals", "uv tool install", lambda user: WAYS["uv tool install"](user, portals)
    for package, command in (("basic-memory", "basic-memory"), ("mcp-memory-service", "memory")):
        for how in ("uvx", "uv tool install", "pip install"):
            peer, way = Requested(package, command), WAYS[how]
            yield package, how, lambda user, way=way, peer=peer: way(user, peer)  # type: ignore[misc]
    yield "@modelcontextprotocol/server-memory", "npm install", install_server_memory


def install_server_memory(user: User) -> None:
    npm = shutil.which("npm") or sys.exit("There is no npm here.")
    user.run(npm, "install", "--silent", "--prefix", str(user.home), "@modelcontextprotocol/server-memory")


def measure(scratch: Path, python: str, install: Install) -> Figures:
    cache = Path(tempfile.mkdtemp(dir=scratch, prefix="cache-"))
    cold_s, size_bytes = run_once(scratch, cache, python, install)
    warm = []
    for _ in range(WARM_RUNS):
        for built in cache.glob("uv/environments-*"):
            shutil.rmtree(built)  # else `uvx` finds the environment of the run before
        warm.append(run_once(scratch, cache, python, install)[0])
    shutil.rmtree(cache)
    return Figures(cold_s, statistics.median(warm), size_bytes)


def run_once(scratch: Path, cache: Path, python: str, install: Install) -> tuple[float, int]:
    """The seconds, and the bytes of the installation."""
    home = Path(tempfile.mkdtemp(dir=scratch, prefix="home-"))
    started = time.perf_counter()
    install(User(home, cache, python))
    seconds = time.perf_counter() - started
    size_bytes = disk_usage(cache if install_is_cached(home) else home)
    shutil.rmtree(home)
    return seconds, size_bytes


def install_is_cached(home: Path) -> bool:
    """Whether the home has no environment in it: that of `uvx` is in uv's cache."""
    return next(home.rglob("pyvenv.cfg"), None) is None and not (home / "node_modules").exists()


def disk_usage(folder: Path) -> int:
    """Bytes on disk; a file with several names counts once."""
    found = (path.lstat() for path in folder.rglob("*") if not path.is_dir())
    return sum({one.st_ino: one.st_blocks * BLOCK_BYTES for one in found}.values())


if __name__ == "__main__":
    sys.exit(main())
