"""The rows of writes that are to be undone, in the portals of this server."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import NotFound, Unavailable
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import row_copies, storage
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.import_context import new_table_name
from memory_mcp.families.portals.journal_items import table_write
from memory_mcp.families.portals.portal_registry import PortalRegistry, find_table
from memory_mcp.families.portals.row_undo import FoundRows, RowUndo
from memory_mcp.services.write_journal import ItemWrite

TABLE_GONE = "the table is no longer there"
NO_MARKS = "no row of the table says which write it is from"


class UndoableRows:
    def __init__(self, registry: PortalRegistry, report_deletion: Callable[[Caller, Address], None]) -> None:
        self._registry = registry
        self._report_deletion = report_deletion

    def delete_expired_copies(self) -> None:
        """Delete the expired copies of all users."""
        local = self._registry.folder_of(LOCAL_USER)
        for folder in (local, *(local / "users").glob("*")):
            row_copies.delete_expired(folder, self._registry.now())

    def find(self, caller: Caller, uri: str, marks: Collection[int], undo_ids: Collection[str]) -> FoundRows:
        """The rows with these marks in a table, and the copies that these undos have kept of it. Raises Unavailable."""
        address = addresses.parse(uri)
        table = str(address.table)
        try:
            folder = self._registry.existing(caller, address)
            engine = self._registry.engine(folder)
            found = self._find(folder, engine, table, marks, undo_ids)
            if found.why_none:
                return found
            pending = self._pending(folder, engine, table, set(marks) - found.counts.keys())
            return replace(
                found, counts=found.counts | {mark: n for rows in pending.values() for mark, n in rows.items()}
            )
        except NotFound:
            return FoundRows(why_none=TABLE_GONE)
        except EngineError as exc:
            raise _engine_error() from exc

    def _find(
        self, folder: PortalFolder, engine: PortalEngine, table: str, marks: Collection[int], undo_ids: Collection[str]
    ) -> FoundRows:
        if storage.table_uuid(engine, table) is None:
            return FoundRows(why_none=TABLE_GONE)
        if not storage.has_marks(engine, table):
            return FoundRows(why_none=NO_MARKS)
        found = storage.marked_rows(engine, table, marks)
        now = self._registry.now()
        return FoundRows(
            {mark: rows.count for mark, rows in found.items()},
            sum(rows.bytes for rows in found.values()),
            [one for one in undo_ids if row_copies.find_copy(folder, table, one, now)],
        )

    def _pending(
        self, folder: PortalFolder, engine: PortalEngine, table: str, marks: Collection[int]
    ) -> dict[Path, dict[int, int]]:
        """The copies of undos that deleted rows and were never recorded, with how many rows each mark has."""
        paths = row_copies.pending_copies(folder, table, self._registry.now()) if marks else []
        found = {path: storage.copied_rows(engine, path, marks) for path in paths}
        return {path: rows for path, rows in found.items() if rows}

    def undo(self, caller: Caller, uri: str, steps: Sequence[RowUndo]) -> dict[int, int]:
        """Delete or restore rows, and record that. Returns how many of each mark; marks without rows are left out.
        Raises NotFound for a table that is gone, and Unavailable."""
        address = addresses.parse(uri)
        table = str(address.table)
        folder = self._registry.existing(caller, address)
        try:
            with folder.existing_write_lock():
                engine = self._registry.open(folder)
                if find_table(storage.tables(engine), table) is None:
                    raise NotFound(TABLE_GONE)
                with self._registry.changing(caller, folder, engine):
                    storage.drop_unfinished(engine)
                    # Each is recorded at once. If the deletion fails after that, no row is lost.
                    restore = [one for one in steps if one.copied_by]
                    restored = self._restore(folder, engine, table, restore)
                    self._record(caller, folder, table, restore, restored)
                    delete = [one for one in steps if not one.copied_by]
                    self._restore_pending(folder, engine, table, {one.mark for one in delete})
                    deleted = self._delete(caller, folder, engine, table, delete)
                    if self._record(caller, folder, table, delete, deleted):
                        row_copies.mark_recorded(folder, table, str(caller.undo_id))
        except EngineError as exc:
            raise _engine_error() from exc
        row_copies.delete_expired(self._registry.folder_of(caller.user), self._registry.now())
        self._report_deletion(caller, folder.address)
        return {mark: abs(rows) for mark, rows in (restored | deleted).items()}

    def _restore_pending(self, folder: PortalFolder, engine: PortalEngine, table: str, marks: Collection[int]) -> None:
        """Restore rows whose undo was never recorded, so that this undo deletes them again and is recorded."""
        missing = set(marks) - self._find(folder, engine, table, marks, ()).counts.keys()
        for path, rows in self._pending(folder, engine, table, missing).items():
            if wanted := missing & rows.keys():
                storage.restore_marked_rows(engine, table, wanted, path, new_table_name())
                missing -= wanted

    def _delete(
        self, caller: Caller, folder: PortalFolder, engine: PortalEngine, table: str, steps: Sequence[RowUndo]
    ) -> dict[int, int]:
        """Delete the rows of these steps, after a copy of them is on the disk. Returns how many, below 0."""
        if not steps:
            return {}
        found = self._find(folder, engine, table, {one.mark for one in steps}, ())
        if found.counts:
            if found.is_copied:
                with row_copies.new_copy(folder, table, str(caller.undo_id)) as path:
                    storage.copy_marked_rows(engine, table, found.counts, path)
            storage.delete_marked_rows(engine, table, found.counts)
        return {mark: -rows for mark, rows in found.counts.items()}

    def _restore(
        self, folder: PortalFolder, engine: PortalEngine, table: str, steps: Sequence[RowUndo]
    ) -> dict[int, int]:
        """Restore the rows of these steps. Returns how many the table has then: some may be there already, because a
        server was killed after it restored them and before it recorded that."""
        if not steps:
            return {}
        marks = {one.mark for one in steps}
        existing = self._find(folder, engine, table, marks, ()).counts
        for undo_id, wanted in _by_copy(steps).items():
            path = row_copies.find_copy(folder, table, undo_id, self._registry.now())
            missing = wanted - existing.keys()
            if missing and path:
                storage.restore_marked_rows(engine, table, missing, path, new_table_name())
        return self._find(folder, engine, table, marks, ()).counts

    def _record(
        self, caller: Caller, folder: PortalFolder, table: str, steps: Sequence[RowUndo], done: Mapping[int, int]
    ) -> bool:
        written: list[tuple[ItemWrite, int]] = [
            (table_write(folder.address, table, "updated", done[one.mark], one.mark), one.number)
            for one in steps
            if done.get(one.mark)
        ]
        return self._registry.journal_of_writes.record_undo(caller, written)


def _by_copy(steps: Sequence[RowUndo]) -> dict[str, set[int]]:
    """The marks of the rows in each copy."""
    found: dict[str, set[int]] = {}
    for one in steps:
        found.setdefault(str(one.copied_by), set()).add(one.mark)
    return found


def _engine_error() -> Unavailable:
    return Unavailable("The engine of this portal failed. Look at the log, or try again.")
