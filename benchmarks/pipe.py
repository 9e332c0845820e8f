"""A client that adds almost nothing: JSON-RPC, a line at a time, over the pipes of a server process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

PROTOCOL = "2025-11-25"
SESSION_META = "memory-mcp/sessionId"


class ServerProcess:
    """A started server. Leaving the block closes its stdin, as a client does that goes away."""

    def __init__(
        self, command: Sequence[str | Path], *, quiet: bool = False, log: IO[bytes] | None = None, **environ: str
    ) -> None:
        """What it writes to stderr goes to `log`, or nowhere if `quiet`; `environ` is added to ours. Ours is measured
        in the process itself: only `environ` can choose a shared server."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else log,
            env=_installed(os.environ) | {"MEMORY_MCP_SHARED": "off"} | environ,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._last_id = 0
        self.received_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)

    def kill(self) -> None:
        """Without a chance to finish anything: SIGKILL."""
        self._process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Raises RuntimeError for a refusal."""
        return self._ask(method, params)[1]

    def shake_hands(self) -> None:
        client = {"name": "benchmark", "version": "1"}
        self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> float:
        """The seconds from the request's last byte to the answer's. Raises RuntimeError for a refusal."""
        return self._ask("tools/call", {"name": tool, "arguments": arguments})[0]

    def answer(self, tool: str, arguments: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """What the tool answers, in a session of this name. Raises RuntimeError for a refusal."""
        meta = {"_meta": {SESSION_META: session}} if session else {}
        _, result = self._ask("tools/call", {"name": tool, "arguments": arguments, **meta})
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    def timed_answer(self, tool: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """The seconds as `call` takes them, and what the tool answers. Raises RuntimeError for a refusal."""
        taken, result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        return taken, result["structuredContent"]

    def cpu(self) -> float:
        """Seconds of CPU all threads of the process have used. Linux only."""
        # What clock_getcpuclockid(3) returns: nanoseconds, where /proc/PID/stat counts in hundredths of a second.
        return time.clock_gettime(~self._process.pid << 3 | 2)

    def memory(self, *, peak: bool = False) -> int:
        """Bytes of RAM the process holds, or has held at most. Linux only."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines()
        (found,) = (line for line in lines if line.startswith("VmHWM:" if peak else "VmRSS:"))
        return int(found.split()[1]) * 1024

    def exchange(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The whole answer, with its result or error. Raises EOFError if the server has left."""
        return self._exchange(method, params)[1]

    def _ask(self, method: str, params: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        try:
            taken, answer = self._exchange(method, params)
        except EOFError:
            raise RuntimeError(f"{method}: The server has left.") from None
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{method}: {answer}")
        return taken, answer["result"]

    def _exchange(self, method: str, params: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        started = self._send(request)
        while line := self._from.readline():
            taken = time.perf_counter() - started
            self.received_bytes += len(line)
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._last_id:
                return taken, answer
        raise EOFError

    def _send(self, message: dict[str, Any]) -> float:
        line = json.dumps(message).encode() + b"\n"
        started = time.perf_counter()
        self._to.write(line)
        self._to.flush()
        return started


def _installed(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what keeps Python from writing compiled files: an installed server has them."""
    return {name: value for name, value in environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


EMPTY: tuple[str | Path, ...] = (sys.executable, Path(__file__).with_name("empty_server.py"))


def memory_mcp(data_dir: Path, *flags: str) -> tuple[str | Path, ...]:
    return (Path(sys.executable).with_name("memory-mcp"), "--data-dir", data_dir, *flags)
