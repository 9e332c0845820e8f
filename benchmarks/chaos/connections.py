"""Clients of both protocol eras, over stdio through the shared server and over HTTP."""

import os
import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import httpx
from tests.wire import Http, modern_meta

from benchmarks.chaos.ledger import FAMILIES, PREPARATION, Call, Refused, Unsure, translate
from benchmarks.pipe import ServerProcess
from memory_mcp.engines.chdb import frames
from memory_mcp.engines.chdb.process import read_lock
from memory_mcp.services.sessions import Servers

Era = Literal["legacy", "modern"]
ERAS: tuple[Era, ...] = ("legacy", "modern")


class StdioClient:
    """One client over stdio. It stays connected while servers come and go."""

    def __init__(
        self, data_dir: Path, era: Era, *, shared: bool = True, module: tuple[str, ...] = ("memory_mcp",)
    ) -> None:
        command = (sys.executable, "-m", *module, "--data-dir", str(data_dir))
        self._server = ServerProcess(
            command,
            quiet=True,
            MEMORY_MCP_EMBEDDER="none",
            MEMORY_MCP_PORTAL_ENGINE_IDLE="5",
            MEMORY_MCP_SHARED="auto" if shared else "off",
            MEMORY_MCP_SHARED_IDLE="0",
        )
        self._meta = {"_meta": modern_meta()} if era == "modern" else {}
        if era == "legacy":
            self._server.shake_hands()

    def __call__(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._server.exchange("tools/call", {"name": tool, "arguments": arguments, **self._meta})
        except (BrokenPipeError, EOFError) as exc:
            raise Unsure("the server has ended") from exc
        return translate(answer)

    @property
    def pid(self) -> int:
        return self._server.pid

    def kill(self) -> None:
        self._server.kill()

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._server.__exit__(None, None, None)


@contextmanager
def stdio_client(data_dir: Path, era: Era = "legacy", **more: Any) -> Iterator[StdioClient]:
    client = StdioClient(data_dir, era, **more)
    try:
        yield client
    finally:
        client.close()


def http_call(server: Http, era: Era) -> Call:
    """A client of a running HTTP server."""
    session = server.handshake() if era == "legacy" else None

    def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        try:
            answer = server.legacy(session, "tools/call", params) if session else server.modern("tools/call", params)
        except httpx.ConnectError as exc:
            raise Refused("no server is there") from exc
        except (httpx.TransportError, httpx.HTTPStatusError, StopIteration) as exc:
            raise Unsure("the server has ended") from exc
        return translate(answer)

    return call


def prepare(call: Call, families: Collection[str] = FAMILIES) -> None:
    """Create what later writes to these families need."""
    for family, (tool, arguments) in PREPARATION.items():
        if family in families:
            call(tool, arguments)


def engine_pid(data_dir: Path) -> int | None:
    """The process that has the portal open, if one has: a number in a lock file may be that of another program now."""
    folder = data_dir / "portals" / "chaos" / "one"
    pid = read_lock(folder).get("pid")
    try:
        lock = (folder / frames.LOCK).stat()
        is_open = any(os.path.samestat(lock, path.stat()) for path in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    return pid if isinstance(pid, int) and is_open else None


def shared_server_pids(data_dir: Path) -> list[int]:
    return [server.pid for server in Servers(data_dir / "servers").running() if server.kind == "shared"]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
