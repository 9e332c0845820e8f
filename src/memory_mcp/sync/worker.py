"""The thread that syncs by itself, for every user who has linked a hub."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta

from memory_mcp.changes import Change
from memory_mcp.clock import instant, precise_stamp, utc_now
from memory_mcp.errors import AppError, RateLimited
from memory_mcp.sync.node import Busy, Sync

log = logging.getLogger(__name__)

BOOT_SECONDS = 1.0  # before the first look, so that a starting server answers its client first
GATHER = 0.5  # seconds after a change, so that many changes go together
STOP_SECONDS = 2.0
BUSY_PAUSE = 1.0  # seconds while another process exchanges for us: no failure
MIN_BACKOFF_S = 2.0  # seconds after a failure, doubled by each further one
MAX_BACKOFF_S = 300.0


class SyncWorker:
    """Exchanges when something changed here, and every so often. Processes on the same data take turns."""

    def __init__(self, sync: Sync, linked: Callable[[], Iterable[str]], every: float) -> None:
        self._sync = sync
        self._linked = linked
        self._every = every
        self._guard = threading.Lock()
        self._due: dict[str, float] = {}  # by user, on the monotonic clock
        self._failures: dict[str, int] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def follow(self, change: Change) -> None:
        if change.uris:
            self.wake(change.user)

    def wake(self, user: str) -> None:
        """Something changed. Whoever fails waits all the same."""
        with self._guard:
            if not self._failures.get(user):
                self._due[user] = min(self._due.get(user, 0.0), time.monotonic() + GATHER)
        self._wake.set()

    def try_again(self, user: str) -> None:
        """What kept an exchange from ending well may be mended."""
        with self._guard:
            self._failures.pop(user, None)
        self.wake(user)

    def behind(self) -> tuple[int, float]:
        """How many changes wait, of all users, and for how many seconds the one who is furthest behind has been so."""
        outbox, lag = 0, 0.0
        for user in self._linked():
            with suppress(AppError):
                status = self._sync.status(user)
                enabled = [one.enabled_at for one in status.namespaces if one.enabled]
                since = [status.synced_at] if enabled and status.synced_at else enabled
                outbox += status.outbox
                lag = max([lag, *((utc_now() - instant(text)).total_seconds() for text in since)])
        return outbox, lag

    def _run(self) -> None:
        self._stopping.wait(BOOT_SECONDS)
        while not self._stopping.is_set():
            self._wake.clear()
            linked = list(self._linked())
            self._forget_all_but(linked)
            for user in linked:
                if not self._stopping.is_set() and self._is_due(user):
                    self._exchange(user)
            self._wake.wait(self._pause())
            self._stopping.wait(GATHER if self._wake.is_set() else 0)

    def _forget_all_but(self, linked: Sequence[str]) -> None:
        """Nobody's turn is waited for who is linked no more, or never was."""
        with self._guard:
            for user in self._due.keys() - set(linked):
                del self._due[user]
                self._failures.pop(user, None)

    def _is_due(self, user: str) -> bool:
        with self._guard:
            return self._due.get(user, 0.0) <= time.monotonic()

    def _pause(self) -> float:
        """Until the next user's turn, and not longer than a newly linked one waits."""
        with self._guard:
            soonest = min(self._due.values(), default=math.inf)
        return max(0.1, min(soonest - time.monotonic(), self._every))

    def _exchange(self, user: str) -> None:
        self._put_off(user, self._every)
        try:
            if self._sync.is_needed(user, since=self._just_now()):
                self._sync.run(user, wait=0.0, pause=self._stopping.wait)
        except Busy:
            self._put_off(user, BUSY_PAUSE)
        except RateLimited as exc:
            self._put_off(user, float(exc.data["retry_after"]))
        except AppError as exc:
            self._failed(user, exc)
        except Exception:  # a bug there must not end the thread: the others sync on
            log.exception("Syncing failed")
            self._put_off(user, MAX_BACKOFF_S)
        else:
            with self._guard:
                self._failures.pop(user, None)

    def _just_now(self) -> str:
        """Whoever asked the hub since then asked for all processes on the same data."""
        return precise_stamp(utc_now() - timedelta(seconds=self._every * 0.9))

    def _failed(self, user: str, error: AppError) -> None:
        """Full jitter: nodes that failed together do not come back together."""
        with self._guard:
            failures = self._failures[user] = self._failures.get(user, 0) + 1
        longest = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(failures, 10))
        self._put_off(user, random.uniform(MIN_BACKOFF_S / 2, longest))  # noqa: S311  # no secret
        (log.warning if failures == 1 else log.debug)("Syncing waits: %s", error.message)

    def _put_off(self, user: str, seconds: float) -> None:
        with self._guard:
            self._due[user] = time.monotonic() + seconds
