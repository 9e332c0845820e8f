"""What families without an index of meanings keep, copied into one that has it.

The copies are notes in a file of their own, recall.db, and are found as notes are: by words and by meaning. The file is
a cache, brought in line with the families each time somebody asks.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from uuid import NAMESPACE_URL, uuid5

from memory_mcp.caller import Caller
from memory_mcp.families import Group, Groups, Text
from memory_mcp.notes import Notes
from memory_mcp.notes.model import Author, Filter, NewNote
from memory_mcp.notes.model import Question as NotesQuestion
from memory_mcp.recall.model import Match, Question

AT_ONCE = 200  # texts in one transaction
LONGEST = 200_000  # characters of a text that are looked through
BOOKMARKS = "bookmarks"  # the namespace that says up to which version a group was copied

_COPY = Author(source="import")


class Index:
    """The copies of every user's texts."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._following: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)

    def follow(self, caller: Caller, family: str, groups: Groups) -> None:
        """Bring the copies of a family's texts in line with it, as far as others have not done so meanwhile."""
        with self._following[caller.user, family]:
            present = {f"{family}/{group.name}": group for group in groups(caller)}
            for place, group in present.items():
                self._follow_group(caller, family, place, group)
            for known in self._notes.namespaces(caller).namespaces:
                if known.namespace.startswith(f"{family}/") and known.namespace not in present:
                    self._notes.drop(caller, self._notes.ids(caller, known.namespace))

    def search(self, caller: Caller, family: str, question: Question, limit: int) -> list[Match]:
        chosen = Filter(tags=(_family_tag(family), *question.tags))
        found = self._notes.search(caller, NotesQuestion(question.query, chosen, limit=limit))
        return [
            Match(
                ref=str(self._notes.read(caller, hit.id).metadata["ref"]),
                title=hit.title,
                snippet=hit.snippet,
                score=hit.score,
                cosine=hit.score_breakdown.cosine,
                lexical=hit.score_breakdown.lexical,
            )
            for hit in found.memories
        ]

    def _follow_group(self, caller: Caller, family: str, place: str, group: Group) -> None:
        bookmark = _id(place, group.version or "", BOOKMARKS)
        if group.version is not None and bookmark in self._notes.ids(caller, BOOKMARKS):
            return
        versions = group.versions()
        wanted = {_id(place, key, version): key for key, version in versions.items()}
        there = self._notes.ids(caller, place)
        self._notes.drop(caller, there - wanted.keys())
        missing = [(id_, key) for id_, key in wanted.items() if id_ not in there]
        for some in _batches(missing):
            texts = zip((id_ for id_, _ in some), group.texts([key for _, key in some]), strict=True)
            self._notes.put(caller, _COPY, [(id_, _copy(family, place, text)) for id_, text in texts if text])
        if group.version is not None:
            self._notes.put(caller, _COPY, [(bookmark, NewNote(place, namespace=BOOKMARKS))])


def _copy(family: str, place: str, text: Text) -> NewNote:
    return NewNote(
        content=text.content[:LONGEST] or text.title,
        title=text.title,
        tags=(_family_tag(family), *text.tags),
        namespace=place,
        metadata={"ref": text.ref},
    )


def _family_tag(family: str) -> str:
    return f"family/{family}"


def _id(place: str, key: str, version: str) -> str:
    """Of the copy of one version: a text that changes gets another copy."""
    return str(uuid5(NAMESPACE_URL, f"{place}\n{key}\n{version}"))


def _batches(items: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    left: Iterable[tuple[str, str]] = iter(items)
    while some := list(islice(left, AT_ONCE)):
        yield some
