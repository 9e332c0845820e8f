"""Whether a history of concurrent calls on one object could have happened one after the other.

The search of Wing and Gong with Lowe's memory of visited states: an order of all calls, each between its invocation and
its answer, that a sequential object would answer in the same way. A call without an answer may have happened at any
time after its invocation, or never.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Operation:
    """A call and, if it was answered, what it returned. Times only order events: they have no unit."""

    kind: str
    given: Any
    answer: Any
    invoked: float
    returned: float | None  # None: no answer, it may have happened


class Model(Protocol):
    """A sequential object."""

    @property
    def initial(self) -> Hashable:
        """Its state before the first call."""

    def apply(self, state: Any, operation: Operation) -> tuple[bool, Hashable]:
        """Whether the object in this state could have answered so, and its next state."""


@dataclass(frozen=True)
class Register:
    """A value that is written and read as a whole."""

    initial: Hashable = None

    def apply(self, state: Any, operation: Operation) -> tuple[bool, Hashable]:
        if operation.kind == "write":
            return True, operation.given
        return operation.answer == state, state


@dataclass(frozen=True)
class GrowingSet:
    """A set to which things are added. A read returns all of them."""

    initial: Hashable = frozenset()

    def apply(self, state: Any, operation: Operation) -> tuple[bool, Hashable]:
        if operation.kind == "write":
            return True, state | {operation.given}
        return frozenset(operation.answer) == state, state


def is_linearizable(history: Sequence[Operation], model: Model) -> bool:
    """Whether some order of the calls explains every answer. The more calls overlap, the longer it takes."""
    calls = sorted(history, key=lambda one: one.invoked)
    required = sum(1 << number for number, one in enumerate(calls) if one.returned is not None)
    seen: set[tuple[int, Hashable]] = set()
    stack: list[tuple[int, Hashable]] = [(0, model.initial)]
    while stack:
        done, state = stack.pop()
        if done & required == required:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        for number in _possible_next(calls, done):
            fits, after = model.apply(state, calls[number])
            if fits:
                stack.append((done | 1 << number, after))
    return False


def _possible_next(calls: Sequence[Operation], done: int) -> list[int]:
    """Calls that began before any other that is not done yet had returned."""
    found, earliest_return = [], float("inf")
    first = (~done & done + 1).bit_length() - 1  # those before it are all done
    for number in range(first, len(calls)):
        if done >> number & 1:
            continue
        one = calls[number]
        if one.invoked > earliest_return:
            break
        found.append(number)
        if one.returned is not None:
            earliest_return = min(earliest_return, one.returned)
    return found
