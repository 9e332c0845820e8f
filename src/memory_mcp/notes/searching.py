"""Search: words, meaning and importance brought into one order."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp.embedding import Queries, Space
from memory_mcp.embedding.parts import parts
from memory_mcp.errors import Unavailable
from memory_mcp.notes import storage
from memory_mcp.notes.meaning import Meaning, Nearness, QuestionVector
from memory_mcp.notes.model import Breakdown, Hit, Question
from memory_mcp.search import finding, ranking, snippets
from memory_mcp.sqlite import Database, Read

BY_WORDS = 200  # candidates each way of searching brings into the running
BY_VECTOR = 100
DIGITS = 6  # of scores and their parts
LONGEST_QUESTION = 2000  # characters that are embedded


@dataclass(frozen=True)
class Ranked:
    seq: int
    score: float
    breakdown: Breakdown
    part: int = 0  # the one nearest in meaning


@dataclass(frozen=True)
class Search:
    """One question on its way through one user's notes."""

    question: Question
    meaning: Meaning
    vector: QuestionVector | None  # None: by words alone

    def hits(self, tx: Read) -> list[Hit]:
        ranked = self._ranked(tx) if self.question.query else self._newest(tx)
        stored = storage.by_seq(tx, [one.seq for one in ranked])
        return [self._hit(stored[one.seq], one) for one in ranked]

    def _newest(self, tx: Read) -> list[Ranked]:
        """Nothing was asked for: what fits the filter, the newest first."""
        seqs = storage.newest(tx, self.question.filter, self.question.limit)
        importances = storage.importances(tx, seqs)
        return [_scored(seq, None, None, importances[seq]) for seq in seqs]

    def _ranked(self, tx: Read) -> list[Ranked]:
        lexical = {} if self._ignores_words else self._by_words(tx)
        near = self._near(tx, lexical)
        running = {*lexical, *(near.nearest if self._ignores_words else near.related)}
        importances = storage.importances(tx, list(running))
        ranked = sorted(
            (self._score(seq, lexical, near, importance) for seq, importance in importances.items()),
            key=lambda one: (-one.score, -one.seq),
        )
        return self._successors_first(tx, ranked)[: self.question.limit]

    @property
    def _ignores_words(self) -> bool:
        return self.question.mode == "semantic" and self.vector is not None

    def _by_words(self, tx: Read) -> dict[int, float]:
        index = storage.WordIndex(tx, self.question.filter)
        return finding.by_words(index, self.question.query, max(BY_WORDS, self.question.limit)).scores()

    def _near(self, tx: Read, candidates: Sequence[int] | dict[int, float]) -> Nearness:
        if self.vector is None:
            return Nearness()
        chosen = self.question.filter
        everything = chosen.is_empty and not storage.has_expired(tx)
        allowed = None if everything else storage.fitting(tx, chosen)
        return self.meaning.near(tx, self.vector, candidates, allowed, max(BY_VECTOR, self.question.limit))

    def _score(self, seq: int, lexical: dict[int, float], near: Nearness, importance: float) -> Ranked:
        words = None if self._ignores_words else lexical.get(seq, 0.0)
        return _scored(seq, near.scores.get(seq), words, importance, near.parts.get(seq, 0))

    def _successors_first(self, tx: Read, ranked: list[Ranked]) -> list[Ranked]:
        """A note that another one replaces comes after that one, also if that one would not have been found."""
        chains = storage.successors(tx, [one.seq for one in ranked[: self.question.limit]])
        if not chains:
            return ranked
        known = {one.seq: one for one in ranked}
        wanted = set(storage.fitting(tx, self.question.filter, among=list(chains.values())))
        known |= self._brought_in(tx, wanted - known.keys())
        order: dict[int, None] = {}
        for one in ranked:
            if chains.get(one.seq) in wanted:
                order.setdefault(chains[one.seq])
            order.setdefault(one.seq)
        return [known[seq] for seq in order]

    def _brought_in(self, tx: Read, seqs: set[int]) -> dict[int, Ranked]:
        near = self._near(tx, list(seqs)) if seqs else Nearness()
        importances = storage.importances(tx, list(seqs))
        return {seq: self._score(seq, {}, near, importance) for seq, importance in importances.items()}

    def _hit(self, stored: storage.Stored, one: Ranked) -> Hit:
        note = stored.note
        return Hit(
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

    def _snippet(self, stored: storage.Stored, one: Ranked) -> str:
        """Around the words that match; where none do, the part that is nearest in meaning."""
        content = stored.note.content
        if (found := snippets.around(content, self.question.query)) is not None:
            return found
        if not one.part:
            return snippets.beginning(content)
        title = f"{stored.own_title}\n" if stored.own_title else ""
        found = parts(title + content)
        start, _ = found[min(one.part, len(found) - 1)]  # it may have become shorter since it was embedded
        return snippets.beginning(content, max(0, start - len(title)))


def _scored(seq: int, cosine: float | None, lexical: float | None, importance: float, part: int = 0) -> Ranked:
    """Rounded first, so that the formula holds to the digit for who reads the parts."""
    breakdown = Breakdown(
        cosine=None if cosine is None else round(cosine, DIGITS),
        lexical=None if lexical is None else round(lexical, DIGITS),
        importance=round(importance, DIGITS),
    )
    score = ranking.score(breakdown.cosine, breakdown.lexical, breakdown.importance)
    return Ranked(seq, round(score, DIGITS), breakdown, part)


def question_vector(db: Database, queries: Queries, question: Question) -> tuple[QuestionVector | None, str | None]:
    """The question as a vector, and why there is none if there should be one. Asked before any transaction: it may
    take a while."""
    if question.mode == "lexical" or not question.query:
        return None, None
    if queries.are_off:
        return None, _by_words_alone("Embedding is switched off (--embedder).") if question.mode == "semantic" else None
    with db.read() as tx:
        found, waiting = storage.space(tx), storage.is_waiting(tx)
    if found is None:
        return None, _by_words_alone(queries.missing()) if waiting or question.mode == "semantic" else None
    try:
        vector = queries.vector(Space.parse(found[0]), question.query[:LONGEST_QUESTION])
        return QuestionVector(found[0], vector), None
    except Unavailable as exc:
        return None, _by_words_alone(exc.message)


def _by_words_alone(reason: str) -> str:
    return f"Searched by words alone. {reason}"
