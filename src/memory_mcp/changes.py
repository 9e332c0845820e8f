"""What changed: families publish it, and the server notifies its clients."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError

log = logging.getLogger(__name__)

GATHER_S = 0.05  # in which changes are gathered, so that a thousand writes are not a thousand notifications
MAX_URI_BYTES = 1500  # of addresses in one change

_Where = tuple[str, str | None]  # the user and, if it is one alone, the namespace


@dataclass(frozen=True)
class Change:
    user: str  # only this user's clients may learn of it
    uris: tuple[str, ...]  # resources whose content changed
    list_changed: bool = False  # whether resources came or went
    topics: tuple[str, ...] = ()  # what else changed that pages of the web app show, such as 'clients'
    namespace: str | None = None  # where all of it happened; a caller confined to another one may not learn of it

    def concerns(self, caller: Caller) -> bool:
        is_inside = not caller.is_confined or self.namespace == caller.namespace
        return self.user == caller.user and is_inside


class Changes:
    """Gathers changes and passes them to the listeners from a thread of its own, so that no write waits for it."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Change], None]] = []
        self._guard = threading.Lock()
        self._something = threading.Event()
        self._uris: dict[_Where, dict[str, None]] = {}  # in the order they changed
        self._lists: set[_Where] = set()
        self._topics: dict[str, dict[str, None]] = {}  # by user
        self._closing = False
        threading.Thread(target=self._run, name="changes", daemon=True).start()

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` for every change from now on."""
        self._listeners.append(listener)

    def publish(self, user: str, uris: Iterable[str], *, list_changed: bool, namespace: str | None = None) -> None:
        """`namespace` is where it happened, if that is a single one: confined callers learn only of their own."""
        where = user, namespace
        with self._guard:
            self._uris.setdefault(where, {}).update(dict.fromkeys(uris))
            if list_changed:
                self._lists.add(where)
        self._something.set()

    def publish_topic(self, user: str, topic: str) -> None:
        """For pages of the web app alone: MCP has no notification for it."""
        with self._guard:
            self._topics.setdefault(user, {})[topic] = None
        self._something.set()

    def close(self) -> None:
        """Pass on what is left."""
        self._closing = True
        self._something.set()
        self._flush()

    def _run(self) -> None:
        while not self._closing:
            self._something.wait()
            time.sleep(0 if self._closing else GATHER_S)
            self._something.clear()
            self._flush()

    def _flush(self) -> None:
        with self._guard:
            gathered, self._uris = self._uris, {}
            lists, self._lists = self._lists, set()
            topics, self._topics = self._topics, {}
        for where, changed in gathered.items():
            user, namespace = where
            for number, uris in enumerate(_portions(changed)):
                own_topics = tuple(topics.pop(user, ()))  # with the first change of the user, not as another one
                self._pass_on(Change(user, uris, where in lists and number == 0, own_topics, namespace))
        for user, others in topics.items():
            self._pass_on(Change(user, (), topics=tuple(others)))

    def _pass_on(self, change: Change) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except (AppError, OSError, RuntimeError):  # of this listener alone; the thread goes on
                log.exception("A listener failed; the others are notified all the same")


def _portions(uris: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Few enough at once for any kind of message."""
    portion: list[str] = []
    size = 0
    for uri in uris:
        if portion and size + len(uri) > MAX_URI_BYTES:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(uri)
        size += len(uri)
    yield tuple(portion)
