import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from memory_mcp import __version__
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, precise_stamp
from memory_mcp.engine import archive, words
from memory_mcp.engine.client import EngineError, EngineLine, check_wanted
from memory_mcp.engine.parameters import Unfit, fits
from memory_mcp.errors import AppError, Invalid, NotFound, Unavailable
from memory_mcp.families import BYTES_PER_TOKEN, TOKEN_BUDGET, Progress, within_budget
from memory_mcp.portals import address as addresses
from memory_mcp.portals import fetching, inference, joining, moving, places, storage
from memory_mcp.portals.address import Address
from memory_mcp.portals.folders import EngineLines, PortalFolder, PortalFolders
from memory_mcp.portals.inference import KEY
from memory_mcp.portals.model import (
    VIEWER,
    Deleted,
    Exported,
    Format,
    Imported,
    NewColumn,
    Record,
    Result,
    ResultColumn,
    Stats,
    Table,
    View,
    Written,
)

PROTOCOL = "2026-07-28"
ENDINGS: dict[Format, str] = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "db": ".tar"}
MOST_EXPORTS = 8  # of one server, those that wait their turn too: the others are refused, and reads go on
MOST_COLUMNS = 1000  # of an answer
WIDEST = 2**53  # whole numbers that every JSON reader keeps


class Portals:
    """Everything this server can do with tables and SQL."""

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        changes: Changes,
        clock: Clock,
        *,
        limits: dict[str, int],
        import_folders: Sequence[Path] = (),
        export_folders: Sequence[Path] = (),
        largest_import: int,
        largest_export: int,
        urls: bool = False,
        joins: bool = False,
    ) -> None:
        """`folder_of` is where a user's data lies. The other folders are for the local user, beside imports/ and
        exports/ in there."""
        self._folder_of = folder_of
        self._changes = changes
        self._clock = clock
        self._most_rows = limits["limit"] - 1
        self._lines = EngineLines(limits)
        self._exporting = threading.BoundedSemaphore(MOST_EXPORTS)
        self._imports = import_folders
        self._exports = export_folders
        self._largest_import = largest_import
        self._largest_export = largest_export
        self._urls = urls
        self._joins = joins

    def close(self) -> None:
        self._lines.close()

    # Tools

    def write(self, caller: Caller, uri: str, table: str, records: Sequence[Record]) -> Written:
        """Add records, all or none. A missing portal, table or column is made for them."""
        address, table = addresses.portal(uri), _writable(table)
        folder = self._folders(caller).get(address)
        with folder.turn():
            line = self._opened(folder)
            tables = self._noted(folder, line)
            known = _found(tables, table)
            wanted = inference.wanted_columns(records, table, known)
            if wanted or known is None:
                self._write_changing(caller, folder, line, table, records)
            else:
                self._insert(line, table, known, [], records)
                folder.describe([_grown(one, len(records)) if one.name == table else one for one in tables])
                self._changes.tell(caller.user, [folder.address.portal_uri], list_changed=False)
        return Written(address.portal_uri, table, len(records))

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
        known = _found(storage.tables(line), table)
        wanted = inference.wanted_columns(records, table, known)
        with self._changing(caller, folder, line):
            self._insert(line, table, known, wanted, records)
            if wanted:
                self._new_schema(line, table)

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
                storage.insert(line, table, records, str(uuid4()))
        except EngineError as exc:
            raise Invalid(f"data: {words.misfit(str(exc), 0)} Nothing was written.", field="data") from exc

    @contextmanager
    def _changing(self, caller: Caller, folder: PortalFolder, line: EngineLine) -> Iterator[None]:
        """Tables and columns may come and go in here. Whatever happens, no old description is believed after it."""
        before, existed = folder.described(), folder.exists()
        folder.distrust()
        try:
            yield
        except AppError:
            if existed:
                with suppress(AppError, EngineError):  # the next one asks the engine
                    folder.describe(storage.tables(line))
            raise
        tables = storage.tables(line)
        folder.describe(tables)
        are_new = before is None or [table.name for table in before.tables] != [table.name for table in tables]
        self._changes.tell(caller.user, [folder.address.portal_uri], list_changed=are_new)

    def _check_fit(self, line: EngineLine, table: str, types: Mapping[str, str], records: Sequence[Record]) -> None:
        """Raises Invalid for what the engine would bend into something else."""
        for name, kind in types.items():
            if not any(word in kind for word in ("Int", "Date", "Array(")):
                continue  # nothing else is bent
            values = [record[name] for record in records if record.get(name) is not None]
            if not all(fits(value, kind) for value in _extremes(values)):
                number = next(n for n, record in enumerate(records) if not fits(record.get(name), kind))
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
        folder = self._existing(caller, addresses.portal(uri))
        try:
            with joining.lent(self._lines, folder, self._joined(caller, folder, sql)) as lent:
                found = self._lines.get(folder).until(cancelled).query(sql, dict(parameters), lent)
        except EngineError as exc:
            raise Invalid(f"sql: {exc}", field="sql") from exc
        if len(found["meta"]) > MOST_COLUMNS:
            raise Invalid(
                f"sql: the result has {len(found['meta'])} columns. Ask for at most {MOST_COLUMNS} at a time.",
                word="too_large",
                field="sql",
            )
        columns = [
            ResultColumn(name, one["type"]) for name, one in zip(_unique(found["meta"]), found["meta"], strict=True)
        ]
        rows = [
            {c.name: _readable(value, c.type) for c, value in zip(columns, row, strict=True)} for row in found["data"]
        ]
        shown = fitting(rows[: self._most_rows])
        truncated = len(shown) < len(rows)
        notice = (
            "There is more. Ask for less at a time: LIMIT and OFFSET, WHERE, fewer columns, substring(text, 1, 1000)."
            if truncated
            else None
        )
        return Result(columns, shown, len(shown), truncated, round(found["statistics"]["elapsed"] * 1000, 3), notice)

    def _joined(self, caller: Caller, folder: PortalFolder, sql: str) -> list[PortalFolder]:
        """The other portals of its namespace that a query may mean."""
        if not self._joins:
            return []
        return [
            other
            for other in self._folders(caller).all()
            if other.address.namespace == folder.address.namespace
            and other.address != folder.address
            and re.search(rf"(?<![\w.-]){re.escape(other.address.portal)}(?![\w-])", sql)
        ]

    def delete(
        self, caller: Caller, uri: str, table: str, where: Mapping[str, Any] | None, *, confirm: bool
    ) -> Deleted:
        """Delete the rows that match, or the whole table if that is confirmed."""
        address, table = addresses.portal(uri), _writable(table)
        folder = self._existing(caller, address)
        with folder.turn():
            line = self._opened(folder)
            known = _known(storage.tables(line), table)
            if not where and not confirm:
                raise Invalid("where: without it the whole table goes. Say so with confirm: true.", field="where")
            with self._changing(caller, folder, line):
                if where:
                    deleted = self._delete_where(line, known, where)
                else:
                    deleted = known.rows
                    storage.drop_table(line, table)
                    self._old_schema(line, table)
        return Deleted(address.portal_uri, table, deleted)

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

    def import_file(
        self,
        caller: Caller,
        uri: str,
        source: str,
        format_: Format,
        table: str | None,
        mapping: Mapping[str, str],
        tell: Progress,
        cancelled: threading.Event | None = None,
    ) -> Imported:
        """Add what a file holds: all of it, or nothing. A missing portal or table is made. A caller who leaves before
        the rows are moved to their table has imported nothing."""
        address = addresses.portal(uri)
        name = _writable(moving.table_name(source, table)) if format_ != "db" else table
        folder = self._folders(caller).get(address)
        with moving.staged(folder, ENDINGS[format_]) as path:
            self._get(caller, source, path, cancelled)  # before the turn: it may take a while
            tell(1, 3, "The file is there.")
            with folder.turn():
                check_wanted(cancelled)
                line = self._opened(folder)
                with self._changing(caller, folder, line):
                    if format_ == "db":
                        names, count = moving.open_file(line, path, name, self._new_schema, cancelled)
                    else:
                        names = [str(name)]
                        count = moving.load(line, path, format_, str(name), mapping, self._new_schema, cancelled)
            tell(2, 3, f"{count} records are in.")
            tell(3, 3, "Done.")
        return Imported(address.portal_uri, ", ".join(names), count)

    def _get(self, caller: Caller, source: str, path: Path, cancelled: threading.Event | None) -> None:
        if not fetching.is_url(source):
            places.copy_in(self._import_folders(caller), source, path, self._largest_import)
        elif self._urls:
            fetching.fetch(source, path, self._largest_import, cancelled)
        else:
            raise Invalid(
                "source: addresses are switched off here. Put the file into the imports folder.", field="source"
            )

    def export_file(
        self,
        caller: Caller,
        uri: str,
        destination: str,
        format_: Format,
        table: str | None,
        query: str | None,
        tell: Progress,
        cancelled: threading.Event | None = None,
    ) -> Exported:
        """Write a table, what a query gives, or as db the whole portal, to a file. It stops when its caller leaves."""
        folder = self._existing(caller, addresses.portal(uri))
        line = self._lines.get(folder)
        with self._one_of_few(), moving.staged(folder, ENDINGS[format_]) as path:
            if format_ == "db":
                tables, rows = self._export_portal(folder, line, path, table or query, cancelled)
            else:
                tables, rows = self._export_table(line.until(cancelled), path, destination, format_, table, query)
            check_wanted(cancelled)
            tell(1, 2, "The file is made.")
            size, digest = path.stat().st_size, moving.digest(path)
            shown = places.move_out(self._export_folders(caller), path, destination)
            tell(2, 2, "Done.")
        return Exported(shown, format_, tables, rows, size, digest)

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        """Raises Unavailable when too many exports are under way: each has a worker that reads would lack."""
        if not self._exporting.acquire(blocking=False):
            raise Unavailable(f"{MOST_EXPORTS} exports are under way here. Try again when one has ended.")
        try:
            yield
        finally:
            self._exporting.release()

    def _export_portal(
        self,
        folder: PortalFolder,
        line: EngineLine,
        path: Path,
        part: str | None,
        cancelled: threading.Event | None,
    ) -> tuple[list[str], int]:
        if part is not None:
            raise Invalid(
                "format: db holds the whole portal. Leave table and query out, or choose another.", field="format"
            )
        try:
            with folder.turn():
                check_wanted(cancelled)
                checksum, about = storage.checksum(line), storage.metadata(line)
                if about.get("mcp.checksum") != checksum:
                    storage.set_metadata(line, {"mcp.checksum": checksum})
                    about["mcp.checksum"] = checksum
                tables = storage.tables(line)
                self._check_size(sum(table.bytes for table in tables))
                storage.back_up(line.until(cancelled), str(path))
        except EngineError as exc:
            raise Unavailable("The engine cannot write this portal to a file. Look at the log, or try again.") from exc
        archive.seal(path, {"metadata": about, "tables": {table.name: table.rows for table in tables}})
        self._check_size(path.stat().st_size)
        return [table.name for table in tables], sum(table.rows for table in tables)

    def _check_size(self, size: int) -> None:
        if size > self._largest_export:
            raise Invalid(
                f"format: as db this portal is over {self._largest_export} bytes. Export its tables one by one, or "
                "what queries give of them.",
                word="too_large",
                field="format",
            )

    def _export_table(
        self, line: EngineLine, path: Path, destination: str, format_: Format, table: str | None, query: str | None
    ) -> tuple[list[str], int]:
        field = "table" if query is None else "query"
        if query is None:
            chosen = _chosen(storage.tables(line), table)
            query, names = storage.whole_table(chosen.name), [chosen.name]
        elif table is not None:
            raise Invalid("query: give either this or table.", field="query")
        else:
            names = []
        lines = format_ == "json" and destination.endswith((".jsonl", ".ndjson"))
        try:
            kind = "lines" if lines else "json" if format_ == "json" else storage.FORMATS[format_]
            return names, line.export(query, path, kind, self._largest_export, field)
        except EngineError as exc:
            raise Invalid(f"{field}: {exc}", field=field) from exc

    def view(self, caller: Caller, uri: str) -> View:
        """All tables of a portal, or the one that the address names."""
        address = addresses.view(uri)
        tables = storage.tables(self._lines.get(self._existing(caller, address)))
        if address.table is not None:
            tables = [_known(tables, address.table)]
        return View(address.portal_uri, VIEWER, tables, stats(tables))

    # Portals

    def all(self, caller: Caller) -> list[PortalFolder]:
        return self._folders(caller).all()

    def described(self, caller: Caller, address: Address) -> tuple[PortalFolder, list[Table]]:
        """A portal and its tables: as it was noted, or as the engine says if nobody knows without it."""
        folder = self._existing(caller, address)
        described = folder.described()
        return folder, described.tables if described else storage.tables(self._lines.get(folder))

    def page(self, caller: Caller, address: Address, asked: addresses.Page) -> list[Record]:
        """Rows of a table, as its resource shows them."""
        line = self._lines.get(self._existing(caller, address))
        table = _known(storage.tables(line), address.table or "")
        if asked.order and table.column(asked.order.removeprefix("-")) is None:
            raise Invalid(f"order: {table.name!r} has no column {asked.order.removeprefix('-')!r}.", field="uri")
        try:
            rows = storage.page(line, table, asked)
        except EngineError as exc:
            raise Invalid(f"order: {exc}", field="uri") from exc
        types = {column.name: column.type for column in table.columns}
        return [{name: _readable(value, types[name]) for name, value in row.items()} for row in rows]

    def _opened(self, folder: PortalFolder) -> EngineLine:
        """The engine of a portal. A new one is there for callers once something has come of the call: see _changing."""
        line = self._lines.get(folder)
        if not folder.exists():
            storage.create_metadata(line, self._about(folder.address))
        return line

    def _about(self, address: Address) -> dict[str, str]:
        return {
            "mcp.version": PROTOCOL,
            "mcp.portal.id": f"{address.namespace}/{address.portal}",
            "mcp.portal.name": address.portal,
            "mcp.portal.description": "",
            "mcp.server.name": "memory-mcp",
            "mcp.server.version": __version__,
            "mcp.created_at": precise_stamp(self._clock()),
            "mcp.schema_version": "0",
        }

    def _new_schema(self, line: EngineLine, table: str) -> None:
        """A table came or changed: the next version of the schema, with the statement that makes it."""
        version = int(storage.metadata(line).get("mcp.schema_version", "0")) + 1
        statement = storage.statement(line, table)
        storage.set_metadata(line, {f"mcp.schema.{table}": statement, "mcp.schema_version": str(version)})

    def _old_schema(self, line: EngineLine, table: str) -> None:
        """A table went, and its statement with it."""
        version = int(storage.metadata(line).get("mcp.schema_version", "0")) + 1
        storage.set_metadata(line, {"mcp.schema_version": str(version)}, gone=[f"mcp.schema.{table}"])

    def _folders(self, caller: Caller) -> PortalFolders:
        return PortalFolders(self._folder_of(caller.user))

    def _import_folders(self, caller: Caller) -> list[Path]:
        return [self._folder_of(caller.user) / "imports", *(self._imports if caller.user == LOCAL_USER else ())]

    def _export_folders(self, caller: Caller) -> list[Path]:
        return [self._folder_of(caller.user) / "exports", *(self._exports if caller.user == LOCAL_USER else ())]

    def _existing(self, caller: Caller, address: Address) -> PortalFolder:
        folder = self._folders(caller).get(address)
        if not folder.exists():
            raise NotFound(f"There is no portal {address.portal_uri}. portal_write makes it.", field="portalUri")
        return folder


