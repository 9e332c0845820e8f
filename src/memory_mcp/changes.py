"""What changed, told to whoever listens: rooms say it, doors pass it on to their clients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_AT_ONCE = 100  # resources named in one change


@dataclass(frozen=True)
class Change:
    user: str  # only this user's clients may learn of it
    uris: tuple[str, ...]  # resources whose content changed
    list_changed: bool = False  # whether resources came or went


class Changes:
    def __init__(self) -> None:
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` for every change from now on, from whatever thread made it."""
        self._listeners.append(listener)

    def tell(self, user: str, uris: Sequence[str], *, list_changed: bool) -> None:
        for start in range(0, len(uris), MOST_AT_ONCE):
            change = Change(user, tuple(uris[start : start + MOST_AT_ONCE]), list_changed)
            for listener in self._listeners:
                listener(change)
