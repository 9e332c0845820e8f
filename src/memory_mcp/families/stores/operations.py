import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.clock import Clock, short_stamp
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.files.signature import Signature
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.errors import AppError, Conflict, Invalid, NotFound
from memory_mcp.families.family import within_budget
from memory_mcp.families.stores import frontmatter, paths
from memory_mcp.families.stores.catalogue import Catalogue
from memory_mcp.families.stores.category_indexes import CategoryIndexes, lock_briefly
from memory_mcp.families.stores.folder_scan import MAX_FILE_BYTES, SUFFIX
from memory_mcp.families.stores.folders import StoreFolder, taken
from memory_mcp.families.stores.journal_items import StoreJournal, file_write, read_move, read_removal
from memory_mcp.families.stores.listings import StoreListings
from memory_mcp.families.stores.model import (
    Added,
    Arrival,
    FileChange,
    IncomingFile,
    Metadata,
    Moved,
    PathParts,
    PrunedStore,
    ReindexedStore,
    Removed,
    Store,
    StoreMemory,
    Updated,
    is_over,
    ref_of,
)
from memory_mcp.families.stores.store_access import StoreAccess
from memory_mcp.progress import ReportProgress
from memory_mcp.services.write_journal import ItemWrite

SOURCE = "mcp"
MAX_SAVE_NS = 50_000_000  # after a file's last change: an editor may still be saving it
MAX_ATTEMPTS = 20  # to change a file that a person is changing too
MAX_PRUNED_PER_LOCK = 100
MAX_WRITES_REMEMBERED = 1000  # files whose last change by this server is remembered