def _grown(table: Table, by: int) -> Table:
    return replace(table, rows=table.rows + by)


def _extremes(values: Sequence[Any]) -> Sequence[Any]:
    """The values that tell whether all fit: of whole numbers the least and the greatest."""
    if values and set(map(type, values)) == {int}:
        return min(values), max(values)
    return values


def fitting(rows: Sequence[Record]) -> list[Record]:
    """As many rows as a model can take; none if the first alone is too long."""
    shown = within_budget(rows, _size)
    return shown if shown and _size(shown[0]) <= TOKEN_BUDGET * BYTES_PER_TOKEN else []


def _size(row: Record) -> int:
    return len(json.dumps(row, ensure_ascii=False).encode())


def stats(tables: Sequence[Table]) -> Stats:
    return Stats(len(tables), sum(table.rows for table in tables), sum(table.bytes for table in tables))


def _chosen(tables: Sequence[Table], name: str | None) -> Table:
    if name is not None:
        return _known(tables, name)
    if len(tables) != 1:
        listed = ", ".join(table.name for table in tables) or "none"
        raise Invalid(f"table: name one of the portal's tables ({listed}), or give a query.", field="table")
    return tables[0]


def _found(tables: Sequence[Table], name: str) -> Table | None:
    return next((table for table in tables if table.name == name), None)


