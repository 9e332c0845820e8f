"""Pairs of notes that a person should look at: those that say the same, and those that may contradict each other."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.list_model import Attention
from memory_mcp.families.notes.model import Filter, Note, NoteState, UpdatedCursor
from memory_mcp.families.notes.storage import counts, index, lists, notes, review
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.search_index import IndexFile, IndexFiles
from memory_mcp.search_index.vector_search import MIN_DUPLICATE_COSINE

MIN_RELATED_COSINE = 0.8  # from which on two notes are compared word by word
MIN_SHARED_WORDS = 0.6  # of the words of both, in notes that may contradict each other
MAX_COMPARED_WORDS = 200  # longer texts differ in some word without contradicting each other
MAX_PAIRS_OF_NOTE = 5

COUNTED_STATES: tuple[NoteState, ...] = ("superseded", "expired")

PairKind = Literal["same", "contradicting"]
_WORD = re.compile(r"\w+(?:[.,:'’]\w+)*")


@dataclass(frozen=True)
class NotePair:
    """Two notes of one namespace. The first was changed last."""

    kind: PairKind
    newer: Note
    older: Note


@dataclass(frozen=True)
class NotePairs:
    """Those of a number of notes; `following` continues with the notes that were changed before."""

    pairs: list[NotePair]
    following: UpdatedCursor | None


class NoteReview:
    def __init__(self, files: IndexFiles) -> None:
        self._files = files

    def attention(self, caller: Caller) -> Attention:
        within = caller.confined_to
        with self._files.of(caller.user).db.read() as tx:
            superseded, expired = (
                lists.count(tx, Filter(within=within, other_than="hook", state=state)) for state in COUNTED_STATES
            )
            missing = counts.count_unarchived(tx, within) - index.count_embedded(tx, within)
        return Attention(superseded, expired, missing)

    def pairs(self, caller: Caller, after: UpdatedCursor | None, limit: int) -> NotePairs:
        """Compare the notes changed last with all others of their namespaces.

        Messages of conversations and superseded notes are left out, and so are two notes with a link between them: they
        were compared before. Notes without vectors are only compared by their whole text.
        """
        file, chosen = (
            self._files.of(caller.user),
            Filter(within=caller.confined_to, other_than="hook", is_current=True),
        )
        with file.db.read() as tx:
            compared = notes.by_seq(tx, review.latest(tx, caller.confined_to, after, limit), caller.confined_to)
            found: dict[frozenset[int], NotePair] = {}
            for one in compared:
                for other, kind in _related(tx, file, chosen, one):
                    found.setdefault(frozenset((one.seq, other.seq)), _pair(kind, one, other))
        last = compared[-1] if len(compared) == limit else None
        return NotePairs(list(found.values()), UpdatedCursor(last.note.updated_at, last.seq) if last else None)


def _related(tx: Read, file: IndexFile, chosen: Filter, one: StoredNote) -> Iterator[tuple[StoredNote, PairKind]]:
    near = file.vectors.near_text(tx, one.seq, MIN_RELATED_COSINE)
    cosines = near | dict.fromkeys(review.equal_texts(tx, one.seq, MAX_PAIRS_OF_NOTE), 1.0)
    here = set(lists.matching(tx, replace(chosen, namespace=one.note.namespace), among=cosines))
    others = notes.by_seq(tx, [seq for seq in cosines if seq in here], chosen.within)
    known = review.linked(tx, one.seq)
    kinds = ((other, kind_of_pair(one.note.content, other.note.content, cosines[other.seq])) for other in others)
    shown = [(other, kind) for other, kind in kinds if kind and other.seq not in known]
    yield from shown[:MAX_PAIRS_OF_NOTE]


def _pair(kind: PairKind, one: StoredNote, other: StoredNote) -> NotePair:
    older, newer = sorted((one, other), key=lambda stored: (stored.note.updated_at, stored.seq))
    return NotePair(kind, newer.note, older.note)


def kind_of_pair(one: str, other: str, cosine: float) -> PairKind | None:
    """Two texts with most of their words in common, each with a word of its own, may contradict each other: "on Monday"
    and "on Friday". Texts of the same meaning without such words say the same."""
    words, others = _words(one), _words(other)
    if max(len(words), len(others)) <= MAX_COMPARED_WORDS:
        mine, theirs = set(words), set(others)
        shared = len(mine & theirs) / max(1, len(mine | theirs))
        if shared >= MIN_SHARED_WORDS and mine - theirs and theirs - mine:
            return "contradicting"
    return "same" if cosine >= MIN_DUPLICATE_COSINE else None


def _words(text: str) -> Sequence[str]:
    return _WORD.findall(text.lower())
