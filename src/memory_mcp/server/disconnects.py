"""Detects that the client of an HTTP request has closed its connection."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.types import Message, Receive

DISCONNECT = "memory_mcp.disconnect"  # where a request's scope has it


class Disconnect:
    """The disconnect of one request's client. Used inside one event loop only."""

    def __init__(self) -> None:
        self.event = threading.Event()  # for work in threads
        self._callbacks: dict[object, Callable[[], object]] = {}

    def notify(self) -> None:
        self.event.set()
        for callback in list(self._callbacks.values()):
            callback()

    @contextmanager
    def call_on_disconnect(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` if the client disconnects during the block, at once if it has disconnected."""
        token = object()
        self._callbacks[token] = callback
        try:
            if self.event.is_set():
                callback()
            yield
        finally:
            del self._callbacks[token]

    def watch(self, receive: Receive) -> Receive:
        """The same `receive`, which also detects a disconnect."""

        async def watch() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.notify()
            return message

        return watch

    async def wait(self, receive: Receive) -> None:
        """Return when the client has disconnected. For requests whose body has been read."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.notify()


def disconnect_of(scope: Mapping[str, Any]) -> Disconnect | None:
    found: Disconnect | None = scope.get(DISCONNECT)
    return found
