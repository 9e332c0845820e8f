"""The words of FTS5's tokenizer as a tsvector, and FTS5's expressions as a tsquery."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from apsw import fts5query as fts5

from memory_mcp.engines.sqlite.tokenizer import plain_tokens, tokens

MAX_POSITION = 16_383  # of a tsvector
MAX_POSITIONS = 255  # of one word
MAX_WORD_CHARS = 500  # the limit of PostgreSQL is 2046 bytes
MAX_NEAR_DISTANCE = 20  # of NEAR, since each distance is written out
COLUMN_GAP = 100  # positions between two columns, so that no phrase spans them
NO_MATCH = "'\x01'"  # a word that no text contains
START = "\x02"  # stands before the first word of each column


@dataclass(frozen=True)
class Phrase:
    """Words that stand side by side."""

    words: tuple[str, ...]
    letters: str = ""  # of the columns where it may stand; empty for all
    is_prefix: bool = False  # the last word is the start of a word
    is_initial: bool = False  # it stands at the start of a column

    @property
    def is_word(self) -> bool:
        """Whether it is one whole word, whose frequency a rank says."""
        return len(self.words) == 1 and not self.is_prefix and not self.is_initial

    @property
    def query(self) -> str:
        """As a tsquery."""
        if not self.words:
            return NO_MATCH
        mark = f":{self.letters}" if self.letters else ""
        found = [quote(word) + mark for word in ((START,) if self.is_initial else ()) + self.words]
        if self.is_prefix:
            found[-1] = f"{quote(self.words[-1])}:*{self.letters}"
        return "(" + " <-> ".join(found) + ")"


def vector(texts: Mapping[str, str], letters: Mapping[str, str], *, is_stemmed: bool = True) -> tuple[str, int]:
    """A tsvector as text, and the number of tokens."""
    positions: dict[str, list[str]] = {}
    position, length = 0, 0
    for column, text in texts.items():
        mark = letters[column] if letters[column] != "D" else ""  # which stands for no mark
        found = split(text, is_stemmed=is_stemmed)
        length += len(found)
        for number, word in enumerate((START, *found) if found else (), position + 1):
            its_positions = positions.setdefault(word, [])
            if len(its_positions) < MAX_POSITIONS:
                its_positions.append(f"{min(number, MAX_POSITION)}{mark}")
        position += len(found) + COLUMN_GAP
    return " ".join(f"{quote(word)}:{','.join(found)}" for word, found in positions.items()), length


def quote(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


@lru_cache(4096)
def phrase(term: str) -> Phrase:
    """A term, which is an FTS5 phrase such as "camel Case", with its quotes."""
    return Phrase(tuple(split(term.strip('"'))))


def any_of(phrases: Sequence[Phrase]) -> str:
    return " | ".join(one.query for one in phrases)


def expression_query(
    expression: str, letters: Mapping[str, str], *, is_stemmed: bool = True
) -> tuple[str, list[Phrase]]:
    """An FTS5 expression as a tsquery, and the phrases in it, each once."""
    phrases: dict[Phrase, None] = {}
    parser = _Parser(letters, is_stemmed, phrases)
    return parser.query(fts5.parse_query_string(expression), ""), list(phrases)


@dataclass(frozen=True)
class _Parser:
    letters: Mapping[str, str]
    is_stemmed: bool
    phrases: dict[Phrase, None]  # that were found, in order

    def query(self, node: fts5.QUERY, columns: str) -> str:
        """`columns`: the letters of the columns to search; empty for all."""

        def inner(child: fts5.QUERY, within: str = columns) -> str:
            return self.query(child, within)

        match node:
            case fts5.PHRASE():
                found = Phrase(tuple(self._words(node)), columns, _last(node).prefix, node.initial)
                self.phrases[found] = None
                return found.query
            case fts5.AND():
                return "(" + " & ".join(map(inner, node.queries)) + ")"
            case fts5.OR():
                return "(" + " | ".join(map(inner, node.queries)) + ")"
            case fts5.NOT():
                return f"({inner(node.match)} & !{inner(node.no_match)})"
            case fts5.COLUMNFILTER():
                named = {self.letters[column] for column in node.columns if column in self.letters}
                chosen = named if node.filter == "include" else set(self.letters.values()) - named
                within = chosen & set(columns) if columns else chosen
                return inner(node.query, "".join(sorted(within))) if within else NO_MATCH
            case fts5.NEAR():
                return _near_query([inner(phrase) for phrase in node.phrases], node.distance)

    def _words(self, node: fts5.PHRASE) -> Iterator[str]:
        yield from split(str(node.phrase), is_stemmed=self.is_stemmed)
        if node.plus:
            yield from self._words(node.plus)


def _last(node: fts5.PHRASE) -> fts5.PHRASE:
    return _last(node.plus) if node.plus else node


def _near_query(phrases: Sequence[str], distance: int) -> str:
    """Each phrase and the next one, in either order, at every distance."""
    steps = range(1, min(distance, MAX_NEAR_DISTANCE) + 2)
    pairs = [
        "(" + " | ".join(f"({one} <{step}> {other}) | ({other} <{step}> {one})" for step in steps) + ")"
        for one, other in itertools.pairwise(phrases)
    ]
    return "(" + " & ".join(pairs or phrases) + ")"


def split(text: str, *, is_stemmed: bool = True) -> list[str]:
    """The words of a text, in order."""
    found = (tokens if is_stemmed else plain_tokens)(text.replace("\0", " ").encode())
    return [word[:MAX_WORD_CHARS] for word in found]
