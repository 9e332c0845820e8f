"""The words of FTS5's tokenizer as a tsvector, and FTS5's expressions as a tsquery."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from apsw import fts5query as fts5

from memory_mcp.engines.sqlite.tokenizer import tokens

MAX_POSITION = 16_383  # of a tsvector
MAX_POSITIONS = 255  # of one word
MAX_WORD_CHARS = 500  # the limit of PostgreSQL is 2046 bytes
MAX_NEAR_DISTANCE = 20  # of NEAR, since each distance is written out
COLUMN_GAP = 100  # positions between two columns, so that no phrase spans them
NO_MATCH = "'\x01'"  # a word that no text contains


def vector(texts: Mapping[str, str], letters: Mapping[str, str]) -> tuple[str, int]:
    """A tsvector as text, and the number of tokens."""
    positions: dict[str, list[str]] = {}
    position, length = 0, 0
    for column, text in texts.items():
        mark = letters[column] if letters[column] != "D" else ""  # which stands for no mark
        found = _words(text)
        length += len(found)
        for number, word in enumerate(found, position + 1):
            its_positions = positions.setdefault(word, [])
            if len(its_positions) < MAX_POSITIONS:
                its_positions.append(f"{min(number, MAX_POSITION)}{mark}")
        position += len(found) + COLUMN_GAP
    return " ".join(f"{quote(word)}:{','.join(found)}" for word, found in positions.items()), length


def quote(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


@lru_cache(4096)
def phrase_words(phrase: str) -> tuple[str, ...]:
    """The words of an FTS5 phrase such as "camel Case", with its quotes."""
    return tuple(_words(phrase.strip('"')))


def term_query(phrase: str) -> str:
    found = phrase_words(phrase)
    return "(" + " <-> ".join(map(quote, found)) + ")" if found else NO_MATCH


def any_of(phrases: Sequence[str]) -> str:
    return " | ".join(map(term_query, phrases))


def expression_query(expression: str, letters: Mapping[str, str]) -> tuple[str, list[str]]:
    """An FTS5 expression as a tsquery, and the phrases in it."""
    phrases: list[str] = []
    return _query(fts5.parse_query_string(expression), letters, "", phrases), phrases


def _query(node: fts5.QUERY, letters: Mapping[str, str], columns: str, phrases: list[str]) -> str:
    """`columns`: the letters of the columns to search; empty for all."""

    def inner(child: fts5.QUERY, within: str = columns) -> str:
        return _query(child, letters, within, phrases)

    match node:
        case fts5.PHRASE():
            return _phrase_query(node, columns, phrases)
        case fts5.AND():
            return "(" + " & ".join(map(inner, node.queries)) + ")"
        case fts5.OR():
            return "(" + " | ".join(map(inner, node.queries)) + ")"
        case fts5.NOT():
            return f"({inner(node.match)} & !{inner(node.no_match)})"
        case fts5.COLUMNFILTER():
            named = {letters[column] for column in node.columns if column in letters}
            chosen = named if node.filter == "include" else set(letters.values()) - named
            return inner(node.query, "".join(sorted(chosen)))
        case fts5.NEAR():
            return _near_query([inner(phrase) for phrase in node.phrases], node.distance)


def _phrase_query(phrase: fts5.PHRASE, columns: str, phrases: list[str]) -> str:
    found = list(_phrase_words(phrase))
    phrases.append('"' + " ".join(found) + '"')
    if not found:
        return NO_MATCH
    marks = [f":{columns}" if columns else ""] * len(found)
    if phrase.prefix:
        marks[-1] = f":*{columns}"
    return "(" + " <-> ".join(quote(word) + mark for word, mark in zip(found, marks, strict=True)) + ")"


def _near_query(phrases: Sequence[str], distance: int) -> str:
    """Each phrase and the next one, in either order, at every distance."""
    steps = range(1, min(distance, MAX_NEAR_DISTANCE) + 2)
    pairs = [
        "(" + " | ".join(f"({one} <{step}> {other}) | ({other} <{step}> {one})" for step in steps) + ")"
        for one, other in itertools.pairwise(phrases)
    ]
    return "(" + " & ".join(pairs or phrases) + ")"


def _phrase_words(phrase: fts5.PHRASE) -> Iterator[str]:
    yield from _words(str(phrase.phrase))
    if phrase.plus:
        yield from _phrase_words(phrase.plus)


def _words(text: str) -> list[str]:
    return [word[:MAX_WORD_CHARS] for word in tokens(text.replace("\0", " ").encode())]
