"""The index in recall.db of the texts of families without their own search index.

The file is a cache: each recall updates it first.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.families.texts import Group, Groups, Match, Text, TextQuery
from memory_mcp.services.search_index import IndexQuery, IndexRecreated, IndexText, SearchIndex
from memory_mcp.services.search_index.index import REBUILDING

MAX_BATCH_TEXTS = 200  # in one transaction
MAX_BATCH_CHARS = 1_000_000  # of those together, unless one text has more
MAX_TEXT_CHARS = 200_000  # of a text that are indexed
MAX_FORMER_TEXTS = 2000  # former versions that new ones are compared with


class RecallIndex:
    """Every user's texts in these families."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._updated_generations: dict[
            tuple[str, str], int
        ] = {}  # by user and family: the generation of the user's file
        self._stopping = threading.Event()

    def update(self, caller: Caller, family: str, groups: Groups) -> None:
        """Update the index of a family's texts.

        A group that cannot be read keeps its index, and the others are updated. Raises AppError for it at the end.
        """
        try:
            self._update(caller, family, groups)
        except IndexRecreated:
            self._update(caller, family, groups)

    def search(self, caller: Caller, family: str, wanted: TextQuery) -> list[Match]:
        generation = self._index.generation(caller.user)
        if self._updated_generations.get((caller.user, family), generation) != generation:
            raise Unavailable(REBUILDING)
        query = IndexQuery(
            wanted.query,
            _prefix(caller, family),
            wanted.tags,
            wanted.limit,
            wanted.created,
            is_confined=caller.is_confined,
        )
        return [
            Match(hit.ref, hit.label, hit.snippet, hit.score, hit.cosine, hit.lexical, hit.facts, hit.closeness)
            for hit in self._index.search(caller.user, query)
        ]

    def has_undated(self, caller: Caller, family: str) -> bool:
        """Whether a text of a family has no time."""
        return self._index.has_undated(caller.user, _prefix(caller, family))

    def purge(self, caller: Caller, name: str, *, family: str, groups: Groups) -> None:
        """Erase indexed texts of a group that its family has deleted from the disk."""
        if not self._index.has_file(caller.user):
            return
        group_name = f"{family}/{name}"
        indexed = self._index.ids(caller.user, group_name)
        group = next((one for one in groups(caller) if one.name == name), None) if indexed else None
        wanted = {_id(group_name, key, version) for key, version in group.versions().items()} if group else set()
        if gone := indexed.keys() - wanted:
            self._index.set_group_version(caller.user, group_name, None)
            self._delete(caller, gone)
            self._index.erase_deleted(caller.user)

    def stop(self) -> None:
        """Stop indexing after the current batch."""
        self._stopping.set()

    def _update(self, caller: Caller, family: str, groups: Groups) -> None:
        generation = self._index.generation(caller.user)
        present = {f"{family}/{group.name}": group for group in groups(caller)}
        self._delete_missing_groups(caller, family, present)
        failed: AppError | None = None
        for group_name, group in present.items():
            try:
                self._update_group(caller, group_name, group)
            except IndexRecreated:
                raise
            except AppError as exc:
                failed = exc
        self._updated_generations[caller.user, family] = generation
        if failed:
            raise failed

    def _update_group(self, caller: Caller, group_name: str, group: Group) -> None:
        user = caller.user
        if group.version is not None and self._index.group_version(user, group_name) == group.version:
            return
        # Read the indexed ids before the wanted ones: texts that another process adds in between are left to it.
        indexed = self._index.ids(user, group_name)
        wanted = {_id(group_name, key, version): key for key, version in group.versions().items()}
        gone = indexed.keys() - wanted.keys()
        former = gone if len(gone) <= MAX_FORMER_TEXTS else ()
        missing = [(id_, key) for id_, key in wanted.items() if not indexed.get(id_)]
        for batch in _batches(_texts(group, missing)):
            self._check_stopping()
            self._index.add(user, group_name, batch, former)
        self._delete(caller, gone)
        if group.version is not None:
            self._index.set_group_version(user, group_name, group.version)

    def _delete_missing_groups(self, caller: Caller, family: str, present: Mapping[str, Group]) -> None:
        """Delete groups that no longer exist."""
        for group_name in self._index.groups(caller.user):
            if group_name.startswith(f"{family}/") and group_name not in present:
                self._index.set_group_version(caller.user, group_name, None)
                self._delete(caller, self._index.ids(caller.user, group_name))
                self._index.delete_group(caller.user, group_name)

    def _delete(self, caller: Caller, ids: Iterable[str]) -> None:
        gone = list(ids)
        for start in range(0, len(gone), MAX_BATCH_TEXTS):
            self._check_stopping()
            self._index.delete(caller.user, gone[start : start + MAX_BATCH_TEXTS])

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise Unavailable("The server stops.")


def _prefix(caller: Caller, family: str) -> str:
    """The start of the names of the groups that a caller may see: a group's name is like portals/NAMESPACE/PORTAL."""
    return f"{family}/{caller.confined_to}/" if caller.is_confined else f"{family}/"


def _id(group_name: str, key: str, version: str) -> str:
    """The id of one version of a text: a changed text gets another entry."""
    return blake2b(f"{group_name}\n{key}\n{version}".encode(), digest_size=16).hexdigest()


def _texts(group: Group, wanted: Sequence[tuple[str, str]]) -> Iterator[IndexText]:
    """The texts of those (id, key) that still exist."""
    for start in range(0, len(wanted), MAX_BATCH_TEXTS):
        some = wanted[start : start + MAX_BATCH_TEXTS]
        for (id_, _), text in zip(some, list(group.texts([key for _, key in some])), strict=True):
            if text:
                yield _index_text(id_, text)


def _index_text(id_: str, text: Text) -> IndexText:
    return IndexText(
        id=id_,
        ref=text.ref,
        label=text.title,
        title=text.name or text.title,
        content=text.content[:MAX_TEXT_CHARS] or text.title,
        tags=tuple(text.tags),
        facts=replace(text.facts, created_at=_stamp(text.facts.created_at), updated_at=_stamp(text.facts.updated_at)),
    )


def _stamp(time: str | None) -> str | None:
    """A time in a form that can be compared; None for one that cannot be read."""
    try:
        return precise_stamp(instant(time)) if time else None
    except ValueError:
        return None


def _batches(texts: Iterable[IndexText]) -> Iterator[list[IndexText]]:
    batch: list[IndexText] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text.content)
        if len(batch) == MAX_BATCH_TEXTS or characters > MAX_BATCH_CHARS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
