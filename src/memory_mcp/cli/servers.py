"""memory-mcp ps|stop: the servers of a data directory."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from memory_mcp.app import open_access
from memory_mcp.cli.common import AsJson, DataDir, chosen_settings
from memory_mcp.cli.output import print_json, print_table, print_text
from memory_mcp.clock import instant, utc_now
from memory_mcp.errors import Unavailable
from memory_mcp.relay import link
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.services.sessions import Client, RunningServer, Servers
from memory_mcp.settings import Settings

STOP_TIMEOUT_S = 10.0  # a server ends within five seconds
POLL_INTERVAL_S = 0.05


def ps(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the running servers of a data directory, their clients, memory and uptime."""
    with open_access(chosen_settings(data_dir)) as access:
        servers = [_described(server, clients) for server, clients in access.servers()]
    if as_json:
        print_json({"servers": servers})
    elif not servers:
        print_text("No server runs on this data directory.")
    else:
        rows = [
            (
                one["pid"],
                one["kind"],
                one["version"],
                len(one["clients"]),
                _names(one["clients"]),
                _megabytes(one["memory_bytes"]),
                str(timedelta(seconds=one["uptime_s"])),
            )
            for one in servers
        ]
        columns = ("pid", "kind", "version", "clients", "names", "memory", "uptime")
        print_table(columns, rows, numbers={"pid", "clients", "memory", "uptime"})


def stop(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Stop the shared server and HTTP servers of a data directory. Calls under way are finished, and nothing is lost.

    Clients that are still connected notice nothing: their next message starts a server again. A server that a client
    runs in its own process ends with that client.
    """
    chosen = chosen_settings(data_dir)
    stopped = _stop_all(chosen)
    if as_json:
        print_json({"stopped": stopped})
    elif stopped:
        print_text(f"Stopped: process {', '.join(map(str, stopped))}.")
    else:
        print_text("No server runs in the background.")


def _stop_all(chosen: Settings) -> list[int]:
    servers = Servers(chosen.data_dir / "servers")
    running = _in_background(servers)
    answer = link.request_running(ServerSocket(str(chosen.data_dir)), "stop") or {}
    started = [server for server in _in_background(servers) if server not in running]  # while this command ran
    running += [server for server in started if server.pid == answer.get("pid")]
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for server in running:
        if server.pid != answer.get("pid"):
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGTERM)
        while servers.is_running(server.id):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Process {server.pid} does not end. `kill -9 {server.pid}` ends it; nothing that "
                    "was acknowledged is lost."
                )
            time.sleep(POLL_INTERVAL_S)
    return [server.pid for server in running]


def _in_background(servers: Servers) -> list[RunningServer]:
    return [server for server in servers.running() if server.kind != "stdio"]


def _described(server: RunningServer, clients: Iterable[Client]) -> dict[str, Any]:
    return {
        "pid": server.pid,
        "kind": server.kind,
        "version": server.version,
        "clients": [
            {
                "name": client.name,
                "version": client.version,
                "transport": client.transport,
                "started_at": client.started_at,
            }
            for client in clients
        ],
        "memory_bytes": _memory_bytes(server.pid),
        "started_at": server.started_at,
        "uptime_s": max(0, int((utc_now() - instant(server.started_at)).total_seconds())),
    }


def _memory_bytes(pid: int) -> int | None:
    """The process's share of memory (PSS), where the system says (Linux)."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024
    return None


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:.0f} MB"


def _names(clients: list[dict[str, Any]]) -> str:
    return ", ".join(sorted({client["name"] or "unnamed" for client in clients}))
