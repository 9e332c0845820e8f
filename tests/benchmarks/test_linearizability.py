"""The checker of histories accepts what could have happened in some order, and nothing else."""

import pytest
from benchmarks.linearizability import GrowingSet, Operation, Register, is_linearizable

from tests.exhaustive import rounds


def write(value: object, invoked: float, returned: float | None) -> Operation:
    return Operation("write", value, None, invoked, returned)


def read(value: object, invoked: float, returned: float) -> Operation:
    return Operation("read", None, value, invoked, returned)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([write(1, 0, 1), read(1, 2, 3)], True),
        ([write(1, 0, 1), read(None, 2, 3)], False),  # a lost or late write
        ([write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)], False),  # a stale read
        ([write(1, 0, 9), read(None, 1, 2), read(1, 3, 4)], True),  # at some moment between its ends
        ([write(1, 0, 9), read(1, 1, 2), read(None, 3, 4)], False),  # it went back
        ([write(1, 0, 5), write(2, 0, 5), read(2, 6, 7), read(1, 8, 9)], False),
        ([write(1, 0, 5), write(2, 0, 5), read(2, 6, 7), read(2, 8, 9)], True),
        ([write(1, 0, None), read(None, 1, 2), read(1, 7, 8)], True),  # without an answer: later, too
        ([write(1, 0, None), read(1, 1, 2), read(None, 3, 4)], False),
        ([write(1, 0, None), read(None, 50, 60)], True),  # or never
    ],
)
def test_a_register(history: list[Operation], expected: bool) -> None:
    assert is_linearizable(history, Register()) is expected


def test_a_growing_set() -> None:
    both = [write("a", 0, 3), write("b", 0, 3), read({"a", "b"}, 4, 5)]
    assert is_linearizable([*both, read({"a"}, 1, 2)], GrowingSet())
    assert not is_linearizable([*both, read({"a"}, 6, 7)], GrowingSet())
    assert not is_linearizable([*both, read({"a"}, 1, 2), read({"b"}, 1, 2)], GrowingSet())


def test_a_long_history_of_many_clients_is_checked_at_once() -> None:
    count = rounds(60, soak=300)
    history = [write(n, n, n + 8) for n in range(count)] + [read(count - 1, 400, 401)]
    assert is_linearizable(history, Register())
    assert not is_linearizable([*history, read(7, 402, 403)], Register())
