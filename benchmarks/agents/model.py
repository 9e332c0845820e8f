"""What a task is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Arguments = dict[str, Any]
Answers = list[dict[str, Any]]
"""The structured content of each call so far."""


@dataclass(frozen=True)
class Step:
    """One call. Arguments that come from earlier answers are a function of those."""

    tool: str
    arguments: Arguments | Callable[[Answers], Arguments]

    def given(self, answers: Answers) -> Arguments:
        return self.arguments(answers) if callable(self.arguments) else self.arguments


@dataclass(frozen=True)
class Task:
    kind: str
    text: str  # the request to the agent
    steps: tuple[Step, ...]  # the natural way to do it
    shows: str  # a text in the last answer
    other_first_calls: frozenset[str] = frozenset()  # tools that are as right to begin with

    @property
    def first_calls(self) -> frozenset[str]:
        return self.other_first_calls | {self.steps[0].tool}


def task(kind: str, text: str, shows: str, *steps: Step, also: str = "") -> Task:
    return Task(kind, text, steps, shows, frozenset(also.split()))


def first_hit(answers: Answers) -> dict[str, Any]:
    """The first result of the last search, whatever the family calls its list."""
    for name in ("hits", "memories", "results", "entities"):
        if answers[-1].get(name):
            hit: dict[str, Any] = answers[-1][name][0]
            return hit
    raise LookupError(f"Nothing was found: {answers[-1]}")
