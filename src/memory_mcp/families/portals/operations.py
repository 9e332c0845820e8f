import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, precise_stamp
from memory_mcp.engines.chdb.parameters import Unfit
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.family import LastWrite
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import cross_portal_query, query_results, row_copies, storage
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.answers import PortalDeleted, Result, View, ViewedTable, Written
from memory_mcp.families.portals.file_exports import FileExports
from memory_mcp.families.portals.file_imports import FileImports
from memory_mcp.families.portals.folders import Engines, PortalFolder
from memory_mcp.families.portals.journal_items import PortalJournal, portal_write, table_write
from memory_mcp.families.portals.limits import ImportLimits, TransferLimits
from memory_mcp.families.portals.model import VIEWER, Labels, PortalStats, PortalSummary, Record, Table
from memory_mcp.families.portals.portal_registry import PortalRegistry, existing_table, labels_in, writable
from memory_mcp.families.portals.query_errors import query_error
from memory_mcp.families.portals.record_writer import RecordWriter, notice_of
from memory_mcp.families.portals.transfer_folders import TransferFolders
from memory_mcp.families.portals.undoable_rows import UndoableRows
from memory_mcp.families.writes import Journal
from memory_mcp.services.write_journal import Action

log = logging.getLogger(__name__)

STALE_DESCRIPTION = "portal.json names other tables than it has"


