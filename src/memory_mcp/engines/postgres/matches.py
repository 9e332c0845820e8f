"""The texts that a search in a tsvector finds: the SQL that reads them, and what comes back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_mcp.engines.postgres import words
from memory_mcp.engines.postgres.words import Phrase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

TEXT_LIST = "string_agg(int8send(number) || int4send(length), ''::bytea)"  # of texts, as TextList reads it


@dataclass(frozen=True)
class TextList:
    """Texts that contain a phrase."""

    numbers: Numbers
    lengths: NDArray[np.int32]

    @classmethod
    def from_bytes(cls, packed: bytes) -> TextList:
        import numpy as np

        found = np.frombuffer(packed, [("number", ">i8"), ("length", ">i4")])
        return cls(found["number"].astype(np.int64), found["length"].astype(np.int32))


@dataclass(frozen=True)
class CountedMatches:
    """Texts that match, and how often each contains the terms."""

    numbers: Numbers
    lengths: Floats
    frequencies: Sequence[Floats]  # of each term, a row for each match and a column for each letter in use

    def rows_of(self, numbers: Mapping[int, float]) -> CountedMatches:
        """Those of these numbers, in their order."""
        row_of = {number: row for row, number in enumerate(self.numbers.tolist())}
        rows = [row_of[number] for number in numbers]
        return CountedMatches(self.numbers[rows], self.lengths[rows], [one[rows] for one in self.frequencies])


# To unnest a tsvector takes 35 µs, so SQL does not count how often a word occurs. But ts_rank of one word is the sum of
# 1/n² over its positions, each with the weight of its letter, divided by π²/6; and columns stand in the order of their
# letters. So ts_rank for A alone, for A and B, and so on, gives the numbers. tests/engines/postgres checks it.
RANK_SUMS = list(itertools.accumulate(1 / n**2 / 1.64493406685 for n in range(1, words.MAX_POSITIONS + 1)))
ABSENT = 1e-10  # ts_rank of a word that does not occur is below


def cumulative_rank(index: int, letter: str, phrase: Phrase) -> str:
    """SQL for a number that says how often a phrase occurs with this letter or with one before it. ts_rank does not
    look whether words stand side by side, so if it is not a single word, it is matched, and the number is 0 or 1."""
    if not phrase.is_word:
        return f"(ts_filter(words, '{{{','.join('ABCD'[: 'ABCD'.index(letter) + 1])}}}') @@ :term{index}::tsquery)::int"
    weights = ",".join(str(int(one <= letter)) for one in "DCBA")
    return f"ts_rank('{{{weights}}}', words, :term{index}::tsquery)"
