import struct

import pytest

from memory_mcp.services.search import vector_cache
from memory_mcp.services.search.vector_cache import CacheBudget, VectorCache
from memory_mcp.services.search.vectors import unpack


class File:
    """Vectors in a file, and their changes."""

    def __init__(self) -> None:
        self.vectors: dict[int, list[bytes | None]] = {}
        self.changes: list[int] = []
        self.read: list[int] = []  # the changes that were given away

    def put(self, memory: int, *vectors: tuple[float, float]) -> None:
        self.vectors[memory] = [struct.pack("<2f", *vector) for vector in vectors] or [None]
        self.changes = [0 if other == memory else other for other in self.changes] + [memory]

    def changed(self, after: int) -> list[tuple[int, int, bytes | None]]:
        later = [(number, memory) for number, memory in enumerate(self.changes, 1) if memory and number > after]
        self.read += [number for number, _ in later]
        return [(number, memory, vector) for number, memory in later for vector in self.vectors[memory]]


def nearest(cached: VectorCache, file: File, origin: object = "file") -> list[int]:
    with cached.vectors(origin, 2, file.changed) as vectors:
        return vectors.cosines(unpack(struct.pack("<2f", 1, 0))).nearest(10)


@pytest.mark.parametrize("batch_size", [1, 2, vector_cache.BATCH_SIZE])
def test_the_cache_follows_changes(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "BATCH_SIZE", batch_size)
    cached, file = VectorCache(), File()
    file.put(1, (1, 0), (0, 1))
    file.put(2, (1, 1))
    file.put(3, (0, 1))
    assert nearest(cached, file) == [1, 2, 3]
    file.put(1)
    file.put(3, (1, 0.5))
    assert nearest(cached, file) == [3, 2]


def test_a_change_is_read_once() -> None:
    cached, file = VectorCache(), File()
    file.put(1, (1, 0))
    file.put(2, (0, 1))
    for _ in range(2):
        assert nearest(cached, file) == [1, 2]
    file.put(3, (1, 1))
    assert nearest(cached, file) == [1, 3, 2]
    assert file.read == [1, 2, 3]


def test_vectors_of_another_origin_replace_the_former_ones() -> None:
    cached, former, later = VectorCache(), File(), File()
    former.put(1, (1, 0))
    former.put(2, (1, 0))
    assert nearest(cached, former) == [1, 2]
    later.put(2, (0, 1))
    assert nearest(cached, later, "another file") == [2]


def filled(budget: CacheBudget, cache: VectorCache) -> bool:
    """Whether a search used the cache, as a search does it."""
    if not budget.admits(cache):
        return False
    file = File()
    file.put(1, (1, 0))
    nearest(cache, file)
    budget.record_use(cache)
    return True


def test_the_first_search_of_a_user_needs_no_cache() -> None:
    budget, cache = CacheBudget(), VectorCache()
    assert [filled(budget, cache) for _ in range(3)] == [False, True, True]
    assert cache.size > 0


def test_no_other_thread_waits_for_a_cache_that_is_being_loaded() -> None:
    budget, cache = CacheBudget(), VectorCache()
    filled(budget, cache)
    file = File()
    file.put(1, (1, 0))

    def changed(after: int) -> list[tuple[int, int, bytes | None]]:
        assert not budget.admits(cache)
        return file.changed(after)

    with cache.vectors("file", 2, changed):
        assert budget.admits(cache)


def test_the_caches_used_last_stay() -> None:
    probe = VectorCache()
    filled(roomy := CacheBudget(), probe)
    filled(roomy, probe)
    budget, caches = CacheBudget(2 * probe.size), [VectorCache() for _ in range(3)]
    for cache in caches:
        filled(budget, cache)
    assert [filled(budget, cache) for cache in (*caches[:2], caches[0])] == [True, True, True]
    assert filled(budget, caches[2])
    assert [cache.size > 0 for cache in caches] == [True, False, True]
    assert not filled(budget, caches[1])  # as if the user had never searched


def test_a_cache_that_is_in_use_is_not_cleared() -> None:
    cache, file = VectorCache(), File()
    file.put(1, (1, 0))
    with cache.vectors("file", 2, file.changed) as vectors:
        cache.clear_if_unused()
        assert vectors.size == cache.size > 0
    cache.clear_if_unused()
    assert cache.size == 0


def test_a_user_with_more_than_fits_is_not_cached_again() -> None:
    budget, cache = CacheBudget(1), VectorCache()
    assert [filled(budget, cache) for _ in range(4)] == [False, True, False, False]
    assert cache.size == 0
