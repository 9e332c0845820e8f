"""A hub and the nodes of `make soak-sync`: processes that are started, cut off and killed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import networks
from benchmarks.networks import Network
from benchmarks.pipe import ServerProcess

SKEWS = (0.0, -3600.0, 3600.0)  # of the nodes' clocks, in seconds
NAMESPACES = ("default", "work")
NOW_TIMEOUT_S = 300  # that one `sync now` may take


class Gone(Exception):
    """The server died before it answered."""


def memory_mcp(skew: float, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.skewed", str(skew), *map(str, arguments)]


def run_json(command: Sequence[str], seconds: float = 60) -> Any:
    """Run a verb and return its JSON output, whatever its status. Raises RuntimeError if there is none."""
    done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError as exc:
        raise RuntimeError(done.stderr.decode()) from exc


class Hub:
    """The hub's process. Killed, it is started again under the same address."""

    def __init__(self, network: Network, folder: Path) -> None:
        self._network = network
        self._data_dir = folder / "hub"
        self._log = folder / "hub.log"
        self.key = str(
            run_json(memory_mcp(0, "keys", "create", "--name", "soak", "--json", "--data-dir", self._data_dir))["key"]
        )
        self.start()

    def start(self) -> None:
        where = ("--host", self._network.hub_host, "--port", str(self._network.hub_port))
        command = self._network.at(None, memory_mcp(0, "hub", *where, "--data-dir", self._data_dir))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Node:
    """A computer with a data directory and a clock of its own."""

    def __init__(self, network: Network, number: int, folder: Path) -> None:
        self.name = f"node{number}"
        self.log = folder / f"{self.name}.log"
        self._network = network
        self._number = number
        self._data_dir = folder / self.name

    def link(self, key: str, *how: str) -> dict[str, Any]:
        url = self._network.url(self._number)
        output: dict[str, Any] = retry_until_it_works(lambda: self._verb("link", url, "--key", key, *how))
        for namespace in NAMESPACES:
            self._verb("enable", namespace)
        return output

    def start(self) -> ServerProcess:
        command = memory_mcp(self._skew, "--embedder", "none", "--sync-seconds", "1", "--data-dir", self._data_dir)
        with self.log.open("ab") as log:
            return ServerProcess(self._network.at(self._number, command), log=log)

    def now(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._verb("now")
        return answer

    def cut(self, how: networks.Cut) -> None:
        self._network.cut(self._number, how)

    def heal(self) -> None:
        self._network.heal(self._number)

    def damages(self) -> list[str]:
        """What is wrong with its files, but for the locks that killed servers leave."""
        command = memory_mcp(self._skew, "doctor", "--data-dir", self._data_dir)
        output = subprocess.run(command, capture_output=True, check=False, encoding="utf-8").stdout
        problems = [line.strip() for line in output.splitlines() if line.strip().startswith("problem ")]
        return [problem for problem in problems if not problem.startswith("problem lock:")]

    @property
    def file(self) -> Path:
        [found] = self._data_dir.rglob("notes.db")
        return found

    @property
    def _skew(self) -> float:
        return SKEWS[self._number]

    def _verb(self, *arguments: str) -> Any:
        command = memory_mcp(self._skew, "sync", *arguments, "--json", "--data-dir", self._data_dir)
        return run_json(self._network.at(self._number, command), NOW_TIMEOUT_S)


def retry_until_it_works(work: Callable[[], Any], seconds: float = 60) -> Any:
    """Until it works: a hub that was just started does not answer at once."""
    end = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (RuntimeError, subprocess.TimeoutExpired):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
