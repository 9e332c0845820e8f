"""Snippets: the part of a text that shows why it was found."""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import apsw

from memory_mcp.search import fts_query

LENGTH = 240  # bytes of a snippet
LEAD = 60  # of those, before the first match
MAX_CUT_SHIFT_BYTES = 20  # by which a cut is moved to the next space
MAX_MATCHES = 1000  # considered for the best snippet

_PREFIX = re.compile(r"(\w+)\*")

Match = tuple[int, int, str]  # start and end in bytes, and the term


@dataclass(frozen=True)
class _Sought:
    """The search terms for a text."""

    stems: frozenset[str]
    prefixes: tuple[str, ...]
    texts: tuple[str, ...]  # literal: other scripts, and text without words


def around(text: str, query: str) -> str | None:
    """The part of a text with the greatest number of the query's words, in any form. None if there are none."""
    raw = text.encode()
    matches = sorted(_matches(text, raw, _sought(query)))[:MAX_MATCHES]
    return _cut(raw, max(0, _best(matches) - LEAD)) if matches else None


def beginning(text: str, offset: int = 0) -> str:
    """The beginning of a text, or the part from a character on."""
    return _cut(text[offset : offset + LENGTH + MAX_CUT_SHIFT_BYTES].encode(), 0, more_before=offset > 0)


@lru_cache(64)
def _sought(query: str) -> _Sought:
    phrases = fts_query.terms(query)
    plain = [phrase for phrase in phrases if not fts_query.has_cjk(phrase)]
    others = [phrase.strip('"').replace(" ", "") for phrase in phrases if phrase not in plain]
    return _Sought(
        stems=frozenset(stem for phrase in plain for _, _, stem in _tokens(phrase.encode())),
        prefixes=tuple(prefix.casefold() for prefix in _PREFIX.findall(query)),
        texts=tuple(others or ([] if plain else [query])),
    )


def _matches(text: str, raw: bytes, sought: _Sought) -> Iterator[Match]:
    for start, end, stem in _tokens(raw) if sought.stems else ():
        if stem in sought.stems or stem.startswith(sought.prefixes) or _has_part(raw[start:end], sought.stems):
            yield start, end, stem
    for piece in sought.texts:
        if piece and (at := text.find(piece)) >= 0:
            start = len(text[:at].encode())
            yield start, start + len(piece.encode()), piece


def _has_part(word: bytes, stems: frozenset[str]) -> bool:
    """Whether a part of a camelCase word, or the plain form of a full-width one, is among the stems."""
    if word.islower() and word.isascii():
        return False
    plain = unicodedata.normalize("NFKC", word.decode())
    return any(stem in stems for _, _, stem in _tokens(f"{plain} {fts_query.parts(plain)}".encode()))


def _best(matches: list[Match]) -> int:
    """The start of the snippet with the greatest number of terms, found by a sliding window over the matches."""
    shown: Counter[str] = Counter()
    best, max_terms, last = 0, 0, 0
    for first, (start, _, term) in enumerate(matches):
        while last < len(matches) and (last == first or matches[last][1] <= start + LENGTH - LEAD):
            shown[matches[last][2]] += 1
            last += 1
        if len(shown) > max_terms:
            best, max_terms = start, len(shown)
        shown[term] -= 1
        if not shown[term]:
            del shown[term]
    return best


def _cut(raw: bytes, start: int, *, more_before: bool = False) -> str:
    end = min(len(raw), start + LENGTH)
    if start > 0:
        space = raw.find(b" ", start, start + MAX_CUT_SHIFT_BYTES)
        start = space + 1 if space >= 0 else start
    if end < len(raw):
        space = raw.rfind(b" ", end - MAX_CUT_SHIFT_BYTES, end)
        end = space if space > start else end
    piece = " ".join(raw[start:end].decode(errors="ignore").split())
    return ("…" if start > 0 or more_before else "") + piece + ("…" if end < len(raw) else "")


class _Tokenizer(threading.local):
    """The tokenizer of the word indexes, so that a snippet matches exactly as a search does. One per thread."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.tokens = self.connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])


@cache
def _tokenizer() -> _Tokenizer:
    return _Tokenizer()


def _tokens(raw: bytes) -> list[Match]:
    return _tokenizer().tokens(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)  # type: ignore[return-value]  # not in the stub
