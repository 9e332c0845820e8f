"""Change notifications to the user's clients that listen, with and without a handshake."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from memory_mcp.caller import Caller, Scope
from memory_mcp.changes import Change
from memory_mcp.errors import Invalid

MAX_SUBSCRIPTIONS = 1000  # resources one client may watch
MAX_UNREAD_CHANGES = 100  # changes that a page has not read yet


class HandshakeListener:
    """One client with a handshake. Unsent notifications are kept once per resource, so the queue stays short
    however slowly the client reads."""

    def __init__(self, caller: Caller, connection: Connection) -> None:
        self._caller = caller
        self.subscribed: dict[str, str] = {}  # an address as the client spells it -> as changes name it
        self._connection = connection
        self._list_changed = False
        self._updated: dict[str, None] = {}  # in the order they changed
        self._sending: asyncio.Task[None] | None = None

    def notify(self, change: Change) -> None:
        if not change.concerns(self._caller) or Scope.READ not in self._caller.scopes:
            return
        self._list_changed |= change.list_changed
        self._updated |= dict.fromkeys(spelled for spelled, uri in self.subscribed.items() if uri in change.uris)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        while self._updated or self._list_changed:
            if self._updated:
                uri = next(iter(self._updated))
                del self._updated[uri]
                await self._connection.send_resource_updated(uri)
            else:
                self._list_changed = False
                await self._connection.send_resource_list_changed()


class UserListeners:
    """The listen streams of one user, or of the user's keys confined to one namespace: the
    requests `subscriptions/listen` of clients without a handshake."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.handler = ListenHandler(self._bus)

    async def notify(self, change: Change) -> None:
        for uri in change.uris:
            await self._bus.publish(ResourceUpdated(uri=uri))
        if change.list_changed:
            await self._bus.publish(ResourcesListChanged())


class Listeners:
    """All clients and pages that are notified of changes."""

    def __init__(self, max_user_streams: int) -> None:
        self._max_user_streams = max_user_streams
        self._streams: dict[str, list[Callable[[], None]]] = {}  # by user, what ends each listen stream
        self._handshake: dict[Connection, HandshakeListener] = {}
        self._users: dict[tuple[str, str | None], UserListeners] = {}  # by user and what they are confined to
        self._pages: dict[asyncio.Queue[Change | None], str] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def thread_safe_notify(self) -> Callable[[Change], None]:
        """A function that notifies every listener and can be called from any thread."""
        loop = asyncio.get_running_loop()

        def notify(change: Change) -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                loop.call_soon_threadsafe(self._notify_all, change)

        return notify

    def add(self, caller: Caller, connection: Connection) -> None:
        self._handshake[connection] = HandshakeListener(caller, connection)

    def remove(self, connection: Connection) -> None:
        if listener := self._handshake.pop(connection, None):
            listener.close()

    def subscribe(self, connection: Connection, uri: str, spelled: str) -> None:
        """Notify a client of changes of `uri`, in its own spelling. Raises Invalid if it watches too many."""
        subscribed = self._handshake[connection].subscribed
        if len(subscribed) >= MAX_SUBSCRIPTIONS:
            raise Invalid(f"At most {MAX_SUBSCRIPTIONS} resources can be watched. Unsubscribe from some.", field="uri")
        subscribed[spelled] = uri

    def unsubscribe(self, connection: Connection, spelled: str) -> None:
        self._handshake[connection].subscribed.pop(spelled, None)

    def of(self, caller: Caller) -> UserListeners:
        return self._users.setdefault((caller.user, caller.confined_to), UserListeners())

    @contextmanager
    def register_stream(self, user: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a listen stream of a user while the block runs. `end` is called if it is the oldest of too many."""
        streams = self._streams.setdefault(user, [])
        if len(streams) >= self._max_user_streams:
            streams.pop(0)()
        streams.append(end)
        try:
            yield
        finally:
            with suppress(ValueError):  # a newer stream has ended it
                streams.remove(end)
            if not streams:
                self._streams.pop(user, None)

    @contextmanager
    def page(self, user: str) -> Iterator["asyncio.Queue[Change | None]"]:
        """The changes of a user's data, for a page of the web app; None when the server stops. A page that reads too
        slowly misses some."""
        changes: asyncio.Queue[Change | None] = asyncio.Queue(MAX_UNREAD_CHANGES)
        self._pages[changes] = user
        try:
            yield changes
        finally:
            del self._pages[changes]

    def close(self) -> None:
        """End the listen streams with their final frame."""
        for user in self._users.values():
            user.handler.close()
        for changes in self._pages:
            _put(changes, None)

    def _notify_all(self, change: Change) -> None:
        for changes, user in self._pages.items():
            if user == change.user:
                _put(changes, change)
        if not (change.uris or change.list_changed):
            return
        for listener in self._handshake.values():
            listener.notify(change)
        for confined_to in {None, change.namespace}:
            if listeners := self._users.get((change.user, confined_to)):
                task = asyncio.get_running_loop().create_task(listeners.notify(change))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)


def _put(changes: "asyncio.Queue[Change | None]", change: Change | None) -> None:
    if changes.full():
        changes.get_nowait()
    changes.put_nowait(change)
