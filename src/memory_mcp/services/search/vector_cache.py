"""A process's copy of the vectors of a user, packed for search and updated before each use."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_mcp.services.search.packed_vectors import PackedVectors

BATCH_SIZE = 2048  # vectors packed at a time
MAX_CACHED_BYTES = 256 * 1024 * 1024  # of the caches of many users together, where the database can do without them

Changed = Callable[[int], Iterable[tuple[int, int, bytes | None]]]
"""(change, memory, vector) of the changes after a change, a row for each chunk; no vector for a memory without any."""


class VectorCache:
    """The vectors of one user, for one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: PackedVectors | None = None
        self._origin: object = None
        self._reached = 0  # the last change in the copy
        self.is_loading = False  # all of them: that takes a while

    @property
    def size(self) -> int:
        """In bytes."""
        packed = self._packed
        return packed.size if packed else 0

    def is_loaded(self, origin: object) -> bool:
        return self._packed is not None and self._origin == origin

    def load(self, origin: object, packed: "PackedVectors", reached: int) -> None:
        """Use vectors that were packed elsewhere, with all changes until `reached`."""
        with self._lock:
            self._packed, self._origin, self._reached = packed, origin, reached

    @property
    def reached(self) -> int:
        """The last change in the copy; 0 if it is empty. The next use may begin with another one."""
        return self._reached if self._packed else 0

    @contextmanager
    def vectors(self, origin: object, dimensions: int, changed: Changed) -> Iterator["PackedVectors"]:
        """The current vectors, until the block ends. For another origin the copy is rebuilt."""
        with self._lock:
            packed = self._packed
            if packed is None or origin != self._origin:
                from memory_mcp.services.search.packed_vectors import (
                    PackedVectors,
                )  # imports NumPy, only if there are vectors

                packed = self._packed = PackedVectors.empty(dimensions)
                self._origin, self._reached = origin, 0
            self.is_loading = not self._reached
            try:
                self._catch_up(packed, changed)
            finally:
                self.is_loading = False
            yield packed

    def clear_if_unused(self) -> None:
        """Free its memory, unless a thread uses it now."""
        if self._lock.acquire(blocking=False):
            self._packed = None
            self._lock.release()

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


class CacheBudget:
    """How much memory the caches of many users may have together. Those used longest ago are cleared."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[VectorCache, int] = OrderedDict()  # those used last come last
        self._too_large: set[VectorCache] = set()

    def admits(self, cache: VectorCache) -> bool:
        """Whether to search in a cache: not at the first search of a user, who may not search again, and not while
        another thread loads it."""
        with self._lock:
            is_known = cache in self._sizes
            self._sizes.setdefault(cache, 0)
            self._sizes.move_to_end(cache)
            return is_known and not cache.is_loading and cache not in self._too_large

    def record_use(self, cache: VectorCache) -> None:
        """Clear others, as far as this one needs their memory, or this one if it alone is too large."""
        with self._lock:
            self._sizes[cache] = cache.size
            if cache.size > self._max_bytes:
                self._too_large.add(cache)
                self._clear(cache)
            while sum(self._sizes.values()) > self._max_bytes:
                self._clear(next(one for one, size in self._sizes.items() if size))

    def _clear(self, cache: VectorCache) -> None:
        cache.clear_if_unused()
        del self._sizes[cache]
