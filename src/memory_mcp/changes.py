"""Change events: families publish them, and servers notify their clients of them."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from memory_mcp.caller import Caller

log = logging.getLogger(__name__)

BATCH_DELAY_S = 0.05  # changes within it are sent together: a thousand writes must not become as many notifications
MAX_URI_BYTES = 1500  # in one change
KEYS_TOPIC = "keys"  # a user's keys were created, revoked or used

_Audience = tuple[str, str | None]  # the user and, if it is one alone, the namespace


@dataclass(frozen=True)
class Change:
    user: str  # only this user's clients are notified
    uris: tuple[str, ...]  # resources whose content changed
    list_changed: bool = False  # whether resources were added or removed
    topics: tuple[str, ...] = ()  # parts of the web app to refresh, such as 'clients'
    namespace: str | None = None  # of all these resources; callers confined to another namespace are not notified

    def concerns(self, caller: Caller) -> bool:
        is_inside = not caller.is_confined or self.namespace == caller.namespace
        return self.user == caller.user and is_inside


class Changes:
    """Collects changes and passes them to the listeners in its own thread, so that no write waits for a listener."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Change], None]] = []
        self._lock = threading.Lock()
        self._has_changes = threading.Event()
        self._uris: dict[_Audience, dict[str, None]] = {}  # in the order they changed
        self._lists: set[_Audience] = set()
        self._topics: dict[str, dict[str, None]] = {}  # by user
        self._closing = False
        threading.Thread(target=self._run, name="changes", daemon=True).start()

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` for every change from now on."""
        self._listeners.append(listener)

    def publish(self, user: str, uris: Iterable[str], *, list_changed: bool, namespace: str | None = None) -> None:
        """Report changed resources. `namespace` is theirs if all are in one; confined callers see only their own."""
        audience = user, namespace
        with self._lock:
            self._uris.setdefault(audience, {}).update(dict.fromkeys(uris))
            if list_changed:
                self._lists.add(audience)
        self._has_changes.set()

    def publish_topic(self, user: str, topic: str) -> None:
        """Report a change to the web app only: MCP has no notification for it."""
        with self._lock:
            self._topics.setdefault(user, {})[topic] = None
        self._has_changes.set()

    def close(self) -> None:
        """Publish the remaining changes and stop."""
        self._closing = True
        self._has_changes.set()
        self._flush()

    def _run(self) -> None:
        while not self._closing:
            self._has_changes.wait()
            time.sleep(0 if self._closing else BATCH_DELAY_S)
            self._has_changes.clear()
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            changed_uris, self._uris = self._uris, {}
            lists, self._lists = self._lists, set()
            topics, self._topics = self._topics, {}
        for audience, changed in changed_uris.items():
            user, namespace = audience
            for number, uris in enumerate(_batches(changed)):
                own_topics = tuple(topics.pop(user, ()))  # with the first change of the user, not as another one
                self._notify_listeners(Change(user, uris, audience in lists and number == 0, own_topics, namespace))
        for user, others in topics.items():
            self._notify_listeners(Change(user, (), topics=tuple(others)))

    def _notify_listeners(self, change: Change) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:  # the boundary of the thread: a bug in one listener must not silence the others
                log.exception("A listener for changes failed; the others are still notified")


def _batches(uris: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Groups of at most MAX_URI_BYTES, so that each fits into one message of any transport."""
    batch: list[str] = []
    size = 0
    for uri in uris:
        if batch and size + len(uri) > MAX_URI_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(uri)
        size += len(uri)
    yield tuple(batch)
