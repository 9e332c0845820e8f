"""The one place where a test polls: other processes and threads do not notify a test when they are done."""

import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_S = 60.0  # for a machine on which other programs keep every core busy
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.005, 0.1

Found = TypeVar("Found")


def eventually(holds: Callable[[], Found | None], timeout_s: float = TIMEOUT_S) -> Found:
    """The first true answer. Fails if there is none in time. The longer it waits, the less often it asks: what it
    waits for needs the processor, too."""
    start = time.monotonic()
    while not (found := holds()):
        waited_s = time.monotonic() - start
        assert waited_s < timeout_s, f"Not so after {timeout_s} s."
        time.sleep(min(max(waited_s / 10, MIN_INTERVAL_S), MAX_INTERVAL_S))
    return found
