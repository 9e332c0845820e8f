"""Portals in and out of files."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path, PurePath
from uuid import uuid4

from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engine import archive, words
from memory_mcp.engine.client import EngineError, EngineLine, LimitReached
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.files.data_directory import make_private_folder
from memory_mcp.portals import inference, inspection, storage, zips
from memory_mcp.portals.address import COLUMN, TABLE
from memory_mcp.portals.folders import PortalFolder
from memory_mcp.portals.journal import StagedTable
from memory_mcp.portals.limits import ImportBudget
from memory_mcp.portals.model import METADATA, Format, NewColumn, OnConflict, Table
from memory_mcp.workers.process import WorkerProcess

TEMPORARY = "_import_"  # what the names of unfinished tables start with
LONGEST_TEXT = 1024 * 1024  # bytes
RESTORED = "restored"  # the database a file is opened in


@dataclass(frozen=True)
class Target:
    """The portal that an import goes to. The caller holds its turn."""

    line: EngineLine
    on_conflict: OnConflict  # what becomes of tables that are there
    note_schema: Callable[[EngineLine, str], None]  # of a table that came or changed
    put_in_place: Callable[[Sequence[StagedTable]], None]
    take_labels: Callable[[Mapping[str, str]], None]  # of the metadata of a portal file
    is_unfinished: Callable[[], bool]  # whether staged tables are still on their way to their places

    def check_conflicts(self, names: Iterable[str], known: Iterable[str]) -> None:
        """Raises Conflict if tables are there that the caller has not said what to do about."""
        there = sorted({*names} & {*known})
        if there and self.on_conflict == "refuse":
            raise Conflict(
                f"onConflict: this portal has {', '.join(map(repr, there))} already, and nothing was changed. Give "
                "append to add the rows of the file, or replace to have its tables instead.",
                field="onConflict",
                tables=there,
            )

    def clear(self) -> None:
        """Drop what imports that did not end have left."""
        if not self.is_unfinished():
            storage.drop_left_behind(self.line, TEMPORARY, RESTORED)

    def staged(self, name: str, table: str) -> StagedTable:
        uuid = storage.table_uuid(self.line, name)
        if uuid is None:
            raise EngineError("A staged table is missing.", 0)
        return StagedTable(name, uuid, table)


def temporary_name() -> str:
    return f"{TEMPORARY}{uuid4().hex}"


@contextmanager
def staged(folder: PortalFolder, ending: str, beginning: str = "") -> Iterator[Path]:
    """A file that the engine may read and write, and that does not stay."""
    path = folder.path / "staging" / f"{beginning}{uuid4().hex}{ending}"
    make_private_folder(path.parent)
    try:
        yield path
    except FileNotFoundError:
        if path.parent.exists():
            raise
        raise NotFound("This portal was deleted meanwhile.", field="portalUri") from None
    finally:
        path.unlink(missing_ok=True)


def table_name(source: str, given: str | None) -> str:
    """The table named, or one called as the file is."""
    if given is not None:
        return given
    stem = Path(source).name.split(".")[0]
    if not TABLE.fullmatch(stem) or stem.startswith("_"):
        raise Invalid(f"table: a table cannot be called {stem!r}, as the file is. Name one.", field="table")
    return stem


@dataclass(frozen=True)
class Arrival:
    """A file that is being imported, with the process that inspects it and what the import may use."""

    path: Path  # in staging
    format: Format
    worker: WorkerProcess
    budget: ImportBudget
    cancelled: threading.Event | None

    def limited_line(self, line: EngineLine) -> EngineLine:
        """For statements on the file and what came of it: they stop at a limit, and when the caller leaves."""
        size = self.path.stat().st_size
        return line.until(self.cancelled).within(lambda: self.budget.engine_limits(size), self._check_time)

    @property
    def max_rows(self) -> int:
        return self.budget.limits.rows

    @property
    def max_expanded_bytes(self) -> int:
        return self.budget.max_expanded_bytes(self.path.stat().st_size)

    def check_amount(self, rows: int, expanded_bytes: int) -> None:
        """Raises LimitReached if the file holds more than it may."""
        if rows > self.max_rows or expanded_bytes > self.max_expanded_bytes:
            raise LimitReached("The file holds too much.", is_time=False)

    def _check_time(self) -> None:
        if self.budget.seconds_left() <= 0:
            raise LimitReached("The import took too long.", is_time=True)


def load(target: Target, arrival: Arrival, table: str, mapping: Mapping[str, str]) -> int:
    """Add the records of a prepared file to a table, which is made if it is missing: all of them or none."""
    target.clear()
    known = next((one for one in storage.tables(target.line) if one.name == table), None)
    target.check_conflicts([table], [table] if known else [])
    if known is None or target.on_conflict != "replace":
        count, is_changed = _load_into(target.line, arrival, table, known, table, mapping)
        if is_changed:
            target.note_schema(target.line, table)
        return count
    try:
        staged = temporary_name()
        count, _ = _load_into(target.line, arrival, table, None, staged, mapping)
        target.put_in_place([target.staged(staged, table)])
    finally:
        target.clear()
    return count


StageFile = Callable[[str], AbstractContextManager[Path]]
"""A place for a file with this ending that does not stay."""


def load_zip(target: Target, packed: Arrival, files: Mapping[str, str], stage_file: StageFile) -> tuple[list[str], int]:
    """Add the records of the files of a zip, by their tables, all or none."""
    target.clear()
    known = {table.name: table for table in storage.tables(target.line)}
    target.check_conflicts(files, known)
    extended = known if target.on_conflict == "append" else {}
    staged, total, budget = [], 0, packed.budget
    try:
        for table, file in files.items():
            with stage_file(PurePath(file).suffix) as path:
                packed.worker.call(zips.extract, packed.path, file, path)
                if packed.format != "parquet":
                    packed.worker.call(inspection.prepare, path, packed.format)
                arrival = replace(packed, path=path, budget=budget)
                one, count, size = _stage_records(target, arrival, table, extended.get(table))
            staged.append(one)
            total, budget = total + count, budget.without(count, size)
        check_not_cancelled(packed.cancelled)
        target.put_in_place(staged)
    finally:
        target.clear()
    return list(files), total


def _stage_records(target: Target, arrival: Arrival, table: str, known: Table | None) -> tuple[StagedTable, int, int]:
    """The records of a file under a temporary name, after the rows of the table that is `known`. How many, and what
    they take up."""
    line, name, before = target.line, temporary_name(), 0
    if known is not None:
        storage.make_like(line, name, table)
        storage.link_rows(line, table, name)
        before = storage.held_bytes(line, name)
    count, _ = _load_into(line, arrival, table, known, name, {})
    return target.staged(name, table), count, storage.held_bytes(line, name) - before


def _load_into(
    line: EngineLine, arrival: Arrival, table: str, known: Table | None, name: str, mapping: Mapping[str, str]
) -> tuple[int, bool]:
    """Add the records of a prepared file to what is, or will be, `table` and is now called `name`; it is made unless
    `known`. How many, and whether the table has new columns."""
    path, format_ = arrival.path, arrival.format
    stopping = arrival.limited_line(line)
    try:
        if format_ == "json":
            found, columns, wanted = _inspect_json(arrival, mapping, table, known)
        else:
            if format_ == "parquet":
                _check_parquet(stopping, arrival)
            found = storage.file_columns(stopping, str(path), format_)
            columns = inspection.map_columns(list(found), mapping)
            wanted = _wanted(stopping, path, format_, found, columns, table, known)
    except (EngineError, UnicodeDecodeError) as exc:
        said = f" {exc}" if isinstance(exc, EngineError) else ""
        raise Invalid(f"source: this cannot be read as {format_}.{said}", field="source") from exc
    types = {column.name: column.type for column in known.columns} if known else {}
    types |= {column.name: column.type for column in wanted}
    read_as = {name: types[target] for name, target in columns.items()}
    temporary = temporary_name()
    try:
        with storage.widened(line, name, known, wanted):
            storage.make_like(line, temporary, name)
            defaults = storage.defaults(line, name)
            sure = [name for name, kind in read_as.items() if format_ == "parquet" and _same(found[name], kind)]
            storage.load_file(stopping, temporary, str(path), format_, columns, read_as, sure, defaults)
            count = storage.row_count(line, temporary)
            arrival.check_amount(count, 0)  # the engine stops at a block of rows, not at a row
            _check_texts(stopping, path, format_, temporary, columns, types)
            _check_numbers(stopping, path, format_, temporary, columns, types)
            check_not_cancelled(arrival.cancelled)
            storage.add_all(line, name, temporary)
    except EngineError as exc:
        if exc.code == storage.NULL:
            raise Invalid(f"source: every record of {table!r} needs an {inference.KEY!r}.", field="source") from exc
        said = _misfit(stopping, arrival, read_as) or words.misfit(str(exc), 1)
        raise Invalid(f"source: {said} Nothing was imported.", field="source") from exc
    finally:
        storage.drop_table(line, temporary)
    return count, bool(wanted)


def _inspect_json(
    arrival: Arrival, mapping: Mapping[str, str], table: str, known: Table | None
) -> tuple[dict[str, str], dict[str, str], list[NewColumn]]:
    """The columns of a JSON file with their types, where each goes to, and which of those a table needs first."""
    usual = [] if known else list(inference.WELL_KNOWN.get(table, ()))
    there = {column.name: column.type for column in (*(known.columns if known else ()), *usual)}
    seen = arrival.worker.call(
        inspection.inspect_json, arrival.path, dict(mapping), there, arrival.max_rows, arrival.max_expanded_bytes
    )
    return seen["found"], seen["columns"], [*usual, *(NewColumn(*column) for column in seen["new"])]


def _check_parquet(line: EngineLine, arrival: Arrival) -> None:
    """Raises LimitReached for a file that holds too much, as it states itself or as the engine finds."""
    about = storage.parquet_metadata(line, str(arrival.path))
    inspection.check_column_count(about.columns)
    arrival.check_amount(about.rows, about.bytes)
    storage.read_through(line, str(arrival.path), "parquet", arrival.max_rows, arrival.max_expanded_bytes)


def _misfit(line: EngineLine, arrival: Arrival, types: Mapping[str, str]) -> str | None:
    """Which value does not fit its column, if that can be found out: the engine does not always say."""
    found: tuple[str, int] | None = None
    if arrival.format == "csv":
        with suppress(EngineError):
            misfits = storage.misfits(line, str(arrival.path), types)
            found = min(misfits.items(), key=lambda one: one[1], default=None)
    elif arrival.format == "json":
        found = arrival.worker.call(inspection.find_json_misfit, arrival.path, dict(types))
    return f"{found[0]!r} of record {found[1]} does not fit its column." if found else None


def _check_numbers(
    line: EngineLine, path: Path, format_: Format, table: str, columns: Mapping[str, str], types: Mapping[str, str]
) -> None:
    """Raises Invalid for what is no number, and for whole numbers that a column of fractions would round."""
    fractions = {name: target for name, target in columns.items() if "Float" in types[target]}
    if (bad := storage.no_number(line, table, {target: types[target] for target in fractions.values()})) is not None:
        raise Invalid(f"source: {bad!r} holds NaN or infinity. Leave them out, or give null.", field="source")
    if format_ == "csv" and (bad := storage.rounded(line, str(path), columns, fractions)) is not None:
        raise Invalid(
            f"source: {bad!r} holds a whole number that its column of fractions would round. Import it as texts.",
            field="source",
        )


def _check_texts(
    line: EngineLine, path: Path, format_: Format, table: str, columns: Mapping[str, str], types: Mapping[str, str]
) -> None:
    """Raises Invalid for what no record may hold: a text over 1 MiB, and bytes that are no text."""
    came = {target: types[target] for target in columns.values()}
    too_long, no_text = storage.unfit_texts(line, table, came, LONGEST_TEXT)
    if no_text is not None:
        raise Invalid(f"source: {no_text!r} holds bytes that are not UTF-8. Give them as base64.", field="source")
    if too_long is not None:
        name = next(name for name, target in columns.items() if target == too_long)
        number = storage.first_too_long(line, str(path), format_, name, types[too_long], LONGEST_TEXT)
        raise Invalid(
            f"source: {name!r} of record {number} is over 1 MiB. Shorten it, or split it over several records.",
            word="too_large",
            field="source",
        )


def _same(seen: str, kind: str) -> bool:
    """Whether two types are one, but for null."""
    return seen in (kind, f"Nullable({kind})") or kind == f"Nullable({seen})"


def _wanted(
    line: EngineLine,
    path: Path,
    format_: Format,
    found: Mapping[str, str],
    columns: Mapping[str, str],
    table: str,
    known: Table | None,
) -> list[NewColumn]:
    """The columns that a table needs for a CSV or Parquet file, with types by the rule for records."""
    usual = [] if known else list(inference.WELL_KNOWN.get(table, ()))
    there = {column.name for column in (*(known.columns if known else ()), *usual)}
    new = [name for name, target in columns.items() if target not in there]
    texts = [name for name in new if found[name] == "Nullable(String)"]
    with_null = storage.lists_with_null(line, str(path), format_, {name: found[name] for name in new})
    key = next((name for name in new if columns[name] == inference.KEY), None)
    if key is not None and storage.has_null(line, str(path), format_, found, key):
        with_null.add(key)
    if format_ == "csv" and (wide := storage.too_wide(line, str(path), found, new)) is not None:
        raise Invalid(f"source: {wide!r} holds a number wider than 64 bits. Write it as a text.", field="source")
    seen = dict(found)
    seen |= dict.fromkeys(storage.uuid_columns(line, str(path), format_, texts), "UUID")
    if format_ == "csv":
        seen |= dict.fromkeys(storage.codes(line, str(path), found), "Nullable(String)")
    of_texts = format_ != "parquet"
    return usual + [
        NewColumn(
            columns[name],
            inference.column_type(seen[name], columns[name], of_texts=of_texts, has_null=name in with_null),
        )
        for name in new
    ]


def open_file(target: Target, arrival: Arrival, only: str | None) -> tuple[list[str], int]:
    """Take in a portal's file, all or nothing: its tables, or one of them. Other tables of the portal stay."""
    line, path, stopping = target.line, arrival.path, arrival.limited_line(target.line)
    try:
        arrival.worker.call(archive.verify, path)
        line.check_archive(path.name)
    except archive.Damaged as exc:
        raise Invalid(f"source: {exc} Nothing was changed.", field="source") from exc
    target.clear()
    try:
        storage.restore(stopping, str(path), RESTORED)
        line.check_restored(RESTORED)
        _check_restored_size(line, arrival)
        found = storage.restored_tables(line, RESTORED)
        if only is not None and only not in found:
            raise NotFound(f"table: the file has no table {only!r}. It has: {', '.join(found)}.", field="table")
        chosen = {name: columns for name, columns in found.items() if only in (None, name)}
        known = {table.name: table for table in storage.tables(line)}
        target.check_conflicts(chosen, known)
        extended = known if target.on_conflict == "append" else {}
        for name, columns in chosen.items():
            _check_taking(stopping, name, columns, extended.get(name))
        for name in chosen:
            storage.retype_free_columns(stopping, RESTORED, name)
        count = sum(storage.row_count(line, name, RESTORED) for name in chosen)
        staged = [_stage(target, stopping, name, columns, extended.get(name)) for name, columns in chosen.items()]
        check_not_cancelled(arrival.cancelled)
        target.put_in_place(staged)
        with suppress(EngineError):  # another program wrote it in its own way, or left it out
            target.take_labels(storage.metadata(line, RESTORED))
        return list(chosen), count
    except archive.Damaged as exc:
        raise Invalid(f"source: {exc} Nothing was changed.", field="source") from exc
    except EngineError as exc:
        raise Invalid("source: the tables in this portal file cannot be opened.", field="source") from exc
    finally:
        target.clear()


