"""A process's copy of the vectors in a file, packed for search and updated before each use."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_mcp.search.vectors import PackedVectors

BATCH_SIZE = 2048  # vectors packed at a time

Changed = Callable[[int], Iterable[tuple[int, int, bytes | None]]]
"""(change, memory, vector) of the changes after a change, a row for each chunk; no vector for a memory without any."""


class VectorCache:
    """The vectors of one file, for one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: PackedVectors | None = None
        self._origin: object = None
        self._reached = 0  # the last change in the copy

    @contextmanager
    def vectors(self, origin: object, dimensions: int, changed: Changed) -> Iterator["PackedVectors"]:
        """The current vectors, until the block ends. For another origin the copy is rebuilt."""
        with self._lock:
            packed = self._packed
            if packed is None or origin != self._origin:
                from memory_mcp.search.vectors import PackedVectors  # imports NumPy, only if there are vectors

                packed = self._packed = PackedVectors(dimensions)
                self._origin, self._reached = origin, 0
            self._catch_up(packed, changed)
            yield packed

    def _catch_up(self, packed: "PackedVectors", changed: Changed) -> None:
        rows: list[tuple[int, bytes]] = []
        reached = self._reached
        for reached, chunks in groupby(changed(self._reached), key=itemgetter(0)):
            rows += [(memory, vector or b"") for _, memory, vector in chunks]
            if len(rows) >= BATCH_SIZE:
                packed.put_all(rows)
                self._reached, rows = reached, []
        if rows:
            packed.put_all(rows)
            self._reached = reached
