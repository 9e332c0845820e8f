"""The contents of stores: categories, recent memories, texts for search."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from memory_mcp.caller import Caller
from memory_mcp.clock import Clock
from memory_mcp.errors import AppError
from memory_mcp.families.family import LastWrite, within_budget
from memory_mcp.families.references import GroupSize
from memory_mcp.families.stores import frontmatter, paths
from memory_mcp.families.stores.category_indexes import MAX_CATEGORIES_NAMED, CategoryIndexes, subcategory_names
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.journal_items import StoreJournal
from memory_mcp.families.stores.model import (
    Category,
    ListedMemory,
    MemorySummary,
    PathParts,
    RecentFiles,
    RecentMemory,
    is_over,
    ref_of,
)
from memory_mcp.families.stores.store_access import StoreAccess
from memory_mcp.families.texts import Group, Text
from memory_mcp.families.writes import MAX_ORIGIN_CHARS
from memory_mcp.services.search.text_facts import TextFacts

ALL = "all"  # the name of the whole store, where a category is expected


class StoreListings:
    def __init__(self, access: StoreAccess, indexes: CategoryIndexes, clock: Clock, journal: StoreJournal) -> None:
        self._access = access
        self._indexes = indexes
        self._clock = clock
        self.journal = journal

    def list_category(
        self, caller: Caller, store: str, category: str | None, offset: int, *, include_expired: bool
    ) -> Category:
        """One category: its memories, and the categories below it."""
        folder = self._access.open(caller, store)
        parts, name = _resolve_category(folder, category)
        if not parts and folder.is_missing():
            return Category(store, name, 0, [], [])
        now = self._clock()
        listing, memories = self._access.query(caller, folder, lambda catalogue: catalogue.category(parts))
        self._indexes.repair(caller, folder, listing, memories)
        found = [_listed(one, now) for one in memories]
        entries: list[ListedMemory | str] = [*subcategory_names(listing)]
        entries += [one for one in found if include_expired or not one.expired]
        shown = within_budget(entries[offset:], _size)
        following = offset + len(shown)
        more = f"There is more: call list_memories with offset {following}." if following < len(entries) else None
        subcategories = [one for one in shown if isinstance(one, str)]
        listed = [one for one in shown if isinstance(one, ListedMemory)]
        known = self.journal.short_origins(caller, store, [one.path for one in listed])
        listed = [replace(one, origin=known.get(one.path)) for one in listed]
        return Category(store, name, len(listed), listed, subcategories, more)

    def recent(
        self, caller: Caller, store: str, category: str | None, limit: int, *, include_expired: bool
    ) -> RecentFiles:
        """The memories updated last, in a category and all below it, whole."""
        folder = self._access.open(caller, store)
        parts, name = _resolve_category(folder, category)
        if not parts and folder.is_missing():
            return RecentFiles(name, 0, [])
        expired_by = None if include_expired else self._clock()
        latest = self._access.query(caller, folder, lambda catalogue: catalogue.recent(parts, limit, expired_by))
        shown = within_budget(
            self._whole(folder, latest), lambda one: len(one.content.encode()) + 200 + MAX_ORIGIN_CHARS
        )
        left = len(latest) - 1 - [one.path for one in latest].index(shown[-1].path) if shown else len(latest)
        names = ", ".join(one.path for one in latest[len(latest) - left :][:MAX_CATEGORIES_NAMED])
        notice = (
            f"{left} more are too long to show at once, or cannot be read: {names}. Use get_memory." if left else None
        )
        known = self.journal.short_origins(caller, store, [one.path for one in shown])
        shown = [replace(one, origin=known.get(one.path)) for one in shown]
        return RecentFiles(name, len(shown), shown, notice)

    def _whole(self, folder: StoreFolder, latest: Iterable[MemorySummary]) -> Iterator[RecentMemory]:
        for one in latest:
            with suppress(AppError):  # deleted by now, grown too large, or not readable
                content = frontmatter.parse(folder.read(tuple(one.path.split("/")))[0]).content
                yield RecentMemory(one.path, content, one.updated_at, one.token_estimate, one.tags)

    def groups(self, caller: Caller) -> Iterator[Group]:
        """Every store as texts, for recall."""
        for folder in self._access.existing(caller):
            yield Group(
                folder.store.name, partial(self._versions, caller, folder), partial(self._texts, caller, folder)
            )

    def counts(self, caller: Caller) -> Iterator[int]:
        """How many memories each store has that have not expired."""
        now = self._clock()
        for folder in self._access.existing(caller):
            yield self._access.query(caller, folder, lambda catalogue: catalogue.count(now))

    def sizes(self, caller: Caller) -> Iterator[GroupSize]:
        """The same by store, each with the time of its last write. A store whose folder cannot be read is left out."""
        now = self._clock()
        for folder in self._access.existing(caller):
            with suppress(AppError):
                count, last = self._access.query(caller, folder, lambda catalogue: catalogue.size(now))
                yield GroupSize(folder.store.name, count, last, f"stores:{folder.store.name}")

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        """The files last written, of every store whose folder exists."""
        found = []
        for folder in self._access.existing(caller):
            name = folder.store.name
            latest = self._access.query(caller, folder, lambda catalogue: catalogue.recent((), limit, None))
            found += [LastWrite(ref_of(name, one.path), one.path, one.updated_at or "") for one in latest]
        return [one for one in found if one.at]

    def _versions(self, caller: Caller, folder: StoreFolder) -> dict[str, str]:
        now = self._clock()
        return self._access.query(caller, folder, lambda catalogue: catalogue.versions(now))

    def _texts(self, caller: Caller, folder: StoreFolder, found: Sequence[str]) -> Iterator[Text | None]:
        sessions = self.journal.last_sessions(caller, folder.store.name, found)
        for path in found:
            text = None
            with suppress(AppError):  # deleted by now, grown too large, or not readable
                file = frontmatter.parse(folder.read(tuple(path.split("/")))[0])
                own = file.metadata
                session_id, written_at = sessions.get(path, (None, None))
                facts = TextFacts(
                    own.created_at, own.updated_at, source=own.source, session_id=session_id, written_at=written_at
                )
                text = Text(ref_of(folder.store.name, path), path, file.content, tuple(own.tags), facts=facts)
            yield text


def _resolve_category(folder: StoreFolder, category: str | None) -> tuple[PathParts, str]:
    """A category's path, and its name in the answer, which is valid as an argument, too.

    The whole store is called "all" both ways; where a category has that name, the whole store is "".
    """
    whole = "" if folder.has_category((ALL,)) else ALL
    parts = () if category == whole else paths.category(category)
    return parts, "/".join(parts) or whole


def _listed(one: MemorySummary, now: datetime) -> ListedMemory:
    return ListedMemory(one.path, one.token_estimate, one.summary, one.updated_at, is_over(one.expires_at, now))


def _size(one: ListedMemory | str) -> int:
    """About how many bytes of JSON it makes."""
    if isinstance(one, str):
        return len(one.encode()) + 4
    return 110 + MAX_ORIGIN_CHARS + len(one.path.encode()) + len(one.summary.encode())
