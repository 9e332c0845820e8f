"""What families without an index of meanings keep, copied into one that has it.

The copies are notes in a file of their own, recall.db, and are found as notes are: by words and by meaning. The file is
a cache, brought in line with the families each time somebody asks.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Concatenate, ParamSpec, TypeVar

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError, Unavailable, Unusable
from memory_mcp.families.family import Group, Groups, Match, Text, TextQuery
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import Author, Filter, NewNote
from memory_mcp.families.notes.model import NoteQuery as NotesQuestion

AT_ONCE = 200  # texts in one transaction
MAX_BATCH_CHARS = 1_000_000  # characters of those together, unless one has more
MAX_TEXT_CHARS = 200_000  # characters of a text that are looked through
BOOKMARKS = "bookmarks"  # the namespace that says up to which version a group was copied
ANEW = "Its index was damaged and is being made anew; ask again in a moment."

_COPY = Author(source="import")
P = ParamSpec("P")
T = TypeVar("T")


class Index:
    """The copies of every user's texts."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._copies = _Copies(notes)
        self._followed: dict[tuple[str, str], int] = {}  # by user and family: with which of the user's files
        self._stopping = threading.Event()

    def follow(self, caller: Caller, family: str, groups: Groups) -> None:
        """Bring the copies of a family's texts in line with it.

        A group that cannot be read keeps the copies it has and does not keep the others from being followed. Raises
        AppError for it at the end.
        """
        try:
            self._follow(caller, family, groups)
        except _Restarted:
            self._follow(caller, family, groups)

    def search(self, caller: Caller, family: str, wanted: TextQuery) -> list[Match]:
        copies, user = self._copies, caller.user
        if self._followed.get((user, family), copies.file[user]) != copies.file[user]:
            raise Unavailable(ANEW)
        # The namespaces of the copies are groups, such as portals/NAMESPACE/PORTAL.
        within = None if caller.confined_to is None else f"{family}/{caller.confined_to}/"
        chosen = Filter(folder=family, tags=wanted.tags, namespace_prefix=within)
        asked = NotesQuestion(wanted.query, chosen, limit=wanted.limit)
        found, _ = copies.use(self._notes.hits, caller.unconfined(), asked)
        # One may be gone by now: a text that changes gets another copy.
        known = copies.use(self._notes.metadata, caller.unconfined(), [hit.id for hit in found])
        return [
            Match(
                ref=known[hit.id]["ref"],
                title=known[hit.id]["title"],
                snippet=hit.snippet,
                score=hit.score,
                cosine=hit.score_breakdown.cosine,
                lexical=hit.score_breakdown.lexical,
            )
            for hit in found
            if hit.id in known
        ]

    def purge(self, caller: Caller, name: str, *, family: str, groups: Groups) -> None:
        """Remove the copies of a group's texts that its family no longer has from the disk, their words in the index
        included."""
        if not self._notes.has_file(caller):
            return
        place = f"{family}/{name}"
        there = self._copies.use(self._notes.ids, caller, place)
        group = next((one for one in groups(caller) if one.name == name), None) if there else None
        wanted = {_id(place, key, version) for key, version in group.versions().items()} if group else set()
        if gone := there - wanted:
            self._copies.set_bookmark(caller, place, None)
            self._drop(caller, gone)
            self._copies.use(self._notes.purge_words, caller)

    def stop(self) -> None:
        """Whoever follows gives up after the texts at hand."""
        self._stopping.set()

    def _follow(self, caller: Caller, family: str, groups: Groups) -> None:
        file = self._copies.file[caller.user]
        present = {f"{family}/{group.name}": group for group in groups(caller)}
        self._forget_others(caller, family, present)
        failed: AppError | None = None
        for place, group in present.items():
            try:
                self._follow_group(caller, family, place, group)
            except _Restarted:
                raise
            except AppError as exc:
                failed = exc
        self._followed[caller.user, family] = file
        if failed:
            raise failed

    def _follow_group(self, caller: Caller, family: str, place: str, group: Group) -> None:
        if group.version is not None and self._copies.bookmark(caller, place) == group.version:
            return
        # First what is there, then what should be: what another process puts in between is left to it.
        there = self._copies.use(self._notes.ids, caller, place)
        wanted = {_id(place, key, version): key for key, version in group.versions().items()}
        self._drop(caller, there - wanted.keys())
        missing = [(id_, key) for id_, key in wanted.items() if id_ not in there]
        for entries in _batches(_texts(group, missing)):
            self._go_on()
            copies = [(id_, _copy(family, place, text)) for id_, text in entries]
            self._copies.use(self._notes.put, caller, _COPY, copies)
        if group.version is not None:
            self._copies.set_bookmark(caller, place, group.version)

    def _forget_others(self, caller: Caller, family: str, present: Mapping[str, Group]) -> None:
        """The copies of groups that are gone."""
        for place in self._copies.use(self._notes.namespace_names, caller):
            if place.startswith(f"{family}/") and place not in present:
                self._copies.set_bookmark(caller, place, None)
                self._drop(caller, self._copies.use(self._notes.ids, caller, place))

    def _drop(self, caller: Caller, ids: Iterable[str]) -> None:
        gone = list(ids)
        for start in range(0, len(gone), AT_ONCE):
            self._go_on()
            self._copies.use(self._notes.drop, caller, gone[start : start + AT_ONCE])

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Unavailable("The server stops.")


