"""Chooses which lines of the memories that answer a prompt fit its limits.

A memory is a note, or an excerpt of a conversation: the messages that answer the prompt, and those near them. A message
is worth more the better it and those near it match; of two that are worth the same, the shorter one is taken.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory_mcp.conversations.model import GivenMemory
from memory_mcp.conversations.texts import FRAME_TOKENS
from memory_mcp.families.texts import Match
from memory_mcp.text import tokens

# Chosen on the even conversations of LoCoMo: docs/benchmarks.md#memory-by-itself
MIN_SCORE = 0.3  # of the best one: a memory that matches less is not shown
SHARPNESS = 3.0  # the power of a score, relative to the best one: how much less the next ones are worth
NEAR_WEIGHT, NEAR_DECAY = 0.3, 0.5  # of a match, for the messages beside it, and for each one farther away
LENGTH_WEIGHT = 0.15  # the power of a line's length: how much less long ones are worth

GAP = "… "  # before a line that does not follow the one above it


@dataclass(frozen=True)
class Line:
    """A note in short, or a message."""

    memory: str  # what it is part of: a note, or a conversation
    seq: int  # in the conversation: later messages have higher ones
    text: str
    given: GivenMemory
    value: float
    match: Match | None  # None for a message that is only near one that matches
    score: float = 0.0  # of the match, as a share of the best one

    @cached_property
    def cost(self) -> int:
        """In tokens, as if there were a gap before it."""
        return tokens.estimate(f"\n  {GAP}{self.text}")

    @property
    def rank(self) -> tuple[float, str]:
        return -self.value / self.cost**LENGTH_WEIGHT, self.given.ref


@dataclass(frozen=True)
class Excerpt:
    """What is shown of one memory."""

    heading: str
    lines: Sequence[Line]

    @property
    def text(self) -> str:
        shown = [self.heading]
        for before, line in zip([None, *self.lines], self.lines, strict=False):
            is_next = before is None or line.seq == before.seq + 1
            shown.append(f"  {line.text}" if is_next else f"  {GAP}{line.text}")
        return "\n".join(shown)


@dataclass(frozen=True)
class ExcerptLimits:
    max_tokens: int
    max_memories: int


def choose(lines: Iterable[Line], limits: ExcerptLimits, heading_of: Callable[[Match], str]) -> list[Excerpt]:
    """The lines that are worth most and fit, by memory; each text once. The memory with the best line is the first."""
    left = limits.max_tokens - FRAME_TOKENS
    headings: dict[str, str] = {}
    chosen: list[Line] = []
    texts: set[str] = set()
    for line in sorted(lines, key=lambda line: line.rank):
        heading = headings.get(line.memory)
        if line.text in texts or (heading is None and (line.score < MIN_SCORE or len(headings) == limits.max_memories)):
            continue
        cost = line.cost
        if heading is None and line.match:
            heading = heading_of(line.match)
            cost += tokens.estimate(f"\n{heading}")
        if heading is not None and cost <= left:
            left -= cost
            headings[line.memory] = heading
            chosen.append(line)
            texts.add(line.text)
    return [
        Excerpt(heading, sorted((line for line in chosen if line.memory == memory), key=lambda line: line.seq))
        for memory, heading in headings.items()
    ]
