"""The product as a process, forked from one that has imported it.

A fresh interpreter spends half a second on imports, and the tests start the product hundreds of times. The forked
process is a process of its own in every other way: pid, streams, signals, environment, exit code. Tests of the start
itself use `COMMAND`.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any

from tests.cheap_hashes import use_cheap_hashes
from tests.shared_servers import SHARED

COMMAND = [sys.executable, "-m", "memory_mcp"]
PRELOADED = ["memory_mcp.server.http", "memory_mcp.server.stdio", "memory_mcp.server.hub", __name__, "tests.preloaded"]
RUN_TIMEOUT_S = 120.0
MAX_STDIN = 10_000  # fits into a pipe that is not read yet

use_cheap_hashes()  # also in the process that is forked, which imports this module

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


def environment(**more: str) -> dict[str, str]:
    """Ours, without settings that were exported."""
    foreign = {"OLLAMA_HOST", "MCP_EMBED_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_MCP_")}
    return {name: value for name, value in kept.items() if name not in foreign} | SHARED | more


class Process:
    """What `subprocess.Popen` offers, for `memory-mcp` with these arguments. Text streams, UTF-8."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.args = [str(argument) for argument in arguments]
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        opened: list[int] = []
        inputs, self.stdin = _stream(stdin, 0, "w", opened)
        outputs, self.stdout = _stream(stdout, 1, "r", opened)
        errors, self.stderr = _stream(stderr, 2, "r", opened)
        if stderr == subprocess.STDOUT:
            errors = outputs
        self._process = _context.Process(
            target=_run_forked,
            args=(self.args, _Streams(inputs, outputs, errors), environment() if env is None else env, cwd, _umask()),
            daemon=True,
        )
        try:
            self._process.start()
        finally:
            for fd in opened:
                os.close(fd)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *raised: object) -> None:
        """As Popen does: close the streams, then wait."""
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self.wait()


def run(
    *arguments: object,
    stdin: str | bytes = "",
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = False,
    timeout: float = RUN_TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """`memory-mcp` with these arguments, and what it printed."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, os.fdopen(reading, "rb") as given:
        with os.fdopen(writing, "wb") as ours:
            assert len(stdin) <= MAX_STDIN
            ours.write(stdin.encode() if isinstance(stdin, str) else stdin)
        process = Process(arguments, stdin=given, stdout=out, stderr=err, env=env, cwd=cwd)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        printed = [_text(file) for file in (out, err)]
    done = subprocess.CompletedProcess(process.args, code, *printed)
    if check and code:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return done


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _umask() -> int:
    """Ours, which can be read only by setting it."""
    os.umask(umask := os.umask(0o077))
    return umask


def _stream(given: int | IO[Any] | None, own: int, mode: str, opened: list[int]) -> tuple[int, IO[str] | None]:
    """The descriptor for the process, and our end of a pipe. `opened` gets those to close after the start."""
    if given is None or given == subprocess.STDOUT:
        return own, None
    if given == subprocess.DEVNULL:
        opened.append(os.open(os.devnull, os.O_RDWR))
        return opened[-1], None
    if given == subprocess.PIPE:
        reading, writing = os.pipe()
        theirs, ours = (reading, writing) if mode == "w" else (writing, reading)
        opened.append(theirs)
        return theirs, os.fdopen(ours, mode, encoding="utf-8")
    return (given if isinstance(given, int) else given.fileno()), None


class _Streams:
    """Descriptors 0 to 2 on their way to the process."""

    def __init__(self, *fds: int) -> None:
        self.fds = fds

    def __getstate__(self) -> list[Any]:
        return [reduction.DupFd(fd) for fd in self.fds]

    def __setstate__(self, sent: list[Any]) -> None:
        self.fds = tuple(one.detach() for one in sent)

    def install(self) -> None:
        """They become this process's standard streams."""
        for own, fd in enumerate(self.fds):
            os.dup2(fd, own)
            os.close(fd)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _run_forked(arguments: list[str], streams: _Streams, env: dict[str, str], cwd: Path | None, umask: int) -> None:
    streams.install()
    os.umask(umask)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["memory-mcp", *arguments]
    from memory_mcp.__main__ import main

    main(arguments)