class Stores(StoreListings):
    """The operations on stores."""

    def __init__(
        self, access: StoreAccess, journals: UserDatabases, clock: Clock, *, data_dirs: Sequence[Path] = ()
    ) -> None:
        """`data_dirs` are further data directories that may exist."""
        indexes = CategoryIndexes(access)
        super().__init__(access, indexes, clock, StoreJournal(journals, access, indexes))
        self._data_dirs = data_dirs
        # Files as this server last wrote them: no editor is saving those.
        self._written: dict[tuple[Path, PathParts], Signature] = {}

    def all(self, caller: Caller) -> list[Store]:
        return self._access.registry(caller).all()

    def register(self, caller: Caller, name: str, folder: Path) -> Store:
        """Make an existing folder a store. Nothing in it is changed.

        Raises Invalid for a folder that is, holds or lies in a data directory of this server or of another one.
        """
        if not folder.is_dir():
            raise Invalid(f"{folder} is not a folder. Make it first, or check how it is spelt.", field="path")
        registry = self._access.registry(caller)
        holder = registry.holder(folder) or self._data_directory_below(folder)
        if holder is not None:
            raise _no_store(folder, holder)
        return registry.add(name, str(folder.resolve()))

    def _data_directory_below(self, folder: Path) -> Path | None:
        real = folder.resolve()
        known = (path for path in self._data_dirs if path.resolve().is_relative_to(real) and data_directory.is_at(path))
        return next(known, None) or data_directory.find_below(real)

    def unregister(self, caller: Caller, name: str) -> Store:
        """Unregister a store. Its files stay."""
        store = self._access.registry(caller).remove(name, caller)
        self._access.query(caller, self._access.folder(store), Catalogue.delete)
        return store

    def add(self, caller: Caller, store: str, path: str, content: str, given: Metadata) -> Added:
        """Write a new memory, with the store and the categories it needs. Raises Conflict if one is there."""
        parts = paths.new(path)
        folder = self._access.folder(self._access.registry(caller).get_or_make(store))
        now = short_stamp(self._clock())
        metadata = Metadata(now, now, given.tags, SOURCE, given.expires_at, given.citations)
        text = frontmatter.new(metadata, content)
        with folder.lock():
            self._remember(folder, parts, folder.add(parts, text))
            self.journal.record(caller, file_write(store, "/".join(parts), None, text.encode()))
            self._indexes.update(caller, folder, parts[:-1], is_new=True)
        return Added(store, "/".join(parts), created=True)

    def get(self, caller: Caller, store: str, path: str, *, include_expired: bool) -> StoreMemory:
        """Raises NotFound; with the code `expired` for an expired memory."""
        folder = self._access.open(caller, store)
        parts = folder.find(paths.parse(path))
        text, seen = folder.read(parts)
        file = frontmatter.parse(text)
        if is_over(file.metadata.expires_at, self._clock()) and not include_expired:
            raise NotFound(f"{path!r} has expired. Ask with include_expired to see it.", code="expired", field="path")
        updated_at = self._access.query(caller, folder, lambda catalogue: catalogue.updated_at(parts, text, file, seen))
        metadata = replace(file.metadata, updated_at=updated_at)
        origin = self.journal.origin(caller, ref_of(store, "/".join(parts)))
        return StoreMemory(store, "/".join(parts), file.content, metadata, origin)

    def update(self, caller: Caller, store: str, path: str, change: FileChange, *, was: str | None = None) -> Updated:
        """Change the given fields and leave the others. Without a difference the file is not touched.

        Raises Conflict with the code `changed` if `was` is given and the content is another by now.
        """
        if change == FileChange():
            raise Invalid("Nothing to change: give content, tags, expires_at, clear_expiry or citations.")
        if change.clear_expiry and change.expires_at is not None:
            raise Invalid("clear_expiry: give either this or expires_at.", field="clear_expiry")
        folder = self._access.open(caller, store)
        parts = folder.find(paths.parse(path))
        path = "/".join(parts)
        with folder.lock():
            for _ in range(MAX_ATTEMPTS):
                text, seen = self._read_when_stable(folder, parts)
                if was is not None and frontmatter.parse(text).content != was:
                    raise Conflict(f"{path!r} was changed meanwhile.", code="changed", field="path")
                changed = self._changed(text, change)
                if changed is None:
                    return Updated(store, path, updated=True)
                before = folder.read_bytes(parts)[0] if "\ufffd" in text else text.encode()
                if written := folder.replace(parts, changed.encode(), seen):
                    self._remember(folder, parts, written)
                    self.journal.record(caller, file_write(store, path, before, changed.encode(), seen[0]))
                    self._indexes.update(caller, folder, parts[:-1])
                    return Updated(store, path, updated=True)
        raise Conflict(f"Another program keeps changing {path!r}. Try again.", field="path")

    def _remember(self, folder: StoreFolder, parts: PathParts, signature: Signature) -> None:
        if len(self._written) >= MAX_WRITES_REMEMBERED:
            self._written.clear()
        self._written[folder.store.folder, parts] = signature

    def _read_when_stable(self, folder: StoreFolder, parts: PathParts) -> tuple[str, Signature]:
        """A memory's text, once no editor is saving it: some editors empty the file first and write a moment later."""
        for _ in range(MAX_ATTEMPTS):
            text, seen = folder.read(parts)
            age = time.time_ns() - seen[0]
            if not 0 <= age < MAX_SAVE_NS or seen == self._written.get((folder.store.folder, parts)):
                break
            time.sleep((MAX_SAVE_NS - age) / 1e9)
        return text, seen

    def _changed(self, text: str, change: FileChange) -> str | None:
        """The new text; None if nothing changes."""
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

    def remove(
        self,
        caller: Caller,
        store: str,
        path: str,
        save_copy: Callable[[bytes, int], None] | None = None,
        *,
        for_good: bool = False,
    ) -> Removed:
        """`save_copy` gets the whole file and its time of change, in nanoseconds since 1970, before it is removed.
        `for_good`: no copy is kept anywhere."""
        folder = self._access.open(caller, store)
        parts = folder.find(paths.parse(path))
        with folder.lock():
            if save_copy:
                content, (changed_ns, *_) = folder.read_bytes(parts)
                save_copy(content, changed_ns)
            gone = read_removal(folder, parts)
            if for_good:
                self.journal.erase_copies(caller, gone.item)
                gone = replace(gone, before=None)
            folder.remove(parts)
            self.journal.record(caller, gone)
            self._indexes.update(caller, folder, parts[:-1])
        return Removed(store, "/".join(parts), removed=True)

    def move(self, caller: Caller, store: str, from_path: str, to_path: str) -> Moved:
        """Move or rename a memory, as it is. Raises Conflict if there is one already."""
        source, target = paths.parse(from_path, "from_path"), paths.new(to_path, "to_path")
        folder = self._access.open(caller, store)
        source = folder.find(source)
        with folder.lock():
            folder.move(source, target)
            self.journal.record(caller, *read_move(folder, source, target))
            self._indexes.update(caller, folder, source[:-1])
            self._indexes.update(caller, folder, target[:-1], is_new=True)
        return Moved(store, "/".join(source), "/".join(target), moved=True)

    def content(self, caller: Caller, store: str, path: str) -> tuple[bytes, int]:
        """A memory's whole file as it stands, and when it was last changed, in nanoseconds since 1970."""
        content, (changed_ns, *_) = self._access.open(caller, store).read_bytes(paths.parse(path))
        return content, changed_ns

    @staticmethod
    def may_be_added(path: str) -> bool:
        """Whether a new file may have this path: an existing one may have any name that its system allows."""
        try:
            paths.check_new(paths.parse(path))
        except Invalid:
            return False
        return True

    def restore_file(
        self, caller: Caller, store: str, path: str, content: bytes, changed_ns: int, *, any_name: bool = False
    ) -> None:
        """Write a file that was removed as it was. Raises Conflict if one is there by now. `any_name`: its name may be
        one that only other programs give."""
        folder = self._access.open(caller, store)
        parts = paths.parse(path)
        if not any_name:
            paths.check_new(parts)
        with folder.lock():
            if not folder.add_file((*parts[:-1], parts[-1] + SUFFIX), content, changed_ns):
                raise taken(parts, "path")
            self.journal.record(caller, file_write(store, "/".join(parts), None, content))
            self._indexes.update(caller, folder, parts[:-1], is_new=True)

    def reindex(self, caller: Caller, store: str, report_progress: ReportProgress) -> ReindexedStore:
        """Write the index.yaml of every category with a memory in it or below it, from the files. Raises Unavailable,
        after all others are written, if some cannot be."""
        return self._indexes.rebuild(caller, store, report_progress)

    def prune(self, caller: Caller, store: str) -> PrunedStore:
        """Delete every expired memory. If one cannot be deleted, the others still are."""
        folder = self._access.open(caller, store)
        if folder.is_missing():
            return PrunedStore(store, 0, [])
        now = self._clock()
        expired = self._access.query(caller, folder, lambda catalogue: catalogue.expired(now))
        pruned: list[str] = []
        for category, some in _by_category(expired):
            with lock_briefly(folder):
                writes = [write for parts in some if (write := self._prune_if_expired(folder, parts, now))]
                gone = [write.item.removeprefix(f"{store}/") for write in writes]
                self.journal.record(caller, *writes)
                if gone:
                    self._indexes.update(caller, folder, category)
            pruned += gone
        is_done = len(pruned) == len(expired)
        left = [] if is_done else self._access.query(caller, folder, lambda catalogue: catalogue.expired(now))
        shown = within_budget(sorted(pruned), lambda path: len(path.encode()) + 4)
        notices = [
            *([f"{len(pruned) - len(shown)} more are pruned too."] if len(shown) < len(pruned) else []),
            *([f"{len(left)} could not be deleted: let this server write in their folders."] if left else []),
        ]
        return PrunedStore(store, len(pruned), shown, " ".join(notices) or None)

    @staticmethod
    def _prune_if_expired(folder: StoreFolder, parts: PathParts, now: datetime) -> ItemWrite | None:
        """Delete a memory if its file still says that it has expired."""
        with suppress(AppError):  # deleted by now, grown too large, or may not be read or deleted
            content, (changed_ns, *_) = folder.read_bytes(parts)
            if is_over(frontmatter.parse(content.decode("utf-8", "replace")).metadata.expires_at, now):
                folder.remove(parts)
                return file_write(folder.store.name, "/".join(parts), content, None, changed_ns)
        return None

    def import_file(self, caller: Caller, store: str, file: IncomingFile, *, dry_run: bool) -> Arrival:
        """Import a file with the time it was last changed. A missing store is created.

        An existing file at this path stays as it is. The indexes are not updated: call `reindex` after the last file.
        A dry run gives the same answer, and writes nothing. Raises Invalid for a file too large to be read again.
        """
        parts = paths.parse(file.path)
        if file.is_foreign:
            paths.check_new((*parts[:-1], parts[-1].removesuffix(SUFFIX)))
        if len(file.content) > MAX_FILE_BYTES:
            raise Invalid(f"{file.path!r} is over {MAX_FILE_BYTES} bytes long. Split the file.", code="too_large")
        folder = self._known_folder(caller, store)
        arrival = "new" if folder is None else _arrival(folder, parts, file)
        if arrival == "new" and not dry_run:
            folder = self._access.folder(self._access.registry(caller).get_or_make(store))
            content = _content_to_store(file)
            with folder.lock():
                arrival = "new" if folder.add_file(parts, content, file.changed_ns) else "other"
                if arrival == "new" and parts[-1].endswith(SUFFIX):
                    self.journal.record(caller, file_write(store, "/".join(parts).removesuffix(SUFFIX), None, content))
        return arrival

    def _known_folder(self, caller: Caller, store: str) -> StoreFolder | None:
        """None for a store that does not exist yet, or was never written to."""
        known = {one.name: one for one in self._access.registry(caller).all()}
        if store not in known:
            paths.check_store(store)
            return None
        folder = self._access.folder(known[store])
        return None if folder.is_missing() else folder


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


