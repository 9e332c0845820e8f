import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.search.vectors import PackedVectors

numbers = st.floats(-100, 100, width=32, allow_subnormal=False)
vectors = st.tuples(numbers, numbers, numbers)
steps = st.lists(st.tuples(st.integers(0, 80), st.one_of(st.none(), vectors)), max_size=200)


def packed(vector: tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


@given(steps, vectors)
def test_packed_vectors_behave_like_a_dictionary(
    steps: list[tuple[int, tuple[float, float, float] | None]], query: tuple[float, float, float]
) -> None:
    ours = PackedVectors(3)
    plain: dict[int, tuple[float, float, float]] = {}
    for id_, vector in steps:
        if vector is None:
            ours.drop(id_)
            plain.pop(id_, None)
        else:
            ours.put(id_, packed(vector))
            plain[id_] = vector

    found = ours.cosines(packed(query))
    assert found.keys() == plain.keys()
    for id_, vector in plain.items():
        assert abs(found[id_] - cosine(vector, query)) < 1e-4


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    one, two = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    lengths = np.linalg.norm(one) * np.linalg.norm(two)
    return float(np.dot(one, two) / lengths) if lengths else 0.0


def test_what_is_no_vector_of_this_length_is_left_out() -> None:
    for other in (packed((1.0, 0.0)), b"bytes", b"", packed((1.0, float("nan"), 0.0))):
        ours = PackedVectors(3)
        ours.put(1, packed((1.0, 0.0, 0.0)))
        ours.put(1, other)
        assert ours.cosines(packed((1.0, 0.0, 0.0))) == {}


def test_there_is_room_for_many() -> None:
    ours = PackedVectors(3)
    for id_ in range(1000):
        ours.put(id_, packed((float(id_), 1.0, 0.0)))
    found = ours.cosines(packed((0.0, 1.0, 0.0)))
    assert len(found) == 1000
    assert found[0] == 1.0
