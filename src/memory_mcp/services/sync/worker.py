"""The background thread that syncs every user who has linked a hub."""

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
from memory_mcp.services.sync.node import Sync, SyncBusy

log = logging.getLogger(__name__)

START_DELAY_S = 1.0  # before the first exchange, so that a starting server answers its client first
BATCH_DELAY_S = 0.5  # after a change, so that many changes go together
STOP_TIMEOUT_S = 2.0
BUSY_DELAY_S = 1.0  # while another process syncs, which is no failure
MIN_BACKOFF_S = 2.0  # after a failure, doubled by each further one
MAX_BACKOFF_S = 300.0


class SyncWorker:
    """Syncs after changes, and at an interval. A lock keeps processes on the same data apart."""

    def __init__(self, sync: Sync, linked: Callable[[], Iterable[str]], every: float) -> None:
        self._sync = sync
        self._linked = linked
        self._every = every
        self._lock = threading.Lock()
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
            self._thread.join(STOP_TIMEOUT_S)

    def on_change(self, change: Change) -> None:
        if change.uris:
            self.wake(change.user)

    def wake(self, user: str) -> None:
        """Sync soon, because something changed. After a failure the backoff still applies."""
        with self._lock:
            if not self._failures.get(user):
                self._due[user] = min(self._due.get(user, 0.0), time.monotonic() + BATCH_DELAY_S)
        self._wake.set()

    def try_again(self, user: str) -> None:
        """Sync soon, without backoff: the cause of a failure may be fixed."""
        with self._lock:
            self._failures.pop(user, None)
        self.wake(user)

    def lag(self) -> tuple[int, float]:
        """How many changes of all users wait, and the longest time in seconds since a user's last exchange."""
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
        self._stopping.wait(START_DELAY_S)
        while not self._stopping.is_set():
            self._wake.clear()
            linked = list(self._linked())
            self._drop_unlinked(linked)
            for user in linked:
                if not self._stopping.is_set() and self._is_due(user):
                    self._exchange(user)
            self._wake.wait(self._pause())
            self._stopping.wait(BATCH_DELAY_S if self._wake.is_set() else 0)

    def _drop_unlinked(self, linked: Sequence[str]) -> None:
        """Drop users who are not linked."""
        with self._lock:
            for user in self._due.keys() - set(linked):
                del self._due[user]
                self._failures.pop(user, None)

    def _is_due(self, user: str) -> bool:
        with self._lock:
            return self._due.get(user, 0.0) <= time.monotonic()

    def _pause(self) -> float:
        """Seconds until the next user is due, at most the interval, so that newly linked users are noticed."""
        with self._lock:
            soonest = min(self._due.values(), default=math.inf)
        return max(0.1, min(soonest - time.monotonic(), self._every))

    def _exchange(self, user: str) -> None:
        self._delay(user, self._every)
        try:
            if self._sync.is_needed(user, since=self._recently()):
                self._sync.run(user, wait=0.0, pause=self._stopping.wait)
        except SyncBusy:
            self._delay(user, BUSY_DELAY_S)
        except RateLimited as exc:
            self._delay(user, float(exc.data["retry_after"]))
        except AppError as exc:
            self._back_off(user, exc)
        except Exception:  # a bug must not end the thread: other users keep syncing
            log.exception("Syncing failed")
            self._delay(user, MAX_BACKOFF_S)
        else:
            with self._lock:
                self._failures.pop(user, None)

    def _recently(self) -> str:
        """An exchange since then, by any process on the same data, is recent enough."""
        return precise_stamp(utc_now() - timedelta(seconds=self._every * 0.9))

    def _back_off(self, user: str, error: AppError) -> None:
        """Back off with full jitter: nodes that failed together do not retry together."""
        with self._lock:
            failures = self._failures[user] = self._failures.get(user, 0) + 1
        limit_s = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(failures, 10))
        self._delay(user, random.uniform(MIN_BACKOFF_S / 2, limit_s))  # noqa: S311  # no secret
        (log.warning if failures == 1 else log.debug)("Sync failed, will retry: %s", error.message)

    def _delay(self, user: str, seconds: float) -> None:
        with self._lock:
            self._due[user] = time.monotonic() + seconds
