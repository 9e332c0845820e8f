"""Merging the pieces of full-text indexes after many writes: searches get slower with each piece."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from memory_mcp.engines.sqlite.database import Database, Read, Write
from memory_mcp.errors import NotFound, Unavailable

EVERY = 5.0  # seconds at least between two tidyings
PIECES = 4  # of an index that do no harm
PAGES = 1000  # merged at once: 20 to 30 ms, however large the index


class IndexMerge:
    """Keeps one index in each of some files in few pieces. Not needed, and nobody should wait for it."""

    def __init__(self, index: str, files: Callable[[], Iterable[Database]]) -> None:
        self._index = index
        self._files = files
        self._last = 0.0

    def now(self) -> None:
        for db in self._files():
            with suppress(NotFound):  # a file that was moved away needs no tidying
                self._tidy(db)

    def now_and_then(self, _: object) -> None:
        """For the thread that tells changes, after it has."""
        if time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            with suppress(Unavailable):
                self.now()

    def _tidy(self, db: Database) -> None:
        with db.read() as tx:
            if self._pieces(tx) <= PIECES:
                return
        with db.write() as writing:
            self._merge(writing)

    def _pieces(self, tx: Read) -> int:
        return tx.number(f"SELECT count(DISTINCT segid) FROM {self._index}_idx")

    def _merge(self, tx: Write) -> None:
        tx.all(f"INSERT INTO {self._index} ({self._index}, rank) VALUES ('merge', {PAGES})")
