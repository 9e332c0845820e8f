"""Snippets: the part of a text that shows why it was found."""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from memory_mcp.engines.sqlite.tokenizer import located_tokens
from memory_mcp.services.search import fts_query, ranking

MAX_BYTES = 800  # of a snippet
MAX_LISTED_BYTES = 240  # of the beginning that a list shows
MAX_PASSAGE_BYTES = 400  # of a line; longer ones are split into sentences, and longer sentences at a space
MAX_CUT_SHIFT_BYTES = 20  # by which a cut is moved to the next space
MAX_MATCHES = 1000  # considered for the best passages
NEXT_SHARE = 0.5  # of its score that a passage gives to the one after it, which often answers it
GAP = " … "  # between passages

_LINE = re.compile(rb"[^\n]*\n*")
_SENTENCE = re.compile(rb".+?(?:[.!?](?=\s)|\xe3\x80\x82|$)\s*", re.DOTALL)
_PREFIX = re.compile(r"(\w+)\*")

WordMatch = tuple[int, int, str]  # start and end in bytes, and the term
Passage = tuple[int, int]  # start and end in bytes


@dataclass(frozen=True)
class _SearchTerms:
    """The search terms for a text."""

    stems: frozenset[str]
    prefixes: tuple[str, ...]
    texts: tuple[str, ...]  # literal: other scripts, and text without words


def excerpt(text: str, query: str, nearest: int = 0) -> str:
    """A text for a hit: the whole of a short one, else the passages with the greatest number of the query's words, in
    any form, or if there are none the passage from the character `nearest` on."""
    raw = text.encode()
    if len(raw) <= MAX_BYTES:
        return text.strip()
    matches = sorted(_matches(text, raw, _search_terms(query)))[:MAX_MATCHES]
    if not matches:
        return beginning(text, nearest, MAX_BYTES)
    passages = _passages(raw)
    return _joined(raw, _best(passages, _scores(passages, matches)))


def beginning(text: str, offset: int = 0, max_bytes: int = MAX_LISTED_BYTES) -> str:
    """The beginning of a text, or the part from a character on."""
    raw = text[offset : offset + max_bytes + MAX_CUT_SHIFT_BYTES].encode()
    return _cut(raw, 0, max_bytes, more_before=offset > 0)


@lru_cache(64)
def _search_terms(query: str) -> _SearchTerms:
    phrases = fts_query.terms(query)
    plain = [phrase for phrase in phrases if not fts_query.has_cjk(phrase)]
    others = [phrase.strip('"').replace(" ", "") for phrase in phrases if phrase not in plain]
    return _SearchTerms(
        stems=frozenset(stem for phrase in plain for _, _, stem in located_tokens(phrase.encode())),
        prefixes=tuple(prefix.casefold() for prefix in _PREFIX.findall(query)),
        texts=tuple(others or ([] if plain else [query])),
    )


def _matches(text: str, raw: bytes, sought: _SearchTerms) -> Iterator[WordMatch]:
    for start, end, stem in located_tokens(raw) if sought.stems else ():
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
    return any(stem in stems for _, _, stem in located_tokens(f"{plain} {fts_query.word_parts(plain)}".encode()))


def _passages(raw: bytes) -> list[Passage]:
    """The lines of a text; of a long line its sentences, and of a long sentence its parts."""
    found: list[Passage] = []
    for line in _LINE.finditer(raw):
        if len(line[0]) <= MAX_PASSAGE_BYTES:
            found.append(line.span())
        else:
            found += [part for one in _SENTENCE.finditer(raw, *line.span()) for part in _parts(raw, *one.span())]
    return [(start, end) for start, end in found if raw[start:end].strip()]


def _parts(raw: bytes, start: int, end: int) -> Iterator[Passage]:
    while end - start > MAX_PASSAGE_BYTES:
        middle = raw.rfind(b" ", start, start + MAX_PASSAGE_BYTES) + 1
        if middle <= start:
            middle = start + MAX_PASSAGE_BYTES
            while raw[middle] & 0xC0 == 0x80:  # within a character
                middle -= 1
        yield start, middle
        start = middle
    yield start, end


def _scores(passages: list[Passage], matches: list[WordMatch]) -> list[float]:
    """The score of each passage: its terms, rarer ones more, and a share of the one before it."""
    starts = [start for start, _ in passages]
    terms: list[set[str]] = [set() for _ in passages]
    for start, _, term in matches:
        terms[bisect_right(starts, start) - 1].add(term)
    holders = Counter(term for own in terms for term in own)
    own = [sum(ranking.weight(len(passages), holders[term]) for term in some) for some in terms]
    return [score + NEXT_SHARE * before for score, before in zip(own, [0.0, *own], strict=False)]


def _best(passages: list[Passage], scores: list[float]) -> list[Passage]:
    """The passages with the best scores that fit a snippet together, in the order of the text."""
    left = MAX_BYTES
    chosen = []
    for score, (start, end) in sorted(zip(scores, passages, strict=True), key=lambda one: (-one[0], one[1])):
        if score > 0 and end - start + len(GAP.encode()) <= left:
            chosen.append((start, end))
            left -= end - start + len(GAP.encode())
    return sorted(chosen)


def _joined(raw: bytes, passages: list[Passage]) -> str:
    text, reached = "", 0
    for start, end in passages:
        space = raw[start - 1 : start]
        gap = (GAP if text else "…") if start > reached else "\n" if space == b"\n" else " " if space.isspace() else ""
        text += gap + " ".join(raw[start:end].decode().split())
        reached = end
    return (text + ("…" if raw[reached:].strip() else "")).strip()


def _cut(raw: bytes, start: int, length: int, *, more_before: bool = False) -> str:
    end = min(len(raw), start + length)
    if start > 0:
        space = raw.find(b" ", start, start + MAX_CUT_SHIFT_BYTES)
        start = space + 1 if space >= 0 else start
    if end < len(raw):
        space = raw.rfind(b" ", end - MAX_CUT_SHIFT_BYTES, end)
        end = space if space > start else end
    piece = " ".join(raw[start:end].decode(errors="ignore").split())
    return ("…" if start > 0 or more_before else "") + piece + ("…" if end < len(raw) else "")
