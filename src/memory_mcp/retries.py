"""Repeats a call whose database transaction was lost, where that changes nothing twice."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from memory_mcp.errors import TransactionLost, Unavailable

MAX_ATTEMPTS = 3  # of a call; each waits for a connection by itself

T = TypeVar("T")

_commits: ContextVar[list[None] | None] = ContextVar("commits", default=None)


def record_commit() -> None:
    """The database was changed by the call that runs in this thread."""
    commits = _commits.get()
    if commits is not None:
        commits.append(None)


def run(work: Callable[[], T], *, reads_only: bool) -> T:
    """Do the work, and do it again if the database undid its transaction before anything was committed, as after a
    lost connection, a deadlock or a serialization failure. Raises Unavailable, with `may_have_happened` if a part of
    the work was committed before."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        commits: list[None] = []
        before = _commits.set(commits)
        try:
            return work()
        except TransactionLost as exc:
            if commits and not reads_only:
                raise Unavailable(
                    "The database cannot be reached. A part of the change was saved. Look at what is stored before you "
                    "repeat it.",
                    may_have_happened=True,
                ) from exc
            if attempt == MAX_ATTEMPTS:
                raise
        finally:
            _commits.reset(before)
    raise AssertionError
