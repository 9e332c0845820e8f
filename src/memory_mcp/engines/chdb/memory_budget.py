"""How much memory the statements of one user may use together, over all engines."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class MemoryBudget:
    """A semaphore of bytes, shared by threads. A statement starts as soon as what it may use fits beside the others:
    a large one that waits does not hold up small ones."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._used_bytes = 0
        self._change = threading.Condition()

    @contextmanager
    def hold(
        self, size: int, timeout_s: float, check_interval_s: float, check_continue: Callable[[], None]
    ) -> Iterator[None]:
        """Count so many bytes until the block ends, at most all there are. Raises TimeoutError if others use them for
        too long, or what `check_continue`, called again and again meanwhile, raises."""
        size = min(size, self._total_bytes)
        deadline = time.monotonic() + timeout_s
        while not self._take(size, check_interval_s):
            check_continue()
            if time.monotonic() > deadline:
                raise TimeoutError
        try:
            yield
        finally:
            with self._change:
                self._used_bytes -= size
                self._change.notify_all()

    def _take(self, size: int, timeout_s: float) -> bool:
        with self._change:
            if not self._change.wait_for(lambda: self._used_bytes + size <= self._total_bytes, timeout_s):
                return False
            self._used_bytes += size
            return True
