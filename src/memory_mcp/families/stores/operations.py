import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from memory_mcp.access import Tenants
from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import Clock, short_stamp
from memory_mcp.engines.files import data_directory
from memory_mcp.errors import AppError, Conflict, Invalid, NotFound, Unavailable, Unusable
from memory_mcp.families.family import Group, LastWrite, Text, within_budget
from memory_mcp.families.stores import frontmatter, index_files, paths
from memory_mcp.families.stores.catalogue import Catalogue
from memory_mcp.families.stores.folders import MAX_FILE_BYTES, SUFFIX, StoreFolder, taken
from memory_mcp.families.stores.model import (
    Added,
    Arrival,
    Category,
    FileChange,
    IncomingFile,
    Listed,
    Listing,
    Memory,
    MemorySummary,
    Metadata,
    Moved,
    Parts,
    Pruned,
    Recent,
    RecentMemory,
    Reindexed,
    Removed,
    Signature,
    Store,
    Updated,
    is_over,
    ref_of,
)
from memory_mcp.families.stores.registry import Registry
from memory_mcp.progress import ReportProgress

SOURCE = "mcp"
SAVING = 50_000_000  # nanoseconds after its last change in which somebody may still be saving a file
MAX_ATTEMPTS = 20  # to change a file that a person is changing too
HEALING_WAIT = 1.0  # seconds that a reader waits for its turn to mend an index
PRUNED_AT_ONCE = 100  # in one turn
MAX_CATEGORIES_NAMED = 5  # categories, in a message
BREATH = 0.001  # seconds between two turns: who waits for one looks twice in that time
MAX_WRITES_REMEMBERED = 1000  # files whose last change by this server is remembered
DEPENDENCIES = frozenset({"node_modules"})  # folders of other people's files, which get no index.yaml
ALL = "all"  # what a category is called that is the whole store

T = TypeVar("T")


