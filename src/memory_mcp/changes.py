"""What changed, told to whoever listens: rooms say it, doors pass it on to their clients."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    user: str  # only this user's clients may learn of it
    uri: str | None  # the resource whose content changed; None when the list of resources did


class Changes:
    def __init__(self) -> None:
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` for every change from now on, from whatever thread made it."""
        self._listeners.append(listener)

    def resource_list(self, user: str) -> None:
        self._tell(Change(user, None))

    def resource(self, user: str, uri: str) -> None:
        self._tell(Change(user, uri))

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)
