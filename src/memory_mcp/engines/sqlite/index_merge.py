"""Merging the segments of full-text indexes after many writes: searches get slower with each segment."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.errors import NotFound, Unavailable

MIN_INTERVAL_S = 5.0  # between two merges
MAX_SEGMENTS = 4  # that do not slow a search down
PAGES_PER_MERGE = 1000  # merged at once: 20 to 30 ms, however large the index


class IndexMerge:
    """Merges the segments of one full-text index in each of some files. It only makes searches faster, so no call waits
    for it."""

    def __init__(self, index: str, files: Callable[[], Iterable[UserDatabase]]) -> None:
        self._index = index
        self._files = files
        self._last = 0.0

    def merge(self) -> None:
        for db in self._files():
            with suppress(NotFound):  # a file that was moved away needs no merge
                self._merge_if_needed(db)

    def merge_if_due(self, _: object) -> None:
        """For the thread that publishes changes, after it has done so."""
        if time.monotonic() - self._last > MIN_INTERVAL_S:
            self._last = time.monotonic()
            with suppress(Unavailable):
                self.merge()

    def _merge_if_needed(self, db: UserDatabase) -> None:
        with db.read() as tx:
            if self._segments(tx) <= MAX_SEGMENTS:
                return
        with db.write() as writing:
            self._merge(writing)

    def _segments(self, tx: Read) -> int:
        return tx.number(f"SELECT count(DISTINCT segid) FROM {self._index}_idx")

    def _merge(self, tx: Write) -> None:
        tx.all(f"INSERT INTO {self._index} ({self._index}, rank) VALUES ('merge', {PAGES_PER_MERGE})")