def _check_restored_size(line: EngineLine, arrival: Arrival) -> None:
    """Raises LimitReached for tables that hold too much: the file is compressed."""
    about = storage.restored_size(line, RESTORED)
    arrival.check_amount(about.rows, about.bytes)


def open_whole(line: EngineLine, worker: WorkerProcess, path: Path) -> int:
    """Make a portal of its file, its own description included, where nothing is yet. How many rows it holds."""
    try:
        worker.call(archive.verify, path)
        line.check_archive(path.name)
        storage.drop_left_behind(line, TEMPORARY, RESTORED)
        storage.restore(line, str(path), RESTORED)
        line.check_restored(RESTORED)
        found = storage.restored_tables(line, RESTORED)
        for name, columns in found.items():
            _check_taking(line, name, columns, None)
        for name in (METADATA, *found):
            storage.retype_free_columns(line, RESTORED, name)
        with ExitStack() as undoing:
            for name in (METADATA, *found):
                undoing.enter_context(storage.taken(line, RESTORED, name))
        return sum(storage.row_count(line, name) for name in found)
    except archive.Damaged as exc:
        raise Invalid(str(exc)) from exc
    except EngineError as exc:
        raise Invalid("The tables in this portal file cannot be opened.") from exc
    finally:
        storage.drop_left_behind(line, TEMPORARY, RESTORED)


