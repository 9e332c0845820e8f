"""Pairs of notes that a person should look at: those that say the same, and those that may contradict each other."""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.list_model import Attention
from memory_mcp.families.notes.model import Filter, Note, NoteState, UpdatedCursor
from memory_mcp.families.notes.storage import counts, index, lists, notes, review
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.services.search_index import IndexFile, IndexFiles
from memory_mcp.services.search_index.storage import vectors
from memory_mcp.services.search_index.vector_search import MIN_DUPLICATE_COSINE

MIN_RELATED_COSINE = 0.8  # from which on two notes are compared word by word
MIN_SHARED_WORDS = 0.6  # of the words of both, in notes that may contradict each other
MAX_COMPARED_WORDS = 200  # longer texts differ in some word without contradicting each other
MAX_PAIRS_OF_NOTE = 5
MAX_REMEMBERED_NOTES = 2000  # of all users, whose nearest notes are known

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


class NearestNotes:
    """The notes nearest to a note, which are found by comparing it with all others, once for each text of it.

    Notes that were written since may be missing: they find the pair when they are compared themselves.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], dict[int, float]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, tx: Read, file: IndexFile, user: str, compared: Sequence[StoredNote]) -> list[dict[int, float]]:
        """For each note, in one pass over the vectors of all notes. Empty for those without a vector."""
        space = vectors.space(tx)
        keys: dict[int, tuple[object, ...]] = {
            one.seq: (user, one.seq, one.note.id, one.note.version, one.note.updated_at, space) for one in compared
        }
        found = self._recall(keys)
        added = file.vectors.near_texts(tx, [seq for seq in keys if seq not in found], MIN_RELATED_COSINE)
        self._remember({keys[seq]: near for seq, near in added.items()})
        return [found.get(seq) or added.get(seq, {}) for seq in keys]

    def _recall(self, keys: dict[int, tuple[object, ...]]) -> dict[int, dict[int, float]]:
        with self._lock:
            known = {seq: self._known[key] for seq, key in keys.items() if key in self._known}
            for seq in known:
                self._known.move_to_end(keys[seq])
        return known

    def _remember(self, near: dict[tuple[object, ...], dict[int, float]]) -> None:
        with self._lock:
            self._known.update(near)
            while len(self._known) > MAX_REMEMBERED_NOTES:
                self._known.popitem(last=False)


class NoteReview:
    def __init__(self, files: IndexFiles) -> None:
        self._files = files
        self._nearest = NearestNotes()

    def attention(self, caller: Caller) -> Attention:
        within = caller.confined_to
        with self._files.of(caller.user).db.read() as tx:
            superseded, expired = (
                lists.count(tx, Filter(within=within, excluded_source="hook", state=state)) for state in COUNTED_STATES
            )
            missing = counts.count_unarchived(tx, within) - index.count_embedded(tx, within)
        return Attention(superseded, expired, missing)

    def pairs(self, caller: Caller, after: UpdatedCursor | None, limit: int) -> NotePairs:
        """Compare the notes changed last with all older ones of their namespaces.

        Messages of conversations and superseded notes are left out, and so are two notes with a link between them: they
        were compared before. Notes without vectors are only compared by their whole text.
        """
        file, chosen = (
            self._files.of(caller.user),
            Filter(within=caller.confined_to, excluded_source="hook", is_current=True),
        )
        with file.db.read() as tx:
            compared = notes.by_seq(tx, review.latest(tx, caller.confined_to, after, limit), caller.confined_to)
            found: list[NotePair] = []
            nearest = self._nearest.find(tx, file, caller.user, compared)
            for one, near in zip(compared, nearest, strict=True):
                for other, kind in _related(tx, near, chosen, one):
                    found.append(NotePair(kind, newer=one.note, older=other.note))
        last = compared[-1] if len(compared) == limit else None
        return NotePairs(found, UpdatedCursor(last.note.updated_at, last.seq) if last else None)


def _related(
    tx: Read, near: dict[int, float], chosen: Filter, one: StoredNote
) -> Iterator[tuple[StoredNote, PairKind]]:
    cosines = near | dict.fromkeys(review.equal_texts(tx, one.seq, MAX_PAIRS_OF_NOTE), 1.0)
    here = set(lists.matching(tx, replace(chosen, namespace=one.note.namespace), among=cosines))
    found = notes.by_seq(tx, [seq for seq in cosines if seq in here], chosen.within)
    others = [other for other in found if _last_change(other) < _last_change(one)]
    known = review.linked(tx, one.seq)
    kinds = ((other, kind_of_pair(one.note.content, other.note.content, cosines[other.seq])) for other in others)
    shown = [(other, kind) for other, kind in kinds if kind and other.seq not in known]
    yield from shown[:MAX_PAIRS_OF_NOTE]


def _last_change(stored: StoredNote) -> tuple[str, int]:
    return stored.note.updated_at, stored.seq


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