class Stores:
    """Everything this server can do with folders of markdown files."""

    def __init__(self, caches: Tenants, clock: Clock, *, durable: bool, data_dirs: Sequence[Path] = ()) -> None:
        """`data_dirs` are data directories that may be there beside the one of these stores."""
        self._caches = caches
        self._clock = clock
        self._durable = durable
        self._data_dirs = data_dirs
        self._written: dict[tuple[Path, Parts], Signature] = {}  # what this server wrote last, which nobody is saving

    # Which stores there are

    def all(self, caller: Caller) -> list[Store]:
        return self._registry(caller).all()

    def register(self, caller: Caller, name: str, folder: Path) -> Store:
        """Make a folder that is there a store. Nothing in it is changed.

        Raises Invalid for a folder that is, holds or lies in a data directory of this server or of another one.
        """
        if not folder.is_dir():
            raise Invalid(f"{folder} is not a folder. Make it first, or check how it is spelt.", field="path")
        registry = self._registry(caller)
        holder = registry.holder(folder) or self._data_directory_below(folder)
        if holder is not None:
            raise _no_store(folder, holder)
        return registry.add(name, str(folder.resolve()))

    def _data_directory_below(self, folder: Path) -> Path | None:
        real = folder.resolve()
        known = (path for path in self._data_dirs if path.resolve().is_relative_to(real) and data_directory.is_at(path))
        return next(known, None) or data_directory.find_below(real)

    def unregister(self, caller: Caller, name: str) -> Store:
        """Forget a store. Its files stay."""
        store = self._registry(caller).remove(name)
        self._asked(caller, self._folder(store), Catalogue.forget)
        return store

    # Memories

    def add(self, caller: Caller, store: str, path: str, content: str, said: Metadata) -> Added:
        """Write a new memory, with the store and the categories it needs. Raises Conflict if one is there."""
        parts = paths.parsed(path)
        paths.check_new(parts)
        folder = self._folder(self._registry(caller).get_or_make(store))
        now = short_stamp(self._clock())
        metadata = Metadata(now, now, said.tags, SOURCE, said.expires_at, said.citations)
        with folder.turn():
            self._note_written(folder, parts, folder.add(parts, frontmatter.new(metadata, content)))
            self._index(caller, folder, parts[:-1], is_new=True)
        return Added(store, path, created=True)

    def get(self, caller: Caller, store: str, path: str, *, include_expired: bool) -> Memory:
        """Raises NotFound; with the word `expired` for a memory whose time is over."""
        folder = self._opened(caller, store)
        parts = paths.parsed(path)
        text, seen = folder.read(parts)
        file = frontmatter.parse(text)
        if is_over(file.metadata.expires_at, self._clock()) and not include_expired:
            raise NotFound(f"{path!r} has expired. Ask with include_expired to see it.", code="expired", field="path")
        updated_at = self._asked(caller, folder, lambda catalogue: catalogue.updated_at(parts, text, file, seen))
        return Memory(store, path, file.content, replace(file.metadata, updated_at=updated_at))

    def update(self, caller: Caller, store: str, path: str, change: FileChange, *, was: str | None = None) -> Updated:
        """Change what is given and leave all else as it is. Without a difference the file is not touched.

        Raises Conflict with the word `changed` if `was` is given and its content is another by now.
        """
        if change == FileChange():
            raise Invalid("Nothing to change: give content, tags, expires_at, clear_expiry or citations.")
        if change.clear_expiry and change.expires_at is not None:
            raise Invalid("clear_expiry: give either this or expires_at.", field="clear_expiry")
        folder = self._opened(caller, store)
        parts = paths.parsed(path)
        with folder.turn():
            for _ in range(MAX_ATTEMPTS):
                text, seen = self._settled(folder, parts)
                if was is not None and frontmatter.parse(text).content != was:
                    raise Conflict(f"Somebody has changed {path!r} meanwhile.", code="changed", field="path")
                changed = self._changed(text, change)
                if changed is None:
                    return Updated(store, path, updated=True)
                if written := folder.replace(parts, changed, seen):
                    self._note_written(folder, parts, written)
                    self._index(caller, folder, parts[:-1])
                    return Updated(store, path, updated=True)
        raise Conflict(f"Somebody keeps changing {path!r}. Try again.", field="path")

    def _note_written(self, folder: StoreFolder, parts: Parts, signature: Signature) -> None:
        if len(self._written) >= MAX_WRITES_REMEMBERED:
            self._written.clear()
        self._written[folder.store.folder, parts] = signature

    def _settled(self, folder: StoreFolder, parts: Parts) -> tuple[str, Signature]:
        """A memory's text, once nobody is saving it: some editors empty the file first and write a moment later."""
        for _ in range(MAX_ATTEMPTS):
            text, seen = folder.read(parts)
            age = time.time_ns() - seen[0]
            if not 0 <= age < SAVING or seen == self._written.get((folder.store.folder, parts)):
                break
            time.sleep((SAVING - age) / 1e9)
        return text, seen

    def _changed(self, text: str, change: FileChange) -> str | None:
        """The text as it is to be; None if it is so already."""
        file = frontmatter.parse(text)
        before = file.metadata
        values: dict[str, Any] = {
            key: value
            for key, value in (
                ("tags", change.tags),
                ("expires_at", change.expires_at),
                ("citations", change.citations),
            )
            if value is not None and value != getattr(before, key)
        }
        if values.get("citations") == []:
            values["citations"] = None
        if change.clear_expiry and before.expires_at is not None:
            values["expires_at"] = None
        content = change.content
        if content is not None and content.rstrip("\r\n") == file.content.rstrip("\r\n"):
            content = None
        if content is None and not values:
            return None
        if "\ufffd" in (text if content is None else file.front):  # it may stand for bytes that would be lost
            raise Conflict("This file is not UTF-8. Save it as UTF-8 first.", field="path")
        return frontmatter.rewritten(file, {"updated_at": short_stamp(self._clock()), **values}, content)

    def remove(self, caller: Caller, store: str, path: str) -> Removed:
        folder = self._opened(caller, store)
        parts = paths.parsed(path)
        with folder.turn():
            folder.remove(parts)
            self._index(caller, folder, parts[:-1])
        return Removed(store, path, removed=True)

    def move(self, caller: Caller, store: str, from_path: str, to_path: str) -> Moved:
        """Move or rename a memory, as it is. Raises Conflict if there is one already."""
        source, target = paths.parsed(from_path, "from_path"), paths.parsed(to_path, "to_path")
        paths.check_new(target, "to_path")
        folder = self._opened(caller, store)
        with folder.turn():
            folder.move(source, target)
            self._index(caller, folder, source[:-1])
            self._index(caller, folder, target[:-1], is_new=True)
        return Moved(store, from_path, to_path, moved=True)

    def content(self, caller: Caller, store: str, path: str) -> tuple[bytes, int]:
        """A memory's whole file as it stands, and when it was last changed, in nanoseconds since 1970."""
        content, (changed_ns, *_) = self._opened(caller, store).read_bytes(paths.parsed(path))
        return content, changed_ns

    @staticmethod
    def may_be_added(path: str) -> bool:
        """Whether a new file may have this path: one that is there may be called as its system allows."""
        try:
            paths.check_new(paths.parsed(path))
        except Invalid:
            return False
        return True

    def put_back(self, caller: Caller, store: str, path: str, content: bytes, changed_ns: int) -> None:
        """Write a file that was removed as it was. Raises Conflict if one is there by now."""
        folder = self._opened(caller, store)
        parts = paths.parsed(path)
        paths.check_new(parts)
        with folder.turn():
            if not folder.add_file((*parts[:-1], parts[-1] + SUFFIX), content, changed_ns):
                raise taken(parts, "path")
            self._index(caller, folder, parts[:-1], is_new=True)

    def prune(self, caller: Caller, store: str) -> Pruned:
        """Delete every memory whose time is over. What cannot be deleted keeps nothing else from it."""
        folder = self._opened(caller, store)
        if folder.is_missing():
            return Pruned(store, 0, [])
        now = self._clock()
        expired = self._asked(caller, folder, lambda catalogue: catalogue.expired(now))
        pruned: list[str] = []
        for category, some in _by_category(expired):
            with _one_of_many_turns(folder):
                gone = ["/".join(parts) for parts in some if self._pruned(folder, parts, now)]
                if gone:
                    self._index(caller, folder, category)
            pruned += gone
        left = (
            self._asked(caller, folder, lambda catalogue: catalogue.expired(now)) if len(pruned) < len(expired) else []
        )
        shown = within_budget(sorted(pruned), lambda path: len(path.encode()) + 4)
        notices = [
            *([f"{len(pruned) - len(shown)} more are pruned too."] if len(shown) < len(pruned) else []),
            *([f"{len(left)} could not be deleted: let this server write in their folders."] if left else []),
        ]
        return Pruned(store, len(pruned), shown, " ".join(notices) or None)

    @staticmethod
    def _pruned(folder: StoreFolder, parts: Parts, now: datetime) -> bool:
        """Delete a memory if its file still says that its time is over."""
        with suppress(AppError):  # gone by now, grown too large, or not ours to read or delete
            if is_over(frontmatter.parse(folder.read(parts)[0]).metadata.expires_at, now):
                folder.remove(parts)
                return True
        return False

    # Moving in

    def take_in(self, caller: Caller, store: str, file: IncomingFile, *, dry_run: bool) -> Arrival:
        """Keep a file that comes from elsewhere, with the time it was last changed. The store is made if it is missing.

        A file that is at this path already stays as it is. The indexes are not brought in line: call `reindex` after
        the last one. A dry run says the same, and writes nothing. Raises Invalid for a file too large to be read again.
        """
        parts = paths.parsed(file.path)
        if file.is_foreign:
            paths.check_new((*parts[:-1], parts[-1].removesuffix(SUFFIX)))
        if len(file.content) > MAX_FILE_BYTES:
            raise Invalid(f"{file.path!r} is over {MAX_FILE_BYTES} bytes long. Split the file.", code="too_large")
        folder = self._known_folder(caller, store)
        arrival = "new" if folder is None else _arrival(folder, parts, file)
        if arrival == "new" and not dry_run:
            folder = self._folder(self._registry(caller).get_or_make(store))
            with folder.turn():
                arrival = "new" if folder.add_file(parts, _as_kept(file), file.changed_ns) else "other"
        return arrival

    def _known_folder(self, caller: Caller, store: str) -> StoreFolder | None:
        """None for a store that is not there yet, or was never written to."""
        known = {one.name: one for one in self._registry(caller).all()}
        if store not in known:
            paths.check_store(store)
            return None
        folder = self._folder(known[store])
        return None if folder.is_missing() else folder

    # Looking through

    def look_into(
        self, caller: Caller, store: str, category: str | None, offset: int, *, include_expired: bool
    ) -> Category:
        """One category: its memories, and the categories below it."""
        folder = self._opened(caller, store)
        parts, name = _resolve_category(folder, category)
        if not parts and folder.is_missing():
            return Category(store, name, 0, [], [])
        now = self._clock()
        listing, memories = self._asked(caller, folder, lambda catalogue: catalogue.category(parts))
        self._heal(caller, folder, listing, memories)
        found = [_listed(one, now) for one in memories]
        entries: list[Listed | str] = [*_subcategories(listing)]
        entries += [one for one in found if include_expired or not one.expired]
        shown = within_budget(entries[offset:], _size)
        following = offset + len(shown)
        more = f"There is more: call list_memories with offset {following}." if following < len(entries) else None
        subcategories = [one for one in shown if isinstance(one, str)]
        listed = [one for one in shown if isinstance(one, Listed)]
        return Category(store, name, len(listed), listed, subcategories, more)

    def recent(self, caller: Caller, store: str, category: str | None, limit: int, *, include_expired: bool) -> Recent:
        """The memories updated last, in a category and all below it, whole."""
        folder = self._opened(caller, store)
        parts, name = _resolve_category(folder, category)
        if not parts and folder.is_missing():
            return Recent(name, 0, [])
        expired_by = None if include_expired else self._clock()
        latest = self._asked(caller, folder, lambda catalogue: catalogue.recent(parts, limit, expired_by))
        shown = within_budget(self._whole(folder, latest), lambda one: len(one.content.encode()) + 200)
        left = len(latest) - 1 - [one.path for one in latest].index(shown[-1].path) if shown else len(latest)
        names = ", ".join(one.path for one in latest[len(latest) - left :][:MAX_CATEGORIES_NAMED])
        notice = (
            f"{left} more are too long to show at once, or cannot be read: {names}. Use get_memory." if left else None
        )
        return Recent(name, len(shown), shown, notice)

    def _whole(self, folder: StoreFolder, latest: Iterable[MemorySummary]) -> Iterator[RecentMemory]:
        for one in latest:
            with suppress(AppError):  # gone by now, grown too large, or not ours to read
                content = frontmatter.parse(folder.read(tuple(one.path.split("/")))[0]).content
                yield RecentMemory(one.path, content, one.updated_at, one.token_estimate, one.tags)

    def groups(self, caller: Caller) -> Iterator[Group]:
        """Every store as texts, for one search over everything."""
        for folder in self._there(caller):
            yield Group(folder.store.name, partial(self._versions, caller, folder), partial(self._texts, folder))

    def _there(self, caller: Caller) -> Iterator[StoreFolder]:
        folders = (self._folder(store) for store in self.all(caller))
        return (folder for folder in folders if not folder.is_missing())

    def counts(self, caller: Caller) -> Iterator[int]:
        """How many memories each store has that have not expired."""
        now = self._clock()
        for folder in self._there(caller):
            yield self._asked(caller, folder, lambda catalogue: catalogue.count(now))

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        """Files of every store whose folder is there."""
        found = []
        for folder in self._there(caller):
            name = folder.store.name
            latest = self._asked(caller, folder, lambda catalogue: catalogue.recent((), limit, None))
            found += [LastWrite(ref_of(name, one.path), one.path, one.updated_at or "") for one in latest]
        return [one for one in found if one.at]

    def _versions(self, caller: Caller, folder: StoreFolder) -> dict[str, str]:
        now = self._clock()
        return self._asked(caller, folder, lambda catalogue: catalogue.versions(now))

    @staticmethod
    def _texts(folder: StoreFolder, found: Sequence[str]) -> Iterator[Text | None]:
        for path in found:
            text = None
            with suppress(AppError):  # gone by now, grown too large, or not ours to read
                file = frontmatter.parse(folder.read(tuple(path.split("/")))[0])
                text = Text(ref_of(folder.store.name, path), path, file.content, tuple(file.metadata.tags))
            yield text

    # Indexes

    def reindex(self, caller: Caller, store: str, report_progress: ReportProgress) -> Reindexed:
        """Write the index.yaml of every category with a memory in it or below it, from the files. Raises Unavailable,
        after all others are written, if some cannot be."""
        folder = self._opened(caller, store)
        if folder.is_missing():
            return Reindexed(store, folder.store.path, 0, 0)
        listings, memories = self._asked(caller, folder, lambda catalogue: catalogue.refresh(report_progress))
        folders = _indexed_categories(listings)
        failed = []
        for parts in sorted(folders):
            with _one_of_many_turns(folder):
                if not self._reindexed(caller, folder, parts):
                    failed.append(parts)
        if failed:
            names = ", ".join("/".join(parts) or "the top" for parts in failed[:MAX_CATEGORIES_NAMED])
            raise Unavailable(
                f"{len(failed)} of {len(folders)} indexes could not be written: {names}. Let this server write there.",
                hint="Then call reindex_store again.",
            )
        self._correct_empty(caller, folder, [one.folder for one in listings if one.folder not in folders])
        return Reindexed(store, folder.store.path, memories, len(folders - {()}))

    def _correct_empty(self, caller: Caller, folder: StoreFolder, empty: Iterable[Parts]) -> None:
        """Correct the indexes of ours that are left in categories without memories. No new ones are made there."""
        for parts in empty:
            with suppress(AppError):
                if index_files.is_ours(folder.index(parts) or ""):
                    with _one_of_many_turns(folder):
                        self._write_index(caller, folder, parts)

    def _reindexed(self, caller: Caller, folder: StoreFolder, parts: Parts) -> bool:
        try:
            self._write_index(caller, folder, parts)
        except NotFound:  # the category is gone by now
            return True
        except AppError:
            return False
        return True

    def _index(self, caller: Caller, folder: StoreFolder, parts: Parts, *, is_new: bool = False) -> None:
        """Bring the index of a category in line, and those above it if it may be new.

        An index is a cache: that it cannot be written does not undo what was done.
        """
        for depth in range(len(parts), -1 if is_new else len(parts) - 1, -1):
            with suppress(AppError):
                self._write_index(caller, folder, parts[:depth])

    def _write_index(self, caller: Caller, folder: StoreFolder, parts: Parts) -> None:
        listing, memories = self._asked(caller, folder, lambda catalogue: catalogue.category(parts))
        text, there = _index_text(listing, memories), folder.index(parts)
        if _is_wrong(there, text):
            folder.write_index(parts, text, keep_old=index_files.whose(there) == "nobody's")

    def _heal(self, caller: Caller, folder: StoreFolder, listing: Listing, memories: list[MemorySummary]) -> None:
        """Mend an index.yaml that is not what it should be. A folder that somebody registered gets none by reading, and
        who may only read mends nothing."""
        if Scope.WRITE not in caller.scopes:
            return
        with suppress(AppError):
            there = folder.index(listing.folder)
            if _is_wrong(there, _index_text(listing, memories)) and (
                folder.store.is_ours or index_files.is_ours(there)
            ):
                with folder.turn(wait=HEALING_WAIT):
                    self._write_index(caller, folder, listing.folder)

    def _registry(self, caller: Caller) -> Registry:
        return Registry(self._caches.folder(caller.user))

    def _opened(self, caller: Caller, store: str) -> StoreFolder:
        return self._folder(self._registry(caller).get(store))

    def _folder(self, store: Store) -> StoreFolder:
        return StoreFolder(store, durable=self._durable)

    def _asked(self, caller: Caller, folder: StoreFolder, ask: Callable[[Catalogue], T]) -> T:
        """What the catalogue says. Its file is a cache: if it cannot be read any more, it is made anew."""
        try:
            return ask(Catalogue(self._caches.database(caller.user), folder))
        except Unusable:
            self._caches.recreate(caller.user)
            return ask(Catalogue(self._caches.database(caller.user), folder))


