"""Search: words, meaning and importance brought into one order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.embedding import QueryVectors
from memory_mcp.embedding.chunks import parts
from memory_mcp.engines.sqlite import Database, Read
from memory_mcp.errors import Unavailable
from memory_mcp.families.notes.embedding_queue import embedded_text
from memory_mcp.families.notes.model import Breakdown, NoteHit, NoteQuery
from memory_mcp.families.notes.storage import links, lists, notes, queue, vectors, words
from memory_mcp.families.notes.vector_search import Meaning, Nearness, QuestionVector
from memory_mcp.search import ranking, snippets, word_search

BY_WORDS = 200  # candidates each way of searching brings into the running
BY_VECTOR = 100
DIGITS = 6  # of scores and their parts
MAX_EMBEDDED_CHARS = 2000  # characters that are embedded

Parts = tuple[float | None, float | None, float]
"""Cosine, lexical and importance; None for a part that was not looked at."""


@dataclass(frozen=True)
class Ranked:
    seq: int
    score: float
    breakdown: Breakdown
    part: int = 0  # the one nearest in meaning


@dataclass(frozen=True)
class Search:
    """One question on its way through one user's notes."""

    question: NoteQuery
    meaning: Meaning
    vector: QuestionVector | None  # None: by words alone

    def found(self, tx: Read) -> "tuple[list[tuple[notes.Stored, Ranked]], bool]":
        """The hits of the page that is asked for, and whether there are more."""
        ranked = self._ranked(tx) if self.question.query else self._newest(tx)
        ranked, has_more = ranked[: self.question.limit], len(ranked) > self.question.limit
        return self._stored(tx, ranked), has_more

    def _stored(self, tx: Read, ranked: Sequence[Ranked]) -> list[tuple[notes.Stored, Ranked]]:
        return list(
            zip(notes.by_seq(tx, [one.seq for one in ranked], self.question.filter.within), ranked, strict=True)
        )

    def _newest(self, tx: Read) -> list[Ranked]:
        """Nothing was asked for: what fits the filter, the newest first."""
        seqs = lists.newest(tx, self.question.filter, self.question.offset, self.question.limit + 1)
        importances = notes.importances(tx, seqs)
        return [_ranked(seq, (None, None, round(importances[seq], DIGITS))) for seq in seqs]

    def _ranked(self, tx: Read) -> list[Ranked]:
        allowed = lists.allowed(tx, self.question.filter)
        lexical = {} if self._ignores_words else self._by_words(tx, allowed)
        near = self._near(tx, lexical, allowed)
        running = {*lexical, *(near.nearest if self._ignores_words else near.related)}
        parts = {seq: self._parts(seq, lexical, near, one) for seq, one in notes.importances(tx, running).items()}
        order = sorted(parts, key=lambda seq: (-_score(*parts[seq]), -seq))
        newer = links.successors(tx, order)  # of all, so that each page sees the same order
        if newer:
            order, late = self._successors_first(tx, order, newer)
            near = self._near(tx, {*late, *order}, allowed) if late else near
            parts |= {seq: self._parts(seq, {}, near, one) for seq, one in notes.importances(tx, late).items()}
        page = order[self.question.offset : self.question.end + 1]
        return [_ranked(seq, parts[seq], near.parts.get(seq, 0)) for seq in page]

    @property
    def _ignores_words(self) -> bool:
        return self.question.mode == "semantic" and self.vector is not None

    def _by_words(self, tx: Read, allowed: lists.Allowed | None) -> dict[int, float]:
        index = words.WordIndex(tx, allowed, is_confined=self.question.filter.is_confined)
        return word_search.by_words(index, self.question.query, max(BY_WORDS, self.question.end + 1)).scores()

    def _near(self, tx: Read, candidates: Iterable[int], allowed: lists.Allowed | None) -> Nearness:
        if self.vector is None:
            return Nearness()
        flags = allowed.flags if allowed else None
        return self.meaning.near(tx, self.vector, candidates, flags, max(BY_VECTOR, self.question.end + 1))

    def _parts(self, seq: int, lexical: Mapping[int, float], near: Nearness, importance: float) -> Parts:
        """Rounded, so that the formula holds to the digit for who reads them."""
        cosine = near.scores.get(seq)
        return (
            None if cosine is None else round(cosine, DIGITS),
            None if self._ignores_words else round(lexical.get(seq, 0.0), DIGITS),
            round(importance, DIGITS),
        )

    def _successors_first(
        self, tx: Read, order: Sequence[int], newer: Mapping[int, int]
    ) -> tuple[list[int], list[int]]:
        """A note that another one supersedes comes after that one, also if that one would not have been found. The
        second list names those."""
        wanted = set(lists.fitting(tx, self.question.filter, among=set(newer.values())))
        moved: dict[int, None] = {}
        for seq in order:
            chain = [seq]
            while (later := newer.get(chain[-1])) is not None and later not in chain:
                chain.append(later)
            moved |= dict.fromkeys(one for one in reversed(chain) if one == seq or one in wanted)
        return list(moved), [seq for seq in wanted if seq not in set(order)]

    def hit(self, stored: notes.Stored, one: Ranked) -> NoteHit:
        note = stored.note
        return NoteHit(
            id=note.id,
            title=note.title,
            snippet=self._snippet(stored, one),
            tags=note.tags,
            importance=note.importance,
            last_referenced_at=note.last_referenced_at,
            score=one.score,
            score_breakdown=one.breakdown,
            superseded_by=note.superseded_by,
        )

    def _snippet(self, stored: notes.Stored, one: Ranked) -> str:
        """Around the words that match; where none do, the part that is nearest in meaning."""
        content = stored.note.content
        if (found := snippets.around(content, self.question.query)) is not None:
            return found
        if not one.part:
            return snippets.beginning(content)
        text = embedded_text(stored.own_title, content)
        pieces = parts(text)
        start, _ = pieces[min(one.part, len(pieces) - 1)]  # it may have become shorter since it was embedded
        return snippets.beginning(content, max(0, start - (len(text) - len(content))))


def _score(cosine: float | None, lexical: float | None, importance: float) -> float:
    return round(ranking.score(cosine, lexical, importance), DIGITS)


def _ranked(seq: int, parts: Parts, part: int = 0) -> Ranked:
    return Ranked(seq, _score(*parts), Breakdown(*parts), part)


def question_vector(
    db: Database, queries: QueryVectors, question: NoteQuery
) -> tuple[QuestionVector | None, str | None]:
    """The question as a vector, and why there is none if there should be one. Asked before any transaction: it may
    take a while."""
    if question.mode == "lexical" or not question.query:
        return None, None
    if queries.are_off:
        return None, _by_words_alone("Embedding is switched off (--embedder).") if question.mode == "semantic" else None
    with db.read() as tx:
        space, waiting = vectors.space(tx), queue.is_waiting(tx, question.filter.within)
    if space is None:
        return None, _by_words_alone(queries.missing()) if waiting or question.mode == "semantic" else None
    try:
        return QuestionVector(space, queries.vector(space, question.query[:MAX_EMBEDDED_CHARS])), None
    except Unavailable as exc:
        return None, _by_words_alone(exc.message)


def _by_words_alone(reason: str) -> str:
    return f"Searched by words alone. {reason}"
