"""Threads for synchronous work, shared fairly: no user and no family can hold all of them."""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from memory_mcp.errors import Unavailable
from memory_mcp.server.admission import reacquire_current, release_current
from memory_mcp.settings import Settings
from memory_mcp.system.operating_system import lower_thread_priority

log = logging.getLogger(__name__)

MAX_WAITING_PER_USER = 1000  # calls; a client over stdio has at most 256 under way
RETRY_AFTER_S = 5
ACCESS_THREADS = 8
HASHING_THREADS = 8
HASHING_NICENESS = 10  # a wrong key takes a quarter of a second of a processor, and anyone can send it

T = TypeVar("T")


@dataclass(frozen=True)
class Shares:
    """Which part of the threads may be busy at once, each at least one thread."""

    user: float = 1 / 2  # for one user
    user_family: float = 1 / 4  # for one user in one family
    family: float = 3 / 4  # for one family, over all users


ONE_USER = Shares(user=1.0, user_family=1 / 2, family=3 / 4)
"""For a server with one user."""


class Slots:
    """A semaphore that counts its holders by user and family. Free slots go to users round robin, and among the calls
    of one user to families round robin. Used inside one event loop only."""

    def __init__(self, count: int, shares: Shares, max_wait_s: float) -> None:
        self._count = count
        self._max_user = max(1, int(count * shares.user))
        self._max_user_family = max(1, int(count * shares.user_family))
        self._max_family = max(1, int(count * shares.family))
        self._max_wait_s = max_wait_s
        self.held = 0
        self._by_user: Counter[str] = Counter()
        self._by_family: Counter[str] = Counter()
        self._by_user_family: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}  # in round robin order

    async def acquire(self, user: str, family: str) -> None:
        """Raises Unavailable with `retry_after` when no slot was free in time, or too many calls of the user wait."""
        release_current()
        if self._has_free(user, family):
            self._take(user, family)
            return
        if sum(map(len, self._waiting.get(user, {}).values())) >= MAX_WAITING_PER_USER:
            raise _refusal()
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, {}).setdefault(family, deque()).append(granted)
        try:
            async with asyncio.timeout(self._max_wait_s):
                await granted
        except BaseException as exc:
            self._leave(user, family, granted)
            if isinstance(exc, TimeoutError):
                raise _refusal() from exc
            raise

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return sum(len(queue) for families in self._waiting.values() for queue in families.values())

    def release(self, user: str, family: str) -> None:
        self.held -= 1
        _subtract(self._by_user, user)
        _subtract(self._by_family, family)
        _subtract(self._by_user_family, (user, family))
        self._grant()

    def _has_free(self, user: str, family: str) -> bool:
        return (
            self.held < self._count
            and self._by_user[user] < self._max_user
            and self._by_user_family[user, family] < self._max_user_family
            and self._by_family[family] < self._max_family
        )

    def _take(self, user: str, family: str) -> None:
        self.held += 1
        self._by_user[user] += 1
        self._by_family[family] += 1
        self._by_user_family[user, family] += 1

    def _grant(self) -> None:
        """Hand out every free slot that some waiting call may have."""
        while self.held < self._count and (found := next(self._eligible(), None)):
            user, family = found
            families = self._waiting.pop(user)
            queue = families.pop(family)
            granted = queue.popleft()
            if not granted.done():  # else its call was cancelled just now
                self._take(user, family)
                granted.set_result(None)
            if queue:
                families[family] = queue  # behind the other families of this user
            if families:
                self._waiting[user] = families  # behind the other users

    def _eligible(self) -> Iterator[tuple[str, str]]:
        for user, families in self._waiting.items():
            for family in families:
                if self._has_free(user, family):
                    yield user, family

    def _leave(self, user: str, family: str, granted: "asyncio.Future[None]") -> None:
        if granted.done() and not granted.cancelled():  # granted while it was being cancelled
            self.release(user, family)
            return
        families = self._waiting.get(user, {})
        with suppress(ValueError):  # it got a slot after it was cancelled
            families.get(family, deque()).remove(granted)
        if family in families and not families[family]:
            del families[family]
        if user in self._waiting and not families:
            del self._waiting[user]


@dataclass
class _Job:
    work: Callable[[], Any]
    done: "asyncio.Future[Any]"
    user: str
    family: str
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    has_waiting_result: bool = False  # whose caller releases the slot