class Portals:
    """The operations on portals."""

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        changes: Changes,
        clock: Clock,
        *,
        engines: Engines,
        max_rows: int,
        journals: UserDatabases | None = None,
        max_tokens: int,
        import_folders: Sequence[Path] = (),
        export_folders: Sequence[Path] = (),
        import_limits: ImportLimits,
        max_export_bytes: int,
        export_quota: int,
        export_days: int,
        transfers: TransferLimits,
        urls: bool = False,
        joins: bool = False,
    ) -> None:
        """`folder_of` is where a user's data lies, `journals` who wrote to their portals. The other folders are for the
        local user, beside imports/ and exports/ in there."""
        self.max_rows = max_rows  # of an answer
        self.max_tokens = max_tokens  # of an answer with rows
        self._engines, self._joins = engines, joins
        self.on_delete: list[Callable[[Caller, Address], None]] = []  # called once something has been deleted
        self.journal = PortalJournal(
            journals, lambda caller: engines.portals(folder_of(caller.user), caller.user, caller.confined_to)
        )
        self._registry = PortalRegistry(folder_of, engines, changes, clock, self.journal)
        self._records = RecordWriter(self._registry)
        self.rows = UndoableRows(self._registry, self._report_deletion)
        folders = TransferFolders(folder_of, import_folders, export_folders)
        self.imports = FileImports(self._registry, folders, import_limits, transfers, allow_urls=urls)
        self.exports = FileExports(
            self._registry,
            folders,
            max_export_bytes=max_export_bytes,
            quota_bytes=export_quota,
            max_days=export_days,
            transfers=transfers,
        )

    def close(self) -> None:
        self._engines.close()
        self._registry.usage.flush()

    def write(
        self,
        caller: Caller,
        uri: str,
        table: str,
        records: Sequence[Record],
        name: str | None = None,
        description: str | None = None,
    ) -> Written:
        """Add records, all or none. A missing portal, table or column is created.

        `name` and `description` are those of the portal from now on; None leaves one as it is. If one is given, there
        may be no records, and then no table is created.
        """
        address, table = addresses.portal(uri), writable(table)
        if not records and name is None and description is None:
            raise Invalid("data: give at least one record, or portalName or portalDescription.", field="data")
        folder = self._registry.folders(caller).get(address)
        with folder.write_lock():
            engine = self._registry.open(folder)
            notices = self._records.write(caller, folder, engine, table, records) if records else []
            self._label(caller, folder, engine, name, description, is_counted=not records)
        return Written(address.portal_uri, table, len(records), notice_of(notices))

    def _label(
        self,
        caller: Caller,
        folder: PortalFolder,
        engine: PortalEngine,
        name: str | None,
        description: str | None,
        *,
        is_counted: bool,
    ) -> None:
        before = folder.labels()
        labels = Labels(
            before.name if name is None else name, before.description if description is None else description
        )
        if labels == before and folder.exists():
            return
        action: Action = "updated" if folder.exists() else "created"
        self._registry.set_labels(folder, engine, labels)
        self.journal.record(caller, portal_write(folder.address, action))
        folder.describe(self._registry.described_tables(folder, engine))
        self._registry.report_change(caller, folder.address, list_changed=True, is_counted=is_counted)

    def query(
        self,
        caller: Caller,
        uri: str,
        sql: str,
        parameters: Mapping[str, Any],
        cancelled: threading.Event | None = None,
        row_format: query_results.RowFormat = "objects",
    ) -> Result:
        """One SELECT over one portal. It stops when its caller leaves."""
        folder = self._registry.existing(caller, addresses.view(uri))  # the SQL names the tables
        try:
            with cross_portal_query.attach(self._engines, folder, self._joinable(caller, folder, sql)) as attached:
                found = self._registry.engine(folder).cancellable(cancelled).query(sql, dict(parameters), attached)
        except EngineError as exc:
            raise query_error(exc, "sql", sql, lambda: self.described(caller, folder.address)[1]) from exc
        except RecursionError as exc:  # of the JSON parser
            raise query_results.nested_too_deep("sql") from exc
        self._registry.count_read(folder)
        return query_results.result(found, self.max_rows, self.max_tokens, row_format)

    def _joinable(self, caller: Caller, folder: PortalFolder, sql: str) -> list[PortalFolder]:
        """The other portals of its namespace that a query may mean."""
        if not self._joins:
            return []
        return [
            other
            for other in self._registry.folders(caller).all()
            if other.address.namespace == folder.address.namespace
            and other.address != folder.address
            and re.search(rf"(?<![\w.-]){re.escape(other.address.portal)}(?![\w-])", sql)
        ]

    def delete(
        self, caller: Caller, uri: str, table: str | None, where: Mapping[str, Any] | None, *, confirm: bool
    ) -> PortalDeleted:
        """Delete the rows that match; without `where` the whole table; without `table` the portal. Whole tables and
        portals need `confirm`."""
        address = addresses.portal(uri)
        folder = self._registry.existing(caller, address)
        if table is None:
            deleted = self._delete_portal(caller, folder, where, confirm=confirm)
            answer = PortalDeleted(address.portal_uri, deleted, portal=True)
        else:
            deleted = self._delete_rows(caller, folder, writable(table), where, confirm=confirm)
            answer = PortalDeleted(address.portal_uri, deleted, table)
        self._report_deletion(caller, address)
        return answer

    def _delete_portal(
        self, caller: Caller, folder: PortalFolder, where: Mapping[str, Any] | None, *, confirm: bool
    ) -> int:
        """Returns how many rows its tables had."""
        if where:
            raise Invalid("table: name the table that where is for.", field="table")
        if not confirm:
            raise Invalid(
                "confirm: without table the whole portal goes. Say so with confirm: true, or name a table.",
                field="confirm",
            )
        with folder.existing_write_lock():
            rows = self._row_count(folder)
            folder.remove()
            self.journal.record(caller, portal_write(folder.address, "deleted", -rows))
            self._registry.usage.forget(folder.path)
        self._engines.remove(folder)
        self._registry.report_change(caller, folder.address, list_changed=True, is_counted=False)
        return rows

    def _row_count(self, folder: PortalFolder) -> int:
        """How many rows a portal has; 0 if neither its description nor its engine can say, so that a damaged portal can
        be deleted."""
        try:
            described = folder.described()
            tables = described.tables if described else storage.tables(self._engines.get(folder))
            return sum(table.rows for table in tables)
        except (AppError, EngineError):
            return 0

    def _delete_rows(
        self, caller: Caller, folder: PortalFolder, table: str, where: Mapping[str, Any] | None, *, confirm: bool
    ) -> int:
        with folder.existing_write_lock():
            engine = self._registry.open(folder)
            known = existing_table(storage.tables(engine), table)
            if not where and not confirm:
                raise Invalid("where: without it the whole table goes. Say so with confirm: true.", field="where")
            with self._registry.changing(caller, folder, engine):
                storage.drop_unfinished(engine)
                if where:
                    deleted = self._delete_where(engine, known, where)
                    if deleted:
                        self.journal.record(caller, table_write(folder.address, table, "updated", -deleted))
                    return deleted
                storage.drop_table(engine, table)
                row_copies.delete(folder, [table])
                self.journal.record(caller, table_write(folder.address, table, "deleted", -known.rows))
                self._registry.delete_schema(engine, table)
                return known.rows

    def _report_deletion(self, caller: Caller, address: Address) -> None:
        """Delete copies of the deleted rows, too. If that fails, it is logged, and the deletion still counts."""
        for callback in self.on_delete:
            try:
                callback(caller, address)
            except AppError as exc:
                log.warning("Copies of rows deleted from %s are still stored: %s", address.portal_uri, exc.message)

    def _delete_where(self, engine: PortalEngine, table: Table, where: Mapping[str, Any]) -> int:
        _check_where(table, where)
        try:
            condition = storage.Condition(table, where)
            deleted = storage.count(engine, table.name, condition)
            if deleted:
                storage.delete(engine, table.name, condition)
        except Unfit as exc:
            raise Invalid(f"where: {exc}", field="where") from exc
        except EngineError as exc:
            message = re.sub(r"'(p\d+)'", lambda found: repr(condition.columns.get(found[1], found[1])), str(exc))
            raise Invalid(f"where: {message}", field="where") from exc
        return deleted

    def view(self, caller: Caller, uri: str) -> View:
        """All tables of a portal, or the one that the address names."""
        address = addresses.view(uri)
        folder = self._registry.existing(caller, address)
        tables = storage.tables(self._registry.engine(folder))
        if address.table is not None:
            tables = [existing_table(tables, address.table)]
        labels = folder.labels()
        name, description = labels.name or None, labels.description or None
        shown = self._with_origins(caller, address, tables)
        return View(address.portal_uri, VIEWER, shown, self.stats(folder, tables), name, description)

    def _with_origins(self, caller: Caller, portal: Address, tables: Sequence[Table]) -> list[ViewedTable]:
        refs = {table.name: f"{portal.portal_uri}/{table.name}" for table in tables}
        known = self.journal.origins(caller, list(refs.values()))
        return [ViewedTable(**vars(table), origin=known.get(refs[table.name])) for table in tables]

    def stats(self, folder: PortalFolder, tables: Sequence[Table]) -> PortalStats:
        rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
        return PortalStats(len(tables), rows, size, self._registry.usage.usage(folder.path))

    def faults(self, folder: PortalFolder) -> list[str]:
        """The problems of a portal, as messages. Its engine reads all of it."""
        try:
            engine = self._registry.engine(folder)
            tables = storage.tables(engine)
            faults = [f"the table {one.name} is damaged" for one in tables if not storage.is_whole(engine, one.name)]
        except (AppError, EngineError) as exc:
            return [f"it cannot be opened ({exc})"]
        described = folder.described()
        if described is not None and [one.name for one in described.tables] != [one.name for one in tables]:
            faults.append(STALE_DESCRIPTION)
        return faults

    def describe_again(self, folder: PortalFolder) -> None:
        """Write the description of a portal again, from its engine."""
        engine = self._registry.engine(folder)
        with folder.write_lock():
            folder.describe(storage.tables(engine))
            folder.label(labels_in(storage.metadata(engine)))

    def end_engine(self, folder: PortalFolder) -> None:
        """End the engine of a portal, so that its folder can be moved. Raises Unavailable."""
        self._engines.get(folder).end_engine()

    def remove_leftovers(self, users: Iterable[str]) -> None:
        """Finish interrupted deletions of portals. Failures are logged."""
        for user in users:
            try:
                self._registry.folders_of(user).remove_leftovers()
            except Unavailable as exc:
                log.warning("%s", exc.message)

    def journals(self, caller: Caller) -> list[Journal]:
        return self.journal.journals(caller, self.rows if self._engines.marks_rows else None)

    def has_any(self, user: str) -> bool:
        return bool(self._registry.folders_of(user).all())

    def all(self, caller: Caller) -> list[PortalFolder]:
        return self._registry.folders(caller).all()

    def summaries(self, caller: Caller) -> list[PortalSummary]:
        """Every portal, without starting its engine."""
        return [_summary(folder) for folder in self.all(caller)]

    def last_written(self, caller: Caller) -> list[LastWrite]:
        """Every portal."""
        found = []
        for folder in self.all(caller):
            with suppress(OSError):  # it is deleted by now
                uri = folder.address.portal_uri
                found.append(LastWrite(uri, uri, precise_stamp(folder.written_at())))
        return found

    def described(self, caller: Caller, address: Address) -> tuple[PortalFolder, list[Table]]:
        """A portal and its tables: as described, or as the engine says if there is no description."""
        folder = self._registry.existing(caller, address)
        described = folder.described()
        return folder, described.tables if described else storage.tables(self._registry.engine(folder))

    def page(
        self, caller: Caller, address: Address, wanted: addresses.RowRange, *, is_counted: bool = True
    ) -> tuple[list[Record], bool]:
        """Rows of a table, as its resource shows them, and whether large ones were left out. `is_counted` is whether
        this counts as use of the portal."""
        folder = self._registry.existing(caller, address)
        engine = self._registry.engine(folder)
        table = existing_table(storage.tables(engine), address.table or "")
        if (wanted.since or wanted.until) and storage.time_column(table) is None:
            word = "since" if wanted.since else "until"
            raise Invalid(f"{word}: {table.name!r} has no column with a time. Leave it out.", field="uri")
        if wanted.order and table.column(wanted.order.removeprefix("-")) is None:
            raise Invalid(f"order: {table.name!r} has no column {wanted.order.removeprefix('-')!r}.", field="uri")
        try:
            rows, is_cut = storage.page(engine, table, wanted)
        except EngineError as exc:
            raise Invalid(f"order: {exc}", field="uri") from exc
        except RecursionError as exc:  # of the JSON parser
            raise query_results.nested_too_deep("uri") from exc
        if is_counted:
            self._registry.count_read(folder)
        types = {column.name: column.type for column in table.columns}
        readable = query_results.readable
        return [{name: readable(value, types[name], "uri") for name, value in row.items()} for row in rows], is_cut


def _summary(folder: PortalFolder) -> PortalSummary:
    described, labels = folder.described(), folder.labels()
    tables = described.tables if described else []
    return PortalSummary(
        folder.address.portal_uri,
        labels.name,
        labels.description,
        [table.name for table in tables],
        rows=sum(table.rows for table in tables),
        bytes=sum(table.bytes for table in tables),
    )


def _check_where(table: Table, where: Mapping[str, Any]) -> None:
    for name, wanted in where.items():
        if table.column(name) is None:
            raise Invalid(f"where: {table.name!r} has no column {name!r}.", field="where")
        if isinstance(wanted, dict) and not (wanted and set(wanted) <= set(storage.Condition.OPERATORS)):
            operators = ", ".join(storage.Condition.OPERATORS)
            raise Invalid(f'where: compare with any of {operators}, like {{"lt": 5}}.', field="where")