def _arrival(folder: StoreFolder, parts: PathParts, file: IncomingFile) -> Arrival:
    """Whether an imported file is new, or its path has the same or another memory."""
    try:
        here = folder.content(parts)
    except NotFound:
        if file.is_foreign:
            folder.check_alike(parts)
        return "new"
    if here == file.content:
        return "same"
    is_same = file.is_foreign and frontmatter.is_same_memory(here.decode(errors="replace"), file.content.decode())
    return "same" if is_same else "other"


def _content_to_store(file: IncomingFile) -> bytes:
    """Another program's file gets the times that it does not have itself."""
    if not file.is_foreign:
        return file.content
    changed_at = datetime.fromtimestamp(file.changed_ns / 1e9, UTC)
    return frontmatter.dated(file.content.decode(), short_stamp(changed_at)).encode()


def _by_category(memories: Iterable[str]) -> Iterator[tuple[PathParts, list[PathParts]]]:
    """Some memories of one category at a time."""
    for category, found in groupby(sorted((tuple(path.split("/")) for path in memories), key=_category), _category):
        together = list(found)
        for start in range(0, len(together), MAX_PRUNED_PER_LOCK):
            yield category, together[start : start + MAX_PRUNED_PER_LOCK]


def _category(memory: PathParts) -> PathParts:
    return memory[:-1]
