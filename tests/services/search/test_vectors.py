import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.services.search.cosines import Cosines, KnownCosines
from memory_mcp.services.search.packed_vectors import PackedVectors
from memory_mcp.services.search.vectors import alike, pack, unit, unpack

Vector = tuple[float, float, float]
numbers = st.floats(-100, 100, width=32, allow_subnormal=False)
vectors = st.tuples(numbers, numbers, numbers)
parts = st.lists(vectors, max_size=3)
steps = st.lists(st.tuples(st.integers(0, 80), st.one_of(st.none(), parts)), max_size=200)


def packed(vector: tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def put(ours: PackedVectors, owner: int, blobs: list[bytes]) -> None:
    ours.put_all([(owner, blob) for blob in blobs] or [(owner, b"")])


def cosines_of(ours: PackedVectors, query: tuple[float, ...]) -> Cosines:
    return ours.cosines(unit(unpack(packed(query))))


@given(steps, vectors)
def test_packed_vectors_behave_like_a_dictionary(steps: list[tuple[int, list[Vector] | None]], query: Vector) -> None:
    ours = PackedVectors.empty(3)
    plain: dict[int, list[Vector]] = {}
    for id_, rows in steps:
        if rows is None:
            ours.drop(id_)
            plain.pop(id_, None)
        else:
            put(ours, id_, [packed(row) for row in rows])
            plain[id_] = rows

    found = cosines_of(ours, query)
    assert sorted(found.owners.tolist()) == sorted(id_ for id_, rows in plain.items() for _ in rows)
    for id_, rows in plain.items():
        nearest = found.of([id_])
        assert bool(nearest) == bool(rows)
        if rows:
            cosines = [cosine(row, query) for row in rows]
            value, part = nearest[id_]
            assert value == pytest.approx(max(cosines), abs=1e-4)
            assert cosines[part] == pytest.approx(max(cosines), abs=1e-4)


@given(st.dictionaries(st.integers(0, 500), st.lists(vectors, min_size=1, max_size=4), max_size=60), vectors)
def test_the_nearest_come_first_and_each_memory_once(plain: dict[int, list[Vector]], query: Vector) -> None:
    ours = PackedVectors.empty(3)
    for id_, rows in plain.items():
        put(ours, id_, [packed(row) for row in rows])
    found = cosines_of(ours, query)
    nearest = found.nearest(10)
    of = {id_: value for id_, (value, _) in found.of(plain).items()}
    assert len(set(nearest)) == len(nearest) == min(10, len(plain))
    assert [of[id_] for id_ in nearest] == pytest.approx(sorted(of.values(), reverse=True)[: len(nearest)], abs=1e-6)

    flags = bytes(id_ % 2 == 0 for id_ in range(300)) + b"\0"  # those from 300 on came later
    even = {id_ for id_ in plain if id_ % 2 == 0 and id_ < 300}
    assert set(found.nearest(10, found.rows_allowed(flags))) <= even
    assert set(found.nearest(500, found.rows_among([*even, 501]))) == even


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    one, two = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    lengths = np.linalg.norm(one) * np.linalg.norm(two)
    return float(np.dot(one, two) / lengths) if lengths else 0.0


def test_vectors_of_another_length_are_ignored() -> None:
    for other in (packed((1.0, 0.0)), b"bytes", b"", packed((1.0, float("nan"), 0.0))):
        ours = PackedVectors.empty(3)
        put(ours, 1, [packed((1.0, 0.0, 0.0))])
        put(ours, 1, [other])
        assert cosines_of(ours, (1.0, 0.0, 0.0)).of([1]) == {}


def test_the_block_grows() -> None:
    ours = PackedVectors.empty(3)
    for id_ in range(1000):
        put(ours, id_, [packed((float(id_), 1.0, 0.0))])
    found = cosines_of(ours, (0.0, 1.0, 0.0))
    assert len(found.owners) == 1000
    assert found.of([0]) == {0: (1.0, 0)}


def test_two_memories_are_alike_if_all_their_parts_are() -> None:
    x, y, z = packed((1.0, 0.0, 0.0)), packed((0.0, 1.0, 0.0)), packed((0.0, 0.0, 1.0))
    assert [alike([x, y], other) for other in ([x, y], [x, z], [x], [])] == [1.0, 0.0, 0.0, 0.0]


def test_rows_in_order_are_found_by_their_owner() -> None:
    found = KnownCosines.sorted(np.array([2, 5, 5, 9]), np.array([0.25, 0.5, 0.75, 1.0], dtype=np.float32))
    assert found.of([5, 9, 7]) == {5: (0.75, 1), 9: (1.0, 0)}
    assert found.rows_among([2, 5, 7]).tolist() == [0, 1, 2]
    assert (list(found.rows_of), len(found.rows_of)) == ([2, 5, 9], 3)


def test_a_vector_survives_packing() -> None:
    vector = np.array([0.25, -1.0, 3.5], dtype=np.float32)
    assert unpack(pack(vector)).tolist() == vector.tolist()


def test_a_memory_of_many_parts_does_not_crowd_out_the_others() -> None:
    ours = PackedVectors.empty(3)
    put(ours, 0, [packed((1.0, number / 1000, 0.0)) for number in range(600)])
    for id_ in range(1, 50):
        put(ours, id_, [packed((0.0, 1.0, float(id_)))])
    assert len(cosines_of(ours, (1.0, 0.0, 0.0)).nearest(40)) == 40


def test_equally_near_vectors_keep_their_order() -> None:
    ours = PackedVectors.empty(3)
    ours.put_all([(id_, packed((0.0, 1.0, float(id_ % 2)))) for id_ in range(2000)])
    assert cosines_of(ours, (0.0, 1.0, 0.0)).nearest(10) == list(range(0, 20, 2))
