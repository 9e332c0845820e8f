"""How many bytes of request bodies each user has in memory: from their first byte until the request is answered."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

RETRY_AFTER_S = 5
BODY = "memory_mcp.body"  # where a request's scope has its body


class RequestMemory:
    """The bodies of all requests under way, counted by user. Used inside one event loop only."""

    def __init__(self, max_user_bytes: int) -> None:
        self._max_user_bytes = max_user_bytes
        self._held: Counter[str] = Counter()

    def add(self, user: str, count: int) -> None:
        self._held[user] += count

    def subtract(self, user: str, count: int) -> None:
        self._held[user] -= count
        if self._held[user] <= 0:
            del self._held[user]

    def check(self, user: str, own: int, more: int) -> None:
        """Refuse a body of which `own` bytes are here and `more` have come. One alone is never refused: it has a limit
        of its own. The error is FastAPI's: it would report any other as an unreadable body."""
        held = self._held[user]
        if held > own and held + more > self._max_user_bytes:
            from fastapi import HTTPException  # a server over stdio does not need it

            raise HTTPException(
                503,
                f"Your requests under way take up {self._max_user_bytes:,} bytes, as many as they may. "
                f"Try again in {RETRY_AFTER_S} s, with fewer at once.",
                {"Retry-After": str(RETRY_AFTER_S)},
            )


class HeldBody:
    """The body of one request. It counts while the request, or the call that it has begun, holds it."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._user = ""
        self._bytes = 0
        self._holders = 0

    def add(self, user: str, count: int) -> None:
        """Raises HTTPException if the user's bodies are too large together."""
        self._user = self._user or user
        self._memory.check(self._user, self._bytes, count)
        self._bytes += count
        self._memory.add(self._user, count)

    @contextmanager
    def hold(self) -> Iterator[None]:
        if not self._holders:
            self._memory.add(self._user, self._bytes)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._memory.subtract(self._user, self._bytes)


def body_of(scope: Mapping[str, Any]) -> HeldBody | None:
    found: HeldBody | None = scope.get(BODY)
    return found
