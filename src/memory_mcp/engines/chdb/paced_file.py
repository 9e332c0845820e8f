"""Files that the engine writes at a limited rate.

chDB writes an export as fast as the disk takes it, and has no setting against that. Until the disk is done, every
commit of other users waits for it. So chDB writes into a pipe, and a thread moves the bytes on to the file.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHUNK_BYTES = 1024 * 1024
MAX_BURST_BYTES = 64 * 1024 * 1024  # written without a delay after a pause
MAX_UNSYNCED_BYTES = 1024 * 1024  # so that the queue of the disk stays short


class WriteRate:
    """How many bytes a second are written to all files together. Used by several threads."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._due_at = now()  # when the bytes so far would all be written at that rate

    def delay_s(self, count: int, bytes_per_s: int) -> float:
        """Count bytes, and say how long the next ones have to wait."""
        with self._lock:
            now = self._now()
            self._due_at = max(self._due_at, now) + count / bytes_per_s
            return max(0.0, self._due_at - now - MAX_BURST_BYTES / bytes_per_s)


@contextmanager
def open_paced(path: str, delay_s: Callable[[int], float], is_wanted: Callable[[], bool]) -> Iterator[str]:
    """Create a file. Yields the path to write it to, for one writer that opens that once. When the block ends, all is
    in the file. Raises OSError.

    `delay_s` is called with the size of each piece. The rest is discarded, without a delay, as soon as the file is no
    longer wanted. The pipe is always read to its end: chDB does not survive a broken one.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    reading, writing = os.pipe()
    failed: list[OSError] = []

    def move() -> None:
        is_kept, unsynced = True, 0
        while chunk := os.read(reading, CHUNK_BYTES):
            is_kept = is_kept and is_wanted()
            if not is_kept or failed:
                continue
            try:
                unsynced = _append(file, chunk, unsynced)
            except OSError as exc:  # the disk is full, or broken
                failed.append(exc)
            time.sleep(delay_s(len(chunk)))

    mover = threading.Thread(target=move, daemon=True)
    mover.start()
    try:
        yield f"/dev/fd/{writing}"
    finally:
        os.close(writing)
        mover.join()
        os.close(reading)
        os.close(file)
    if failed:
        raise failed[0]


def _append(file: int, chunk: bytes, unsynced: int) -> int:
    """Returns how many bytes are not synced."""
    left = memoryview(chunk)
    while left:
        left = left[os.write(file, left) :]
    unsynced += len(chunk)
    if unsynced < MAX_UNSYNCED_BYTES:
        return unsynced
    os.fsync(file)
    return 0