class Workers:
    """A pool of threads behind fair slots. Its threads are daemons: the process can end without them."""

    def __init__(
        self, name: str, threads: int, *, shares: Shares | None = None, max_wait_s: float = 30.0, niceness: int = 0
    ) -> None:
        """`niceness` of the threads, beyond the server's."""
        self.name = name
        self._niceness = niceness
        self.slots = Slots(threads, shares or Shares(), max_wait_s)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._change = threading.Condition()  # of the number of jobs under way

    async def run(self, work: Callable[[], T], *, user: str, family: str) -> T:
        """Run `work` in a thread. A cancelled caller leaves the queue; work that has begun keeps its thread, and its
        user's share of the threads, until it ends, and the share until its result can be answered: results that wait
        use memory."""
        await self.slots.acquire(user, family)
        in_context = partial(copy_context().run, work)  # so that its log lines have the request's id
        job = _Job(in_context, asyncio.get_running_loop().create_future(), user, family)
        with self._change:
            self._busy += 1
            if self._busy > self._threads:
                self._threads += 1
                name = f"{self.name}-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put(job)
        try:
            result: T = await job.done
            await reacquire_current()
        finally:
            if job.has_waiting_result:
                self.slots.release(user, family)
        return result

    @asynccontextmanager
    async def slot(self, user: str, family: str) -> AsyncIterator[None]:
        """Count the block as one thread of this pool, for frameworks that bring their own threads."""
        await self.slots.acquire(user, family)
        try:
            yield
        finally:
            self.slots.release(user, family)

    def drain(self, timeout_s: float) -> bool:
        """Wait until no job is under way; False if some still are after `timeout_s`. Call when no more jobs come."""
        until = monotonic() + timeout_s
        with self._change:
            while self._busy and (left := until - monotonic()) > 0:
                self._change.wait(left)
            return not self._busy

    def _work(self) -> None:
        if self._niceness:
            lower_thread_priority(self._niceness)
        while True:
            job = self._jobs.get()
            result: Any = None
            error: BaseException | None = None
            try:
                result = job.work()
            except StopIteration as exc:  # which no future can carry
                error = RuntimeError(f"A worker raised {exc!r}")
            except BaseException as exc:  # noqa: BLE001  # raised again where the job is awaited
                error = exc
            with self._change:
                self._busy -= 1
                self._change.notify_all()
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                job.loop.call_soon_threadsafe(self._finish, job, result, error)
            del job, result, error

    def _finish(self, job: _Job, result: Any, error: BaseException | None) -> None:
        if job.done.done():  # the caller has left
            self.slots.release(job.user, job.family)
            if error is not None and not isinstance(error, Exception):
                log.error("A worker thread ended with %r after its caller had left", error)
            return
        job.has_waiting_result = True
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)


def _subtract(counter: "Counter[Any]", key: Any) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _refusal() -> Unavailable:
    return Unavailable(
        f"The server is busy: every thread that this caller may use has been taken. Try again in {RETRY_AFTER_S} s, "
        "with fewer calls at once.",
        retry_after=RETRY_AFTER_S,
    )


@dataclass(frozen=True)
class Pools:
    """All threads that answer callers. The pools are separate, so that writers who wait for a lock do not delay
    readers, busy families do not delay the check of keys and sign-ins, and wrong keys do not delay known ones."""

    reading: Workers
    writing: Workers
    access: Workers
    """For keys and sign-ins that were verified before, limits and metrics; by address until the user is known."""
    hashing: Workers  # for passwords, and keys that were not verified before; by address, at a low priority

    @classmethod
    def from_settings(cls, settings: Settings) -> "Pools":
        shares, wait_s = ONE_USER if settings.transport == "stdio" else Shares(), float(settings.queue_seconds)
        return cls(
            reading=Workers("reading", settings.read_threads, shares=shares, max_wait_s=wait_s),
            writing=Workers("writing", settings.write_threads, shares=shares, max_wait_s=wait_s),
            access=Workers("access", ACCESS_THREADS, shares=Shares(user_family=1 / 2), max_wait_s=wait_s),
            hashing=Workers(
                *("hashing", HASHING_THREADS),
                shares=Shares(user_family=1 / 2),
                max_wait_s=wait_s,
                niceness=HASHING_NICENESS,
            ),
        )

    def pool(self, *, reads: bool) -> Workers:
        return self.reading if reads else self.writing