def _no_store(folder: Path, data_dir: Path) -> Invalid:
    """`data_dir` is a data directory that the folder is, holds or lies in."""
    real, there = folder.resolve(), data_dir.resolve()
    if real == there:
        what = "is a data directory of Memory MCP"
        advice = "Register a folder elsewhere"
    elif there.is_relative_to(real):
        what = f"holds a data directory of Memory MCP, {there}"
        advice = "Register a folder that does not hold it, such as one inside, or move the data directory elsewhere"
    else:
        what = f"lies in a data directory of Memory MCP, {there}"
        advice = "Move its files to a folder elsewhere and register that"
    return Invalid(f"{folder} {what}, whose files agents must not write. {advice}.", field="path")


@contextmanager
def _one_of_many_turns(folder: StoreFolder) -> Iterator[None]:
    """A short turn, with a pause after it in which others take theirs."""
    with folder.turn():
        yield
    time.sleep(BREATH)


def _resolve_category(folder: StoreFolder, category: str | None) -> tuple[Parts, str]:
    """A category's path, and its name in the answer, which is valid as an argument, too.

    The whole store is called "all" both ways; where a category has that name, the whole store is "".
    """
    whole = "" if folder.has_category((ALL,)) else ALL
    parts = () if category == whole else paths.category(category)
    return parts, "/".join(parts) or whole


