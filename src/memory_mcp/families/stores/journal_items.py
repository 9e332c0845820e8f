"""The files of stores in the journal of writes. An item is STORE/PATH."""

import base64
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, UserDatabases, Write
from memory_mcp.errors import AppError, Conflict, NotFound, Unavailable
from memory_mcp.families.stores.category_indexes import CategoryIndexes
from memory_mcp.families.stores.folder_scan import SUFFIX
from memory_mcp.families.stores.folders import StoreFolder, taken
from memory_mcp.families.stores.model import PREFIX, PathParts, ref_of, split_ref
from memory_mcp.families.stores.store_access import StoreAccess
from memory_mcp.families.writes import ItemShown, Journal, LastWriters, ShownItems, StateUndo, origins, short_origins
from memory_mcp.services.write_journal import Action, ItemWrite, WriteRecord, WriteTable, digest

log = logging.getLogger(__name__)

WRITES = WriteTable("store_writes")
UNREADABLE = ""  # the digest of a file that cannot be read, as it is too large by now: no write has left such a file


def file_write(
    store: str, path: str, before: bytes | None, after: bytes | None, changed_ns: int | None = None
) -> ItemWrite:
    """A file with its content before and after the write; None: there is none."""
    action: Action = "deleted" if after is None else "created" if before is None else "updated"
    copy = None if before is None else {"content": base64.b64encode(before).decode(), "changed_ns": changed_ns}
    return ItemWrite(f"{store}/{path}", action, copy, None if after is None else digest(after))


def read_removal(folder: StoreFolder, parts: PathParts) -> ItemWrite:
    """A file that is about to be removed. One that cannot be read, as it is too large, is removed without a copy."""
    try:
        content, (changed_ns, *_) = folder.read_bytes(parts)
    except AppError:
        return ItemWrite(f"{folder.store.name}/{'/'.join(parts)}", "deleted")
    return file_write(folder.store.name, "/".join(parts), content, None, changed_ns)


def read_move(folder: StoreFolder, source: PathParts, target: PathParts) -> list[ItemWrite]:
    """A file that was moved: it is new at one path, and gone from the other."""
    moved = read_removal(folder, target)
    copy = moved.before and base64.b64decode(moved.before["content"])
    after = digest(copy) if copy is not None else None
    before = moved.before and {**moved.before, "moved_to": moved.item}
    gone = ItemWrite(f"{folder.store.name}/{'/'.join(source)}", "deleted", before)
    return [ItemWrite(moved.item, "created", after=after), gone]


