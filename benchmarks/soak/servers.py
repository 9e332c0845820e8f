"""The server of `make soak`, the hub and the second node that it syncs with, and what their processes use."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

NAMESPACE = "default"  # of the notes that are synced: those of the local user
STOP_TIMEOUT_S = 60.0
REST_S = 135.0  # longer than between three runs of housekeeping: after the first, files were in use until just now
VERB_TIMEOUT_S = 600.0  # a first sync of some thousand notes is paced by the hub


@dataclass(frozen=True)
class Sample:
    """What a server uses at one moment."""

    server_bytes: int
    engine_bytes: int
    handles: int  # open files and connections of the server and its engines


class Server:
    """A server process and the engines it started."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port = port
        self._process = process

    def cpu(self) -> float:
        """Seconds of CPU the server has used, without engines. Linux only."""
        return time.clock_gettime(~self._process.pid << 3 | 2)

    def memory(self) -> tuple[int, int]:
        """Bytes of RAM that the server and its engines hold. Linux only."""
        return _resident(self._process.pid), sum(map(_resident, self._engines()))

    def memory_at_rest(self) -> int:
        """Bytes of RAM that are the server's own, when it has had nothing to do for a while: without mapped files.
        Linux only."""
        time.sleep(REST_S)
        return _resident(self._process.pid, with_files=False)

    def sample(self) -> Sample:
        """Linux only."""
        handles = sum(map(open_handles, (self._process.pid, *self._engines())))
        return Sample(*self.memory(), handles)

    def _engines(self) -> Iterator[int]:
        """All processes that this server started, and that they started: engines, and readers of foreign files."""
        children: dict[int, list[int]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ValueError):
                parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(path.parent.name))
        found = [*children.get(self._process.pid, [])]
        for pid in found:  # grows as it goes
            found += children.get(pid, [])
        yield from found


def _resident(pid: int, *, with_files: bool = True) -> int:
    try:
        _, resident, files, *_ = map(int, Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split())
    except OSError:
        return 0
    pages = resident if with_files else resident - files
    return pages * os.sysconf("SC_PAGESIZE")


def open_handles(pid: int) -> int:
    """How many files and connections a process has open. Linux only."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def environment() -> dict[str, str]:
    """Engines end soon, so that those who read back get new ones; clients over stdio must have the same settings."""
    return os.environ | {"MEMORY_MCP_PORTAL_ENGINE_IDLE": "5", "MEMORY_MCP_SHARED": "auto"}


def memory_mcp(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "memory_mcp", *map(str, arguments)]


def run_json(*arguments: str | Path, data_dir: Path) -> dict[str, Any]:
    """Run a verb of the command line. Raises CalledProcessError if it fails."""
    command = memory_mcp(*arguments, "--data-dir", data_dir, "--json")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=VERB_TIMEOUT_S)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[Server]:
    """Start it, and stop it as an operator does. Raises RuntimeError if it does not end by itself, in order."""
    with log.open("ab") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment(), encoding="utf-8")
    try:
        output = cast(IO[str], process.stdout)
        found = next((found for line in output if (found := re.search(r"http://[\d.]+:(\d+)", line))), None)
        if found is None:
            raise RuntimeError(f"The server does not start: {log.read_text(encoding='utf-8')}")
        yield Server(process, int(found[1]))
        process.terminate()
        if process.wait(timeout=STOP_TIMEOUT_S) not in (0, -15):
            raise RuntimeError(f"The server ended with {process.returncode}.")
    finally:
        process.kill()
        process.wait()
        cast(IO[str], process.stdout).close()


def serve_command(data_dir: Path) -> list[str]:
    return memory_mcp("serve", "--transport", "http", "--port", "0", "--data-dir", data_dir)


@dataclass(frozen=True)
class Hub:
    """A running hub."""

    url: str
    key: str

    def link(self, data_dir: Path) -> None:
        """Sync the notes of a data directory, which no server may have open yet, with this hub."""
        run_json("sync", "link", self.url, "--key", self.key, data_dir=data_dir)
        run_json("sync", "enable", NAMESPACE, data_dir=data_dir)


@contextmanager
def running_hub(data_dir: Path, log: Path) -> Iterator[Hub]:
    key = str(run_json("keys", "create", "--name", "soak", data_dir=data_dir)["key"])
    with running(memory_mcp("hub", "--port", "0", "--data-dir", data_dir), log) as server:
        yield Hub(f"http://127.0.0.1:{server.port}", key)


def sync_now(data_dir: Path) -> None:
    """Push and pull until nothing is left. Raises CalledProcessError if something is."""
    run_json("sync", "now", data_dir=data_dir)
