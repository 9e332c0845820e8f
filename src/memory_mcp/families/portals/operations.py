import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, precise_stamp
from memory_mcp.engines.chdb import error_messages
from memory_mcp.engines.chdb.client import EngineError, EngineLine, Rules
from memory_mcp.engines.chdb.parameters import Unfit
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.family import BYTES_PER_TOKEN, TOKEN_BUDGET, LastWrite, within_budget
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import cross_portal_query, inference, storage, usage
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.answers import Deleted, Result, ResultColumn, View
from memory_mcp.families.portals.folders import EngineLines, PortalFolder, PortalFolders
from memory_mcp.families.portals.inference import KEY
from memory_mcp.families.portals.limits import ImportLimits
from memory_mcp.families.portals.model import VIEWER, Labels, NewColumn, Record, Stats, Table, Written
from memory_mcp.families.portals.portal_registry import PortalRegistry, existing_table, find_table, labels_in, writable
from memory_mcp.families.portals.transfers import Transfers

log = logging.getLogger(__name__)

NAMES_OTHERS = "portal.json names other tables than it has"
MAX_NESTING = 64  # levels of types in a column of an answer
MAX_VALUE_LEVELS = 100  # of objects and lists in a value of an answer: JSON parsers refuse many more
MAX_COLUMNS = 1000  # of an answer
MAX_COLUMN_NAME_CHARS = 4000  # characters of a column of an answer
MAX_COLUMN_NAMES_BYTES = TOKEN_BUDGET * BYTES_PER_TOKEN  # of all of them, with their types
MAX_SAFE_INTEGER = 2**53  # whole numbers that every JSON reader keeps