def _known(tables: Sequence[Table], name: str) -> Table:
    if found := _found(tables, name):
        return found
    listed = ", ".join(table.name for table in tables) or "none yet"
    raise NotFound(f"There is no table {name!r} in this portal. It has: {listed}.", field="table")


def _writable(table: str) -> str:
    if table.startswith("_"):
        raise Invalid("table: names that start with '_' are the server's own.", field="table")
    return addresses.check_table(table)


def _check_where(table: Table, where: Mapping[str, Any]) -> None:
    for name, wanted in where.items():
        if table.column(name) is None:
            raise Invalid(f"where: {table.name!r} has no column {name!r}.", field="where")
        if isinstance(wanted, dict) and not (wanted and set(wanted) <= set(storage.Condition.OPERATORS)):
            words = ", ".join(storage.Condition.OPERATORS)
            raise Invalid(f'where: compare with any of {words}, like {{"lt": 5}}.', field="where")


def _readable(value: Any, kind: str) -> Any:
    """Whole numbers that not every reader of JSON keeps become texts; the engine writes 1e18 as a whole number too."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > WIDEST:
        return float(value) if "Float" in kind else str(value)
    if isinstance(value, list):
        return [_readable(one, kind) for one in value]
    if isinstance(value, dict):
        return {name: _readable(one, kind) for name, one in value.items()}
    return value


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
