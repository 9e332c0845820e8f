"""A full-text index, on either engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Query = tuple[str, Mapping[str, Any]]  # a statement, and its values


@dataclass(frozen=True)
class WordColumn:
    name: str
    letter: str
    """A to D: how PostgreSQL marks the words of a column. Columns stand in the order of their letters; those with the
    same letter have the same weight and degree, and no expression can name one alone."""
    weight: float = 1.0  # of a word in bm25; SQLite has it in the table
    degree: float = 1.0  # to which a text contains a term that stands here


@dataclass(frozen=True)
class Owners:
    """Texts that belong to something, which is what a search finds. The best of its texts counts."""

    join: str  # of `found`, which has the number of each text, with what they belong to
    number: str  # of the owner, in that


@dataclass(frozen=True)
class WordTable:
    name: str
    columns: tuple[WordColumn, ...]
    is_stemmed: bool = True  # otherwise its words are those of FTS5's default tokenizer
    has_triggers: bool = False  # in SQLite, triggers fill it, so inserting and deleting do nothing

    owners: Owners | None = None  # what `counts`, `best` and `matching` are about, if not the texts themselves

    @property
    def has_degrees(self) -> bool:
        return len({column.degree for column in self.columns}) > 1


@dataclass(frozen=True)
class Allowed:
    """Which texts a search may find: a byte for each, by its number, and how many they are."""

    flags: bytes
    count: int

    @classmethod
    def only(cls, numbers: Iterable[int], top: int) -> "Allowed":
        return cls._flagged(numbers, top, listed=1)

    @classmethod
    def all_but(cls, numbers: Iterable[int], top: int) -> "Allowed":
        """The texts up to `top` without these. Texts that came later are not allowed."""
        return cls._flagged(numbers, top, listed=0)

    @classmethod
    def _flagged(cls, numbers: Iterable[int], top: int, *, listed: int) -> "Allowed":
        flags = bytearray([1 - listed]) * (top + 1)
        for number in numbers:
            flags[number] = listed
        return cls(bytes(flags) + b"\0", sum(flags))


@dataclass(frozen=True)
class Selected:
    """Which texts a search may find: those whose numbers a statement selects."""

    statement: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class BestMatches:
    bm25: Mapping[int, float]  # higher for better
    holders: Mapping[str, Mapping[int, float]]  # for each term, which of these contain it, and to what degree


class Texts(Protocol):
    """Texts by their numbers. Terms are FTS5 phrases such as "camel Case", with their quotes."""

    @property
    def numbers(self) -> str:
        """The statement that selects the `number` of every indexed text."""

    def first_queries(self, terms: Sequence[str]) -> Sequence[Query]:
        """What a search for these terms reads first, to be prefetched."""

    def insert(self, number: int, texts: Mapping[str, str]) -> None:
        """Index a text that is not in the index, by its columns."""

    def delete(self, number: int) -> None: ...

    def narrowed(self, allowed: Selected) -> "Texts":
        """The same index for a search that may find fewer texts. What was counted need not be counted again."""

    def documents(self) -> int:
        """How many texts there are to find."""

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        """How many texts contain each term, at most `limit`."""

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        """The best matches of any of the `rare` terms, and which of them contain which of all `terms`."""

    def matching(self, expression: str, limit: int) -> dict[int, float]:
        """The bm25 of the best matches of an FTS5 expression, higher for better."""

    def optimize(self) -> None:
        """Rewrite the whole index: it may keep the words of deleted texts until then."""