def _arrival(folder: StoreFolder, parts: Parts, file: IncomingFile) -> Arrival:
    """How a file that comes fits in: it is new, or there is the same or another at its path."""
    try:
        here = folder.content(parts)
    except NotFound:
        if file.is_foreign:
            folder.check_alike(parts)
        return "new"
    if here == file.content:
        return "same"
    is_same = file.is_foreign and frontmatter.says_the_same(here.decode(errors="replace"), file.content.decode())
    return "same" if is_same else "other"


def _as_kept(file: IncomingFile) -> bytes:
    """Another program's file gets the times that it does not tell itself."""
    if not file.is_foreign:
        return file.content
    changed_at = datetime.fromtimestamp(file.changed_ns / 1e9, UTC)
    return frontmatter.dated(file.content.decode(), short_stamp(changed_at)).encode()


def _is_wrong(there: str | None, text: str) -> TypeGuard[str]:
    """Whether an index.yaml is ours to write and does not say this."""
    return there is not None and there != text and index_files.whose(there) != "somebody's"


def _index_text(listing: Listing, memories: Sequence[MemorySummary]) -> str:
    return index_files.render(memories, _subcategories(listing))


def _indexed_categories(listings: Iterable[Listing]) -> set[Parts]:
    """The categories that get an index.yaml: those with a memory in or below them, except below DEPENDENCIES."""
    own = [one.folder for one in listings if one.files and not DEPENDENCIES.intersection(one.folder)]
    return {folder[:depth] for folder in own for depth in range(len(folder) + 1)}


def _subcategories(listing: Listing) -> list[str]:
    return ["/".join((*listing.folder, paths.nfc(name))) for name in listing.folders]


def _listed(one: MemorySummary, now: datetime) -> Listed:
    return Listed(one.path, one.token_estimate, one.summary, one.updated_at, is_over(one.expires_at, now))


def _by_category(memories: Iterable[str]) -> Iterator[tuple[Parts, list[Parts]]]:
    """Some memories of one category at a time."""
    for category, found in groupby(sorted((tuple(path.split("/")) for path in memories), key=_category), _category):
        together = list(found)
        for start in range(0, len(together), PRUNED_AT_ONCE):
            yield category, together[start : start + PRUNED_AT_ONCE]


def _category(memory: Parts) -> Parts:
    return memory[:-1]


def _size(one: Listed | str) -> int:
    """About how many bytes of JSON it makes."""
    if isinstance(one, str):
        return len(one.encode()) + 4
    return 110 + len(one.path.encode()) + len(one.summary.encode())
