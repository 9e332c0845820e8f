"""The piece of a text that shows why it was found."""

import threading
from collections.abc import Iterable, Iterator
from functools import cache

import apsw

from memory_mcp.search import words

LENGTH = 240  # bytes of a piece
LEAD = 60  # of those, before the first match
FARTHEST = 20  # bytes to the next space, to which a cut is moved

Match = tuple[int, int, str]  # where it starts and ends, in bytes, and which term it is


def around(text: str, query: str) -> str | None:
    """The piece of a text that holds most of a query's words, in any form of them. None if it holds none."""
    raw = text.encode()
    matches = sorted(_matches(text, raw, words.terms(query)))
    if not matches:
        return None
    best = max(range(len(matches)), key=lambda first: (_different(matches, first), -first))
    return _cut(raw, max(0, matches[best][0] - LEAD))


def beginning(text: str, offset: int = 0) -> str:
    """A text from its start, or from some character on."""
    return _cut(text[offset : offset + LENGTH + FARTHEST].encode(), 0, more_before=offset > 0)


def _matches(text: str, raw: bytes, phrases: Iterable[str]) -> Iterator[Match]:
    tokens = _tokenizer()
    plain = {phrase for phrase in phrases if not words.has_cjk(phrase)}
    stems = {stem for phrase in plain for _, _, stem in tokens(phrase.encode())}
    for start, end, stem in tokens(raw) if stems else ():
        if stem in stems:
            yield start, end, stem
    for phrase in set(phrases) - plain:
        joined = phrase.strip('"').replace(" ", "")
        if (at := text.find(joined)) >= 0:
            start = len(text[:at].encode())
            yield start, start + len(joined.encode()), joined


def _different(matches: list[Match], first: int) -> int:
    """How many terms a piece shows that starts with this match."""
    limit = matches[first][0] + LENGTH - LEAD
    shown = set()
    for _, end, term in matches[first : first + LENGTH]:
        if end > limit:
            break
        shown.add(term)
    return len(shown)


def _cut(raw: bytes, start: int, *, more_before: bool = False) -> str:
    end = min(len(raw), start + LENGTH)
    if start > 0:
        space = raw.find(b" ", start, start + FARTHEST)
        start = space + 1 if space >= 0 else start
    if end < len(raw):
        space = raw.rfind(b" ", end - FARTHEST, end)
        end = space if space > start else end
    piece = " ".join(raw[start:end].decode(errors="ignore").split())
    return ("…" if start > 0 or more_before else "") + piece + ("…" if end < len(raw) else "")


class _Tokenizer:
    """The tokenizer of the indexes of words, so that a snippet matches exactly what a search does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens = apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    def __call__(self, raw: bytes) -> list[Match]:
        with self._lock:
            return self._tokens(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)  # type: ignore[return-value]  # the stub knows no such answer


@cache
def _tokenizer() -> _Tokenizer:
    return _Tokenizer()
