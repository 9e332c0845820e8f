"""Admits requests to the event loop, which all users share. The user who has recently used least of it comes first."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

MAX_START_S = 0.05  # after which another request is admitted: this one waits for something
HALF_LIFE_S = 1.0  # after which what a user has used counts half
BYTES_PER_REQUEST = 50_000  # of a body, which take as long to parse or to write as a request without one takes in all
BRACKETS_PER_REQUEST = 1_000  # that begin lists and objects in a body: so do these
MAX_USERS = 10_000  # whose use is remembered


class Permit:
    """The right of one request to run on the event loop: until it waits for a thread, and again to make its answer."""

    def __init__(self, admission: "Admission", user: str) -> None:
        self._admission = admission
        self._user = user
        self._has_ended = False
        self._hold()

    def _hold(self) -> None:
        self._is_held = True
        self._timer = asyncio.get_running_loop().call_later(MAX_START_S, self.release)

    def release(self) -> None:
        """Let the next request run. Only the first call has an effect."""
        if self._is_held:
            self._is_held = False
            self._timer.cancel()
            self._admission.release()

    async def reacquire(self) -> None:
        """Wait for the right to make the answer. Without effect after the request: a session lives longer than the one
        that began it."""
        if not self._is_held and not self._has_ended:
            await self._admission.wait(self._user, 0)
            self._hold()
            if self._has_ended:  # meanwhile
                self.release()

    def count_answer(self, body_bytes: int) -> None:
        self._admission.count(self._user, body_bytes / BYTES_PER_REQUEST)

    def end(self) -> None:
        self._has_ended = True
        self.release()


class Admission:
    """A lock: one request starts, or makes its answer, at a time, as the loop does one thing at a time anyway. Among
    the users whose requests wait, the one with the least recent use goes first: a user who sends many requests, or asks
    for long answers, delays their own. Used inside one event loop only."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._usage = RecentUse(now)
        self._is_held = False
        self._waiting: dict[str, deque[_Waiting]] = {}

    async def acquire(self, user: str, body_bytes: int = 0, brackets: int = 0) -> Permit:
        """A permit for a request with a body of that size, and so many lists and objects."""
        cost = 1 + body_bytes / BYTES_PER_REQUEST + brackets / BRACKETS_PER_REQUEST
        await self.wait(user, cost)
        return Permit(self, user)

    async def wait(self, user: str, cost: float) -> None:
        """Return when the lock is held for the user."""
        if self._is_held:
            await self._wait(user, cost)
        else:
            self._is_held = True
            self.count(user, cost)

    def count(self, user: str, cost: float) -> None:
        self._usage.add(user, cost)

    def release(self) -> None:
        while self._waiting:
            user = min(self._waiting, key=self._usage.of)
            queue = self._waiting[user]
            first = queue.popleft()
            if not queue:
                del self._waiting[user]
            if not first.granted.done():  # else its request was cancelled just now
                self.count(user, first.cost)
                first.granted.set_result(None)
                return
        self._is_held = False

    async def _wait(self, user: str, cost: float) -> None:
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(_Waiting(granted, cost))
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # granted while it was being cancelled
                self.release()
            raise


class _Waiting(NamedTuple):
    granted: asyncio.Future[None]
    cost: float


class RecentUse:
    """How much each user has used: what was used a while ago counts less."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._used: dict[str, tuple[float, float]] = {}  # how much, and when that was so; the latest change last

    def add(self, user: str, amount: float) -> None:
        total = self.of(user) + amount
        self._used.pop(user, None)
        self._used[user] = (total, self._now())
        while len(self._used) > MAX_USERS:
            del self._used[next(iter(self._used))]

    def of(self, user: str) -> float:
        amount, at = self._used.get(user, (0.0, 0.0))
        return amount * 0.5 ** ((self._now() - at) / HALF_LIFE_S) if amount else 0.0


CURRENT: ContextVar[Permit | None] = ContextVar("permit", default=None)
"""The permit of the request that is being handled, if it has one."""


def release_current() -> None:
    """Let the next request start: this one waits for a thread."""
    if permit := CURRENT.get():
        permit.release()


async def reacquire_current() -> None:
    """Wait for the right to make the answer: a thread has done its part."""
    if permit := CURRENT.get():
        await permit.reacquire()
