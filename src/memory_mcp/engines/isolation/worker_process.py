"""The server's side: start a child process, call functions of this program in it, and stop it in every case.

Requests and answers are lines of JSON. Nothing that comes from the child is executed or unpickled.
"""

import json
import logging
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self, cast

from memory_mcp import errors
from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.isolation.launch import PACKAGES, start_module
from memory_mcp.errors import AppError, LimitExceeded, Unavailable

POLL_INTERVAL_S = 0.1  # between two checks that the caller has not cancelled
MAX_ANSWER_BYTES = 32 * 1024 * 1024
NICENESS = 10  # below servers and engines: reading files is work that can wait
TOO_MUCH = "This takes too much time, memory or space. Give less at a time."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProcessLimits:
    """What a child process may use. `seconds` is for all its calls together."""

    seconds: float
    memory_bytes: int = 512 * 1024 * 1024
    file_bytes: int = 0  # of one file that it writes
    open_files: int = 64


class WorkerProcess:
    """A child process for one task. It can open only the named files and folders, and the network only with `network`.
    With `site_packages` its functions may import other packages than the standard library; it starts later then.

    Functions are called by name with JSON values; paths are passed as strings. An AppError that a function raises is
    raised here, too. Raises LimitExceeded, and Unavailable if the caller has left (`cancelled`).
    """

    def __init__(
        self,
        limits: ProcessLimits,
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        network: bool = False,
        site_packages: bool = False,
        cancelled: threading.Event | None = None,
    ) -> None:
        self._deadline = time.monotonic() + limits.seconds
        self._cancelled = cancelled
        self._limits: dict[str, Any] = {
            "seconds": math.ceil(limits.seconds) + 1,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "open_files": limits.open_files,
            "readable": list(map(str, readable)),
            "writable": list(map(str, writable)),
            "network": network,
            "parent": os.getpid(),
        }
        self._has_site_packages = site_packages or network
        self._started: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process ahead of the first call, which would start it otherwise. It needs about 60 ms."""
        if self._started is None:
            self._started = start_module(
                "memory_mcp.engines.isolation.child",
                json.dumps(self._limits),
                environment={"PYTHONPATH": str(PACKAGES), "PYTHONUTF8": "1"},
                output=subprocess.PIPE,
                has_site_packages=self._has_site_packages,
                niceness=NICENESS,
            )

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        self.start()
        return cast("subprocess.Popen[bytes]", self._started)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of this package in the child. Arguments and result are JSON values."""
        request = {"module": function.__module__, "function": function.__qualname__, "arguments": arguments}
        try:
            stdin = cast(IO[bytes], self._process.stdin)
            stdin.write(json.dumps(request, default=str).encode() + b"\n")
            stdin.flush()
            answer = json.loads(self._receive_line())
        except OSError as exc:  # it has ended, or ends during the call
            raise self._reason() from exc
        if "limit" in answer:
            raise LimitExceeded(TOO_MUCH, limit=answer["limit"])
        if "error" in answer:
            raise _rebuild_error(function, answer["error"])
        if "bug" in answer:
            raise RuntimeError(f"{function.__qualname__} failed in a child process:\n{answer['bug']}")
        return answer["result"]

    def _receive_line(self) -> bytes:
        stdout = cast(IO[bytes], self._process.stdout).fileno()
        waiting = select.poll()
        waiting.register(stdout, select.POLLIN)
        line = bytearray()
        while not line.endswith(b"\n"):
            self._check()
            if not waiting.poll(POLL_INTERVAL_S * 1000):
                continue
            chunk = os.read(stdout, 1 << 16)
            line += chunk
            if not chunk:
                raise self._reason()
            if len(line) > MAX_ANSWER_BYTES:
                raise LimitExceeded(TOO_MUCH, limit="size")
        return bytes(line)

    def _check(self) -> None:
        check_not_cancelled(self._cancelled)
        if time.monotonic() > self._deadline:
            raise LimitExceeded(TOO_MUCH, limit="time")

    def _reason(self) -> Exception:
        """The error for a child that has ended without an answer."""
        status = self._process.wait()
        if status == -signal.SIGXCPU:
            return LimitExceeded(TOO_MUCH, limit="time")
        log.warning("A process that reads foreign files ended with status %s.", status)
        if status == -signal.SIGKILL:  # the kernel had no memory left
            return LimitExceeded(TOO_MUCH, limit="memory")
        return Unavailable("The process that reads files ended. Look at the log, or try again.")

    def _end(self) -> None:
        if self._started is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # the child has not read all of the last request
                cast(IO[bytes], stream).close()


def _rebuild_error(function: Callable[..., Any], stored: dict[str, Any]) -> AppError:
    """An error as the function raised it: one of errors.py, or of the function's own module."""
    own = getattr(sys.modules[function.__module__], stored["class"], None)
    kind = own or getattr(errors, stored["class"], AppError)
    if not (isinstance(kind, type) and issubclass(kind, AppError)):
        kind = AppError
    hints = {"hint": stored["hint"], "people_hint": stored["people_hint"]}
    return kind(stored["message"], code=stored["code"], **hints, **stored["data"])