class _Restarted(Unavailable):
    """The file could not be read any more, and an empty one is in its place."""


class _Copies:
    """The files of the copies. One that cannot be read any more is thrown away."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._mending = threading.Lock()
        self.file: Counter[str] = Counter()  # by user: how many have been thrown away

    def use(self, act: Callable[Concatenate[Caller, P], T], caller: Caller, *args: P.args, **named: P.kwargs) -> T:
        """Raises Unavailable, with an empty file in its place, if it is damaged."""
        file = self.file[caller.user]
        try:
            return act(caller, *args, **named)
        except Unusable as exc:
            with self._mending:
                if self.file[caller.user] == file:  # else somebody else was told the same and has done it
                    self._start_anew(caller)
            raise _Restarted(ANEW) from exc

    def bookmark(self, caller: Caller, place: str) -> str | None:
        """The version of a group up to which it was copied."""
        id_ = _id(place, "", BOOKMARKS)
        found = self.use(self._notes.metadata, caller, [id_])
        return str(found[id_]["version"]) if found else None

    def set_bookmark(self, caller: Caller, place: str, version: str | None) -> None:
        id_ = _id(place, "", BOOKMARKS)
        entry = NewNote(place, namespace=BOOKMARKS, folder=BOOKMARKS, metadata={"version": version})
        self.use(self._notes.drop, caller, [id_])
        if version is not None:
            self.use(self._notes.put, caller, _COPY, [(id_, entry)])

    def _start_anew(self, caller: Caller) -> None:
        try:
            self._notes.start_anew(caller)
        except OSError as exc:
            raise Unavailable("Its index cannot be written. Check that the data directory is yours.") from exc
        self.file[caller.user] += 1


def _copy(family: str, place: str, text: Text) -> NewNote:
    return NewNote(
        content=text.content[:MAX_TEXT_CHARS] or text.title,
        title=text.name or text.title,
        tags=text.tags,
        namespace=place,
        folder=family,
        metadata={"ref": text.ref, "title": text.title},
    )


def _id(place: str, key: str, version: str) -> str:
    """Of the copy of one version: a text that changes gets another copy."""
    return blake2b(f"{place}\n{key}\n{version}".encode(), digest_size=16).hexdigest()


def _texts(group: Group, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Text]]:
    """Of those (id, key) that are still there."""
    for start in range(0, len(wanted), AT_ONCE):
        some = wanted[start : start + AT_ONCE]
        for (id_, _), text in zip(some, list(group.texts([key for _, key in some])), strict=True):
            if text:
                yield id_, text


def _batches(texts: Iterable[tuple[str, Text]]) -> Iterator[list[tuple[str, Text]]]:
    batch: list[tuple[str, Text]] = []
    characters = 0
    for id_, text in texts:
        batch.append((id_, text))
        characters += min(len(text.content), MAX_TEXT_CHARS)
        if len(batch) == AT_ONCE or characters > MAX_BATCH_CHARS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