class Portals:
    """Everything this server can do with tables and SQL."""

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        changes: Changes,
        clock: Clock,
        *,
        limits: dict[str, int],
        rules: Rules,
        import_folders: Sequence[Path] = (),
        export_folders: Sequence[Path] = (),
        import_limits: ImportLimits,
        largest_export: int,
        export_quota: int,
        export_days: int,
        urls: bool = False,
        joins: bool = False,
    ) -> None:
        """`folder_of` is where a user's data lies. The other folders are for the local user, beside imports/ and
        exports/ in there."""
        self.max_rows = limits["limit"] - 1
        self._lines = EngineLines(limits, rules)
        self._joins = joins
        self.on_delete: list[Callable[[Caller, Address], None]] = []  # called once something has been deleted
        self._keeping = PortalRegistry(folder_of, self._lines, changes, clock)
        self.transfers = Transfers(
            self._keeping,
            import_folders=import_folders,
            export_folders=export_folders,
            import_limits=import_limits,
            largest_export=largest_export,
            export_quota=export_quota,
            export_days=export_days,
            urls=urls,
        )

    def close(self) -> None:
        self._lines.close()

    # Tools

    def write(
        self,
        caller: Caller,
        uri: str,
        table: str,
        records: Sequence[Record],
        name: str | None = None,
        description: str | None = None,
    ) -> Written:
        """Add records, all or none. A missing portal, table or column is made for them.

        `name` and `description` are those of the portal from now on; None leaves one as it is. If one is given, there
        may be no records, and then no table is made.
        """
        address, table = addresses.portal(uri), writable(table)
        if not records and name is None and description is None:
            raise Invalid("data: give at least one record, or portalName or portalDescription.", field="data")
        folder = self._keeping.folders(caller).get(address)
        with folder.write_lock():
            line = self._keeping.open(folder)
            if records:
                self._write_records(caller, folder, line, table, records)
            self._label(caller, folder, line, name, description, is_counted=not records)
        return Written(address.portal_uri, table, len(records))

    def _label(
        self,
        caller: Caller,
        folder: PortalFolder,
        line: EngineLine,
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
        self._keeping.set_labels(folder, line, labels)
        folder.describe(self._noted(folder, line))
        self._keeping.report_change(caller, folder.address, list_changed=True, is_counted=is_counted)

    def _write_records(
        self, caller: Caller, folder: PortalFolder, line: EngineLine, table: str, records: Sequence[Record]
    ) -> None:
        tables = self._noted(folder, line)
        known = find_table(tables, table)
        wanted = inference.wanted_columns(records, table, known)
        if wanted or known is None:
            self._write_changing(caller, folder, line, table, records)
        else:
            self._insert(line, table, known, [], records)
            folder.describe([_grown(one, len(records)) if one.name == table else one for one in tables])
            self._keeping.report_change(caller, folder.address, list_changed=False)

    def _noted(self, folder: PortalFolder, line: EngineLine) -> list[Table]:
        """The tables of a portal, noted if they were not."""
        if described := folder.described():
            return described.tables
        tables = storage.tables(line)
        if folder.exists():
            folder.describe(tables)
        return tables

    def _write_changing(
        self, caller: Caller, folder: PortalFolder, line: EngineLine, table: str, records: Sequence[Record]
    ) -> None:
        """Write what needs a table or columns that nobody has noted: the engine is asked, for it may have them."""
        known = find_table(storage.tables(line), table)
        wanted = inference.wanted_columns(records, table, known)
        with self._keeping.changing(caller, folder, line):
            self._insert(line, table, known, wanted, records)
            if wanted:
                self._keeping.record_schema(line, table)

    def _insert(
        self, line: EngineLine, table: str, known: Table | None, wanted: Sequence[NewColumn], records: Sequence[Record]
    ) -> None:
        """Into a table that is known or made, with the columns that are wanted. Refused, it is as it was."""
        types = {column.name: column.type for column in (*(known.columns if known else ()), *wanted)}
        self._check_fit(line, table, types, records)
        if not types:
            raise Invalid("data: give at least one field, so that the table gets a column.", field="data")
        try:
            with storage.widened(line, table, known, wanted):
                storage.insert(line, table, records, known.rows if known else 0)
        except EngineError as exc:
            raise Invalid(f"data: {error_messages.misfit(str(exc), 0)} Nothing was written.", field="data") from exc

    def _check_fit(self, line: EngineLine, table: str, types: Mapping[str, str], records: Sequence[Record]) -> None:
        """Raises Invalid for what the engine would bend into something else."""
        for name, kind in types.items():
            number = inference.first_unfit([record.get(name) for record in records], kind)
            if number is not None:
                raise Invalid(
                    f"data: {name!r} of record {number} does not fit {kind}, and nothing was written.", field="data"
                )
        has_key = KEY in types and not types[KEY].startswith(("Nullable", "Array", "JSON"))
        if has_key and any(record.get(KEY) is None for record in records):
            is_filled_in = table in inference.WELL_KNOWN or storage.has_default(line, table, KEY)
            if not is_filled_in:
                raise Invalid(f"data: every record of {table!r} needs an {KEY!r}.", field="data")

    def query(
        self,
        caller: Caller,
        uri: str,
        sql: str,
        parameters: Mapping[str, Any],
        cancelled: threading.Event | None = None,
    ) -> Result:
        """One SELECT over one portal. It stops when its caller leaves."""
        folder = self._keeping.existing(caller, addresses.portal(uri))
        try:
            with cross_portal_query.lent(self._lines, folder, self._joined(caller, folder, sql)) as lent:
                found = self._keeping.line(folder).until(cancelled).query(sql, dict(parameters), lent)
        except EngineError as exc:
            raise Invalid(f"sql: {exc}", field="sql") from exc
        except RecursionError as exc:  # of the JSON parser
            raise _nested_too_deep("sql") from exc
        self._keeping.count_read(folder)
        if len(found["meta"]) > MAX_COLUMNS:
            raise Invalid(
                f"sql: the result has {len(found['meta'])} columns. Ask for at most {MAX_COLUMNS} at a time.",
                code="too_large",
                field="sql",
            )
        if (
            any(len(one["name"]) > MAX_COLUMN_NAME_CHARS for one in found["meta"])
            or _size(found["meta"]) > MAX_COLUMN_NAMES_BYTES
        ):
            raise Invalid(
                f"sql: the names of the result's columns are too long; one has at most {MAX_COLUMN_NAME_CHARS} "
                "characters. Give "
                "short ones: SELECT … AS name.",
                code="too_large",
                field="sql",
            )
        if any(one["type"].count("(") > MAX_NESTING for one in found["meta"]):
            raise Invalid(
                f"sql: a column of the result is nested more than {MAX_NESTING} levels deep. Use toString on it.",
                code="too_large",
                field="sql",
            )
        columns = [
            ResultColumn(name, one["type"]) for name, one in zip(_unique(found["meta"]), found["meta"], strict=True)
        ]
        rows = [
            {c.name: _readable(value, c.type, "sql") for c, value in zip(columns, row, strict=True)}
            for row in found["data"]
        ]
        shown = fitting(rows[: self.max_rows])
        truncated = found["isCut"] or len(shown) < len(rows)
        notice = (
            "There is more. Ask for less at a time: LIMIT and OFFSET, WHERE, fewer columns, substring(text, 1, 1000)."
            if truncated
            else None
        )
        return Result(columns, shown, len(shown), truncated, round(found["elapsedSeconds"] * 1000, 3), notice)

    def _joined(self, caller: Caller, folder: PortalFolder, sql: str) -> list[PortalFolder]:
        """The other portals of its namespace that a query may mean."""
        if not self._joins:
            return []
        return [
            other
            for other in self._keeping.folders(caller).all()
            if other.address.namespace == folder.address.namespace
            and other.address != folder.address
            and re.search(rf"(?<![\w.-]){re.escape(other.address.portal)}(?![\w-])", sql)
        ]

    def delete(
        self, caller: Caller, uri: str, table: str | None, where: Mapping[str, Any] | None, *, confirm: bool
    ) -> Deleted:
        """Delete the rows that match; without `where` the whole table; without `table` the portal. Whole tables and
        portals need `confirm`."""
        address = addresses.portal(uri)
        folder = self._keeping.existing(caller, address)
        if table is None:
            deleted = self._delete_portal(caller, folder, where, confirm=confirm)
            answer = Deleted(address.portal_uri, deleted, portal=True)
        else:
            deleted = self._delete_rows(caller, folder, writable(table), where, confirm=confirm)
            answer = Deleted(address.portal_uri, deleted, table)
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
        self._lines.forget(folder)
        self._keeping.report_change(caller, folder.address, list_changed=True)
        return rows

    def _row_count(self, folder: PortalFolder) -> int:
        """How many rows a portal has; 0 if neither its description nor its engine can say, so that a damaged portal can
        be deleted."""
        try:
            described = folder.described()
            tables = described.tables if described else storage.tables(self._lines.get(folder))
            return sum(table.rows for table in tables)
        except (AppError, EngineError):
            return 0

    def _delete_rows(
        self, caller: Caller, folder: PortalFolder, table: str, where: Mapping[str, Any] | None, *, confirm: bool
    ) -> int:
        with folder.existing_write_lock():
            line = self._keeping.open(folder)
            known = existing_table(storage.tables(line), table)
            if not where and not confirm:
                raise Invalid("where: without it the whole table goes. Say so with confirm: true.", field="where")
            with self._keeping.changing(caller, folder, line):
                storage.drop_left_behind(line)
                if where:
                    return self._delete_where(line, known, where)
                storage.drop_table(line, table)
                self._keeping.delete_schema(line, table)
                return known.rows

    def _report_deletion(self, caller: Caller, address: Address) -> None:
        """Have copies of what was deleted deleted, too. If that fails, it is logged, and the deletion still counts."""
        for callback in self.on_delete:
            try:
                callback(caller, address)
            except AppError as exc:
                log.warning("Copies of what was deleted from %s are still stored: %s", address.portal_uri, exc.message)

    def _delete_where(self, line: EngineLine, table: Table, where: Mapping[str, Any]) -> int:
        _check_where(table, where)
        try:
            condition = storage.Condition(table, where)
            deleted = storage.count(line, table.name, condition)
            if deleted:
                storage.delete(line, table.name, condition)
        except Unfit as exc:
            raise Invalid(f"where: {exc}", field="where") from exc
        except EngineError as exc:
            said = re.sub(r"'(p\d+)'", lambda found: repr(condition.columns.get(found[1], found[1])), str(exc))
            raise Invalid(f"where: {said}", field="where") from exc
        return deleted

    def view(self, caller: Caller, uri: str) -> View:
        """All tables of a portal, or the one that the address names."""
        address = addresses.view(uri)
        folder = self._keeping.existing(caller, address)
        tables = storage.tables(self._keeping.line(folder))
        if address.table is not None:
            tables = [existing_table(tables, address.table)]
        labels = folder.labels()
        name, description = labels.name or None, labels.description or None
        return View(address.portal_uri, VIEWER, tables, stats(folder, tables), name, description)

    # Upkeep

    def faults(self, folder: PortalFolder) -> list[str]:
        """What is wrong with a portal, in words. Its engine reads all of it."""
        try:
            line = self._keeping.line(folder)
            tables = storage.tables(line)
            faults = [f"the table {one.name} is damaged" for one in tables if not storage.is_whole(line, one.name)]
        except (AppError, EngineError) as exc:
            return [f"it cannot be opened ({exc})"]
        described = folder.described()
        if described is not None and [one.name for one in described.tables] != [one.name for one in tables]:
            faults.append(NAMES_OTHERS)
        return faults

    def describe_again(self, folder: PortalFolder) -> None:
        """Note what a portal holds, as its engine says."""
        line = self._keeping.line(folder)
        with folder.write_lock():
            folder.describe(storage.tables(line))
            folder.label(labels_in(storage.metadata(line)))

    def dismiss(self, folder: PortalFolder) -> None:
        """Have the engine of a portal leave, so that its folder can be moved. Raises Unavailable."""
        self._lines.get(folder).dismiss()

    # Portals

    def remove_leftovers(self, users: Iterable[str]) -> None:
        """Delete what is left of portals whose deletion was interrupted. What cannot be deleted is logged."""
        for user in users:
            try:
                PortalFolders(self._keeping.folder_of(user)).remove_leftovers()
            except Unavailable as exc:
                log.warning("%s", exc.message)

    def all(self, caller: Caller) -> list[PortalFolder]:
        return self._keeping.folders(caller).all()

    def last_written(self, caller: Caller) -> list[LastWrite]:
        """Every portal."""
        found = []
        for folder in self.all(caller):
            with suppress(OSError):  # it is gone by now
                uri = folder.address.portal_uri
                found.append(LastWrite(uri, uri, precise_stamp(folder.written_at())))
        return found

    def described(self, caller: Caller, address: Address) -> tuple[PortalFolder, list[Table]]:
        """A portal and its tables: as it was noted, or as the engine says if nobody knows without it."""
        folder = self._keeping.existing(caller, address)
        described = folder.described()
        return folder, described.tables if described else storage.tables(self._keeping.line(folder))

    def page(
        self, caller: Caller, address: Address, asked: addresses.RowRange, *, is_counted: bool = True
    ) -> tuple[list[Record], bool]:
        """Rows of a table, as its resource shows them, and whether large ones were left out. `is_counted` is whether
        this counts as use of the portal."""
        folder = self._keeping.existing(caller, address)
        line = self._keeping.line(folder)
        table = existing_table(storage.tables(line), address.table or "")
        if (asked.since or asked.until) and storage.time_column(table) is None:
            word = "since" if asked.since else "until"
            raise Invalid(f"{word}: {table.name!r} has no column with a time. Leave it out.", field="uri")
        if asked.order and table.column(asked.order.removeprefix("-")) is None:
            raise Invalid(f"order: {table.name!r} has no column {asked.order.removeprefix('-')!r}.", field="uri")
        try:
            rows, is_cut = storage.page(line, table, asked)
        except EngineError as exc:
            raise Invalid(f"order: {exc}", field="uri") from exc
        except RecursionError as exc:  # of the JSON parser
            raise _nested_too_deep("uri") from exc
        if is_counted:
            self._keeping.count_read(folder)
        types = {column.name: column.type for column in table.columns}
        return [{name: _readable(value, types[name], "uri") for name, value in row.items()} for row in rows], is_cut


def _grown(table: Table, by: int) -> Table:
    return replace(table, rows=table.rows + by)


def fitting(rows: Sequence[Record]) -> list[Record]:
    """As many rows as a model can take; none if the first alone is too long."""
    shown = within_budget(rows, _size)
    return shown if shown and _size(shown[0]) <= TOKEN_BUDGET * BYTES_PER_TOKEN else []


def _size(shown: Any) -> int:
    return len(json.dumps(shown, ensure_ascii=False).encode())


def stats(folder: PortalFolder, tables: Sequence[Table]) -> Stats:
    rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
    return Stats(len(tables), rows, size, usage.read(folder.path))


def _check_where(table: Table, where: Mapping[str, Any]) -> None:
    for name, wanted in where.items():
        if table.column(name) is None:
            raise Invalid(f"where: {table.name!r} has no column {name!r}.", field="where")
        if isinstance(wanted, dict) and not (wanted and set(wanted) <= set(storage.Condition.OPERATORS)):
            operators = ", ".join(storage.Condition.OPERATORS)
            raise Invalid(f'where: compare with any of {operators}, like {{"lt": 5}}.', field="where")


def _readable(value: Any, kind: str, field: str, level: int = 0) -> Any:
    """Whole numbers that not every reader of JSON keeps become texts; the engine writes 1e18 as a whole number too.

    Raises Invalid, blaming `field`, for a value that is nested too deep.
    """
    if level >= MAX_VALUE_LEVELS and isinstance(value, (list, dict)):
        raise _nested_too_deep(field)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SAFE_INTEGER:
        return float(value) if "Float" in kind else str(value)
    if isinstance(value, list):
        return [_readable(one, kind, field, level + 1) for one in value]
    if isinstance(value, dict):
        return {name: _readable(one, kind, field, level + 1) for name, one in value.items()}
    return value


def _nested_too_deep(field: str) -> Invalid:
    return Invalid(
        f"{field}: a value of the result is nested more than {MAX_VALUE_LEVELS} levels deep. Use toString or "
        "toJSONString on it.",
        code="too_large",
        field=field,
    )


def _unique(meta: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of columns, no two the same."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}  # the last one given to a name
    names: list[str] = []
    for column in meta:
        name = column["name"]
        while name in taken:
            numbers[column["name"]] = numbers.get(column["name"], 1) + 1
            name = f"{column['name']}_{numbers[column['name']]}"
        taken.add(name)
        names.append(name)
    return names
