"""Search in notes: the hits of search_index, ordered by importance and supersession too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory_mcp.engines.transactions import Read
from memory_mcp.errors import Unavailable
from memory_mcp.families.notes.model import Breakdown, NoteHit, NoteQuery
from memory_mcp.families.notes.storage import index, links, lists, notes, ranking_facts
from memory_mcp.families.notes.storage.writes import WRITES
from memory_mcp.services.embedding import QueryVectors
from memory_mcp.services.search import ranking
from memory_mcp.services.search_index import IndexFile, hybrid_search
from memory_mcp.services.search_index.hybrid_search import DIGITS, HybridSearch, ScoreParts
from memory_mcp.services.search_index.vector_search import QueryVector, VectorSearch


@dataclass(frozen=True)
class RankedNote:
    seq: int
    parts: ScoreParts
    nearest_chunk: int = 0  # of its text, in meaning, by number
    closeness: float | None = None
    id: str | None = None  # if it was read already
    session_id: str | None = None

    @cached_property
    def score(self) -> float:
        return hybrid_search.score(self.parts)


@dataclass(frozen=True)
class NoteSearch:
    """One query in one user's notes."""

    query: NoteQuery
    vectors: VectorSearch
    vector: QueryVector | None  # None: by words alone

    def page(self, tx: Read) -> "tuple[list[tuple[notes.StoredNote, RankedNote]], bool, str | None]":
        """The hits of the page, whether there are more, and a notice."""
        ranked, notice = self._ranked(tx) if self.query.query else (self._newest(tx), None)
        ranked, has_more = ranked[: self.query.limit], len(ranked) > self.query.limit
        seqs, within = [one.seq for one in ranked], self.query.filter.within
        tx.prefetch(notes.by_seq_query(seqs, within), WRITES.last_writers_query(one.id for one in ranked if one.id))
        stored = notes.by_seq(tx, seqs, within)
        return list(zip(stored, ranked, strict=True)), has_more, notice

    def _newest(self, tx: Read) -> list[RankedNote]:
        """Without a query: the notes that match the filter, newest first."""
        seqs = lists.newest(tx, self.query.filter, self.query.offset, self.query.limit + 1)
        importances = ranking_facts.importances(tx, seqs)
        return [RankedNote(seq, (None, None, round(importances[seq], DIGITS))) for seq in seqs]

    def _ranked(self, tx: Read) -> tuple[list[RankedNote], str | None]:
        tx.prefetch(
            lists.allowed_query(tx, self.query.filter),
            *hybrid_search.first_queries(tx, index.TABLES, self.query.query),
            *self.vectors.first_queries(self.vector),
        )
        search = HybridSearch(
            index.TABLES,
            self.vectors,
            self.query.query,
            self.vector,
            lists.allowed(tx, self.query.filter),
            wanted=self.query.end,
            is_confined=self.query.filter.is_confined,
            ignores_words=self.query.mode == "semantic" and self.vector is not None,
            falls_back=self.query.falls_back,
        )
        candidates = search.candidates(tx)
        facts = ranking_facts.of_rows(candidates.facts, candidates.seqs)
        parts = {seq: candidates.parts(seq, one.importance) for seq, one in facts.items()}
        if self.vector is not None and self.query.compares_sessions:
            parts = _with_sessions(parts, {seq: one.session_id for seq, one in facts.items() if one.session_id})
        order = sorted(parts, key=lambda seq: (-hybrid_search.score(parts[seq]), -seq))
        superseded = [seq for seq in order if facts[seq].is_superseded]  # of all, so that each page has the same order
        newer = links.successors(tx, superseded) if superseded else {}
        if newer:
            order, late = self._successors_first(tx, order, newer)
            if late:
                candidates = search.with_texts(tx, candidates, {*late, *order})
                parts |= {seq: candidates.parts(seq, one) for seq, one in ranking_facts.importances(tx, late).items()}
        page = order[self.query.offset : self.query.end + 1]
        near = candidates.near
        known = {seq: (one.id, one.session_id) for seq, one in facts.items()}
        ranked = [
            RankedNote(seq, parts[seq], near.chunks.get(seq, 0), near.closeness.get(seq), *known.get(seq, (None, None)))
            for seq in page
        ]
        return ranked, candidates.notice

    def _successors_first(
        self, tx: Read, order: Sequence[int], newer: Mapping[int, int]
    ) -> tuple[list[int], list[int]]:
        """Move each superseded note after its successor, and add successors that were not found. The second list has
        the added ones."""
        wanted = set(lists.matching(tx, self.query.filter, among=set(newer.values())))
        moved: dict[int, None] = {}
        for seq in order:
            chain = [seq]
            while (later := newer.get(chain[-1])) is not None and later not in chain:
                chain.append(later)
            moved |= dict.fromkeys(one for one in reversed(chain) if one == seq or one in wanted)
        return list(moved), [seq for seq in wanted if seq not in set(order)]

    def hit(self, stored: notes.StoredNote, ranked: RankedNote) -> NoteHit:
        note = stored.note
        return NoteHit(
            id=note.id,
            title=note.title,
            snippet=hybrid_search.snippet(self.query.query, stored.own_title, note.content, ranked.nearest_chunk),
            tags=note.tags,
            importance=note.importance,
            namespace=note.namespace,
            created_at=note.created_at,
            updated_at=note.updated_at,
            last_referenced_at=note.last_referenced_at,
            score=ranked.score,
            score_breakdown=Breakdown(*ranked.parts),
            source=note.source,
            superseded_by=note.superseded_by,
            closeness=ranked.closeness,
            session_id=ranked.session_id,
        )


def _with_sessions(parts: Mapping[int, ScoreParts], sessions: Mapping[int, str]) -> dict[int, ScoreParts]:
    """Reduce the cosine part of notes whose sessions fit less well than the best one."""
    distances = ranking.session_distances({seq: hybrid_search.score(one) for seq, one in parts.items()}, sessions)
    return {
        seq: (
            None if cosine is None else round(ranking.cosine_in_session(cosine, distances[seq]), DIGITS),
            lexical,
            importance,
        )
        for seq, (cosine, lexical, importance) in parts.items()
    }


def query_vector(file: IndexFile, queries: QueryVectors, query: NoteQuery) -> tuple[QueryVector | None, str | None]:
    """The query as a vector, or the reason why there is none. Do not call it within a transaction: it may take a
    while."""
    if query.mode == "lexical" or not query.query:
        return None, None
    if queries.are_off:
        return None, _by_words_alone("Embedding is switched off (--embedder).") if query.mode == "semantic" else None
    space = file.vectors.space(file.db)
    if space is None:
        with file.db.read() as tx:
            waiting = index.is_waiting(tx, query.filter.within)
        return None, _by_words_alone(queries.missing_reason()) if waiting or query.mode == "semantic" else None
    try:
        return QueryVector.of(queries, space, query.query), None
    except Unavailable as exc:
        return None, _by_words_alone(exc.message)


def _by_words_alone(reason: str) -> str:
    return f"Searched by words alone. {reason}"
