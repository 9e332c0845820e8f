"""Clients of a shared server, and the server itself, as processes."""

from collections.abc import Callable
from pathlib import Path

from memory_mcp.services.sessions import RunningServer, Servers
from tests.wire import Stdio

SHARED = {"MEMORY_MCP_SHARED": "auto", "MEMORY_MCP_EMBEDDER": "none"}

Connect = Callable[..., Stdio]


def servers(data_dir: Path) -> list[RunningServer]:
    return Servers(data_dir / "servers").running()


def server_pid(data_dir: Path) -> int:
    (server,) = servers(data_dir)
    assert server.kind == "shared"
    return server.pid