class StoreJournal:
    """The journal of a user's stores. Unlike the files, its last entries may be lost in a power cut."""

    def __init__(self, databases: UserDatabases, access: StoreAccess, indexes: CategoryIndexes) -> None:
        self._databases = databases
        self._access = access
        self._indexes = indexes

    def record(self, caller: Caller, *writes: ItemWrite) -> None:
        """Never fails: the files are written, whether or not that can be recorded."""
        if not writes:
            return
        try:
            with self._databases.database(caller.user).write() as tx:
                WRITES.record(tx, caller, *writes)
        except Unavailable as exc:
            log.warning("A write is missing in the journal of stores: %s", exc.message)

    def erase_copies(self, caller: Caller, item: str) -> None:
        """Before a file is deleted for good, also of the paths that it was moved from. Raises Unavailable if another
        process keeps the journal locked."""
        with self._databases.database(caller.user).write() as tx:
            items = [item]
            for one in items:  # grows meanwhile
                items += [former for former in WRITES.items_moved_to(tx, one) if former not in items]
            WRITES.erase_copies(tx, items)

    def origin(self, caller: Caller, ref: str) -> str | None:
        """Who last wrote a file; None if that is not known."""
        return self._origins(caller, [ref], origins).get(ref)

    def short_origins(self, caller: Caller, store: str, paths: Sequence[str]) -> dict[str, str]:
        """Who last wrote each of these files, by path, as far as that is known."""
        refs = {path: ref_of(store, path) for path in paths}
        known = self._origins(caller, list(refs.values()), short_origins)
        return {path: known[ref] for path, ref in refs.items() if ref in known}

    def _origins(
        self, caller: Caller, refs: Sequence[str], read: Callable[[Read, ShownItems, Sequence[str]], dict[str, str]]
    ) -> dict[str, str]:
        try:
            with self._databases.database(caller.user).read() as tx:
                return read(tx, StoreItems(self._access, self._indexes, caller), refs)
        except Unavailable:
            return {}

    def last_sessions(self, caller: Caller, store: str, found: Sequence[str]) -> dict[str, tuple[str, str]]:
        """By path, (session, time) of the last write of each of these files, as far as its session is known."""
        try:
            with self._databases.database(caller.user).read() as tx:
                known = WRITES.last_sessions(tx, [f"{store}/{path}" for path in found])
        except Unavailable:
            return {}
        return {item.removeprefix(f"{store}/"): one for item, one in known.items()}

    def journals(self, caller: Caller) -> list[Journal]:
        db = self._databases.database(caller.user)

        @contextmanager
        def write(items: Sequence[str]) -> Iterator[Write]:
            with ExitStack() as locks:
                for store in sorted({_split(item)[0] for item in items}):
                    with suppress(NotFound):  # it is no longer registered: its files are left alone
                        folder = self._access.open(caller, store)
                        if folder.store.folder.is_dir():
                            locks.enter_context(folder.lock())
                yield locks.enter_context(db.write())

        items = StoreItems(self._access, self._indexes, caller)
        return [Journal(items, db.read, StateUndo(items, db.read, write))]


class StoreItems(LastWriters):
    table = WRITES

    def __init__(self, access: StoreAccess, indexes: CategoryIndexes, caller: Caller) -> None:
        self._access = access
        self._indexes = indexes
        self._caller = caller

    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        return {
            item: ItemShown(ref_of(store, "/".join(parts)), item) for item in items for store, parts in [_split(item)]
        }

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        return {ref: ["/".join(split_ref(ref))] for ref in refs if ref.startswith(PREFIX)}

    def digests(self, tx: Read, items: Sequence[str]) -> dict[str, str]:
        found = ((item, self._digest(item)) for item in items)
        return {item: now for item, now in found if now is not None}

    def _digest(self, item: str) -> str | None:
        try:
            content = self._content(item)
        except AppError:
            return UNREADABLE
        return None if content is None else digest(content)

    def has_before(self, tx: Read, record: WriteRecord) -> bool:
        return WRITES.has_copy(tx, record.number)

    def before(self, tx: Read, record: WriteRecord) -> Any:
        return WRITES.before(tx, record.number)

    def refusal(self, tx: Read, item: str, undone: Collection[str], *, deletes: bool) -> str | None:
        return None

    def restore(self, tx: Write, caller: Caller, item: str, before: Any) -> ItemWrite:
        store, parts = _split(item)
        folder = self._access.open(self._caller, store)
        now = self._content(item)
        content = None if before is None else base64.b64decode(before["content"])
        if content is None:
            folder.remove(parts)
        elif now is None:
            if not folder.add_file((*parts[:-1], parts[-1] + SUFFIX), content, before["changed_ns"]):
                raise taken(parts, "path")
        elif not folder.replace(parts, content, folder.read_bytes(parts)[1]):
            raise Conflict(f"Another program is changing {item!r}.")
        self._indexes.update(self._caller, folder, parts[:-1], is_new=True)
        return file_write(store, "/".join(parts), now, content, before and before["changed_ns"])

    def _content(self, item: str) -> bytes | None:
        store, parts = _split(item)
        try:
            return self._access.open(self._caller, store).read_bytes(parts)[0]
        except NotFound:
            return None


def _split(item: str) -> tuple[str, PathParts]:
    """The store and the path."""
    store, *parts = item.split("/")
    return store, tuple(parts)
