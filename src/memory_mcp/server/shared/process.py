"""The process of a shared server: its start by a relay, and its end when no client is left."""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio.to_thread

from memory_mcp import logs, settings
from memory_mcp.app import App, open_app
from memory_mcp.errors import AppError
from memory_mcp.families import registry
from memory_mcp.relay.link import LOG
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.server import housekeeping, shutdown
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.shared.hello import CONNECTION_SETTINGS, Hello
from memory_mcp.server.shared.listener import RelayListener
from memory_mcp.system import garbage

log = logging.getLogger(__name__)

WATCH_INTERVAL_S = 5.0  # between two checks whether the socket is still in place


def main(argv: Sequence[str]) -> int:
    """`argv` holds the number of the inherited socket, and the arguments of the client that needs this server."""
    listening = socket.socket(fileno=int(argv[0]))
    listening.set_inheritable(False)
    try:
        client_settings = settings.load(settings.parser("memory-mcp serve").parse(argv[1:])).settings
        chosen = _server_settings(client_settings)
        logs.configure(chosen.log_level, chosen.data_dir / LOG)
        os.chdir(chosen.data_dir)
        garbage.start_collection()
        prepared = registry.select(registry.FAMILIES, client_settings.families)
        with open_app(chosen, prepared=prepared) as app:
            asyncio.run(SharedServer(app, listening).run())
    except AppError as exc:
        log.error("The shared server cannot start. %s", exc.text_for_owner)  # noqa: TRY400  # no bug
        listening.close()
        return 1
    shutdown.end_process(0)
    return 0


def _server_settings(chosen: settings.Settings) -> settings.Settings:
    """The settings of the client that starts this server, without those of its connection."""
    defaults = {name: settings.Settings.model_fields[name].default for name in CONNECTION_SETTINGS}
    return chosen.model_copy(update=defaults)


class SharedServer:
    def __init__(self, app: App, listening: socket.socket) -> None:
        self._app = app
        self._listening = listening
        self._ends = asyncio.Event()
        self._reconnects_on_demand = False

    async def run(self) -> None:
        """Serve relays until none is left for a while, a signal comes or a person stops it."""
        server = McpServer(self._app)
        server.start_notifications()
        self._app.servers.kind = "shared"
        self._app.servers.register_this()
        own = ServerSocket(str(self._app.settings.data_dir))
        listener = RelayListener(server, own, self._listening)
        listener.verbs |= {"stop": self._stop, "stop_if_idle": partial(self._stop_if_idle, listener)}
        listener.before_last_leaves = self._app.close_files
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._ends.set)
        tasks = [
            asyncio.create_task(listener.run()),
            asyncio.create_task(self._watch(listener)),
            asyncio.create_task(housekeeping.run(self._app)),
        ]
        await self._ends.wait()
        shutdown.limit_shutdown()
        await listener.hand_over(on_demand=self._reconnects_on_demand)
        for task in tasks:
            task.cancel()
        server.cancel_calls()
        server.pools.writing.drain(shutdown.MAX_WRITE_S)

    async def _watch(self, listener: RelayListener) -> None:
        """End this server when its socket is gone, and when no client is left: at once if new ones cannot come, else
        after the idle time."""
        idle_s = self._app.settings.shared_idle
        last_client = time.monotonic()
        while True:
            if listener.clients:
                last_client = time.monotonic()
            is_idle = not listener.clients and (listener.is_retired or time.monotonic() >= last_client + idle_s)
            if is_idle or listener.is_displaced:
                self._ends.set()
                return
            if not listener.clients:  # work in the background may have opened some again
                await anyio.to_thread.run_sync(self._app.close_files)
            listener.client_left.clear()
            remaining_s = WATCH_INTERVAL_S if listener.clients else min(WATCH_INTERVAL_S, max(idle_s, 0.05))
            try:
                await asyncio.wait_for(listener.client_left.wait(), remaining_s)
            except TimeoutError:
                continue

    async def _stop(self, hello: Hello) -> dict[str, Any]:
        self._reconnects_on_demand = True
        self._ends.set()
        return {"pid": os.getpid()}

    async def _stop_if_idle(self, listener: RelayListener, hello: Hello) -> dict[str, Any]:
        if listener.clients > 1:  # this request is one
            return {"clients": listener.clients - 1}
        return await self._stop(hello)
