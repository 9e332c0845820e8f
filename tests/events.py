"""The one place where a test polls: other processes and threads do not notify a test when they are done."""

import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_S = 60.0  # for a machine on which other programs keep every core busy
INTERVAL_S = 0.005

Found = TypeVar("Found")


def eventually(holds: Callable[[], Found | None], timeout_s: float = TIMEOUT_S) -> Found:
    """The first true answer. Fails if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"Not so after {timeout_s} s."
        time.sleep(INTERVAL_S)
    return found
