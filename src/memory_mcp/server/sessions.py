"""Who is connected through this door: their calls are counted, and somebody may hang up on them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import anyio.to_thread

from memory_mcp.caller import Caller
from memory_mcp.errors import Unavailable
from memory_mcp.server.request_context import MAX_CLIENT_NAME_CHARS
from memory_mcp.sessions import Client, Clients, Connection, Transport

TELL_AFTER = 1.0  # seconds in which calls are gathered before other servers are told


class ConnectedClients:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._endings: dict[str, list[Callable[[], None]]] = {}  # by connection
        self._translate_errors: asyncio.Task[None] | None = None

    def called(
        self,
        caller: Caller,
        connection: Connection,
        client_info: Mapping[str, Any],
        transport: Transport,
        protocol_version: str,
    ) -> None:
        """Count a call. Call inside the event loop."""
        meet = partial(_client, caller, connection.id, client_info, transport, protocol_version)
        self._clients.count_call(connection, meet, self._hanging_up(connection))
        self.tell_soon()

    def met(self, caller: Caller, connection: Connection, transport: Transport) -> None:
        """Somebody is connected who has not said anything yet. Call inside the event loop."""
        self._clients.register(
            connection, partial(_client, caller, connection.id, {}, transport, ""), self._hanging_up(connection)
        )
        self.tell_soon()

    def _hanging_up(self, connection: Connection) -> Callable[[], object]:
        return partial(asyncio.get_running_loop().call_soon_threadsafe, self._end, connection.id)

    @contextmanager
    def ending(self, connection: Connection, end: Callable[[], None]) -> Iterator[None]:
        """For the block, call `end` when somebody hangs up on the connection, at once if somebody has."""
        self._endings.setdefault(connection.id, []).append(end)
        try:
            if connection.closed:
                end()
            yield
        finally:
            endings = self._endings.get(connection.id, [])
            with suppress(ValueError):
                endings.remove(end)
            if not endings:
                self._endings.pop(connection.id, None)

    def tell_soon(self) -> None:
        if self._translate_errors is None or self._translate_errors.done():
            self._translate_errors = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        await asyncio.sleep(TELL_AFTER)
        with suppress(Unavailable):  # the next call tries again
            await anyio.to_thread.run_sync(self._bring_up_to_date)

    def _bring_up_to_date(self) -> None:
        self._clients.flush()
        self._clients.disconnect_unwanted()  # in case nobody could ask us to look

    def _end(self, connection_id: str) -> None:
        for end in list(self._endings.get(connection_id, ())):
            end()


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
