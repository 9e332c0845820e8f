"""The clients connected to this server: counts their calls, and disconnects them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import anyio.to_thread

from memory_mcp.caller import Caller
from memory_mcp.errors import Unavailable
from memory_mcp.server.request_context import MAX_CLIENT_NAME_CHARS
from memory_mcp.services.access import Keys
from memory_mcp.services.sessions import Client, Clients, Connection, Transport

FLUSH_DELAY_S = 1.0  # calls are counted for this long before they are stored for the other servers


class ConnectedClients:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._on_close: dict[str, list[Callable[[], None]]] = {}  # by connection: what to call when it is closed
        self._flushing: asyncio.Task[None] | None = None

    def count_call(
        self,
        caller: Caller,
        connection: Connection,
        client_info: Mapping[str, Any],
        transport: Transport,
        protocol_version: str,
    ) -> None:
        """Count a call. Call inside the event loop."""
        describe = partial(_client, caller, connection.id, client_info, transport, protocol_version)
        self._clients.count_call(connection, describe, self._closer(connection))
        self.flush_soon()

    def register(self, caller: Caller, connection: Connection, transport: Transport) -> None:
        """Register a client that has made no call yet. Call inside the event loop."""
        self._clients.register(
            connection, partial(_client, caller, connection.id, {}, transport, ""), self._closer(connection)
        )
        self.flush_soon()

    def _closer(self, connection: Connection) -> Callable[[], object]:
        return partial(asyncio.get_running_loop().call_soon_threadsafe, self._end, connection.id)

    @contextmanager
    def call_on_close(self, connection: Connection, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` when the connection is closed during the block, at once if it is closed already."""
        self._on_close.setdefault(connection.id, []).append(end)
        try:
            if connection.closed:
                end()
            yield
        finally:
            callbacks = self._on_close.get(connection.id, [])
            with suppress(ValueError):
                callbacks.remove(end)
            if not callbacks:
                self._on_close.pop(connection.id, None)

    def flush_soon(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(FLUSH_DELAY_S)
        with suppress(Unavailable):  # the next call tries again
            await anyio.to_thread.run_sync(self._flush_now)

    def _flush_now(self) -> None:
        self._clients.flush()
        self._clients.disconnect_unwanted()  # in case the request of another server got lost

    def _end(self, connection_id: str) -> None:
        for end in list(self._on_close.get(connection_id, ())):
            end()


def disconnect_refused(clients: Clients, keys: Keys) -> None:
    """Disconnect the clients whose key was revoked or has expired, and those that a user wants disconnected."""
    by_key = [client for client in clients.local() if client.key_id]
    if by_key:
        refused = keys.refused_ids({str(client.key_id) for client in by_key})
        if over := [client.id for client in by_key if client.key_id in refused]:
            clients.disconnect_local(over)
    clients.disconnect_unwanted()


def _client(
    caller: Caller,
    id_: str,
    client_info: Mapping[str, Any],
    transport: Transport,
    protocol_version: str,
    now: str,
) -> Client:
    return Client(
        id=id_,
        user=caller.user,
        key_id=caller.key_id,
        name=_shown(client_info.get("name")),
        version=_shown(client_info.get("version")),
        ip=caller.ip,
        transport=transport,
        protocol_version=protocol_version,
        started_at=now,
        last_call_at=now,
    )


def _shown(text: object) -> str:
    return text[:MAX_CLIENT_NAME_CHARS] if isinstance(text, str) else ""