def _check_taking(line: EngineLine, table: str, columns: Mapping[str, str], known: Table | None) -> None:
    """Raises Invalid for a table that cannot be taken in whole. Comes before anything is changed."""
    if not TABLE.fullmatch(table) or not all(map(COLUMN.fullmatch, columns)):
        raise Invalid(f"source: a table cannot be called {table!r}, or a column as one in it is.", field="source")
    if not storage.is_whole(line, table, RESTORED):
        raise Invalid(f"source: the table {table!r} in this portal file is damaged.", field="source")
    for name, kind in columns.items():
        there = known.column(name) if known else None
        if there is not None and there.type not in (kind, f"Nullable({kind})"):
            raise Invalid(
                f"source: {name!r} of {table!r} is {kind} in the file and {there.type} here. Nothing was changed.",
                field="source",
            )
    key = known.column(inference.KEY) if known else None
    if key is not None and key.primary and key.name not in columns and not storage.has_default(line, table, key.name):
        raise Invalid(
            f"source: every record of {table!r} needs an {key.name!r}, and those in the file have none. Nothing was "
            "changed.",
            field="source",
        )


def _stage(
    target: Target, stopping: EngineLine, table: str, columns: Mapping[str, str], known: Table | None
) -> StagedTable:
    """A restored table under a temporary name, after the rows of the one that is `known`."""
    line, name = target.line, temporary_name()
    if known is None:
        storage.move_restored(line, RESTORED, table, name)
        return target.staged(name, table)
    storage.make_like(line, name, table)
    storage.link_rows(line, table, name)
    if new := [NewColumn(*column) for column in columns.items() if known.column(column[0]) is None]:
        storage.add_columns(line, name, new)
    added = temporary_name()
    storage.make_like(line, added, name)
    storage.copy_rows(stopping, RESTORED, table, added, list(columns))
    storage.add_all(line, name, added)
    return target.staged(name, table)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
