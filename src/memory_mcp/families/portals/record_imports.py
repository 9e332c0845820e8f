"""Records of JSON, CSV and Parquet files, alone or in a zip, into tables of a portal."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.chdb import error_messages
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import Invalid
from memory_mcp.families.portals import inference, inspection, storage, wider_types, zip_files
from memory_mcp.families.portals.address import TABLE
from memory_mcp.families.portals.import_context import ImportTarget, SourceFile, new_table_name
from memory_mcp.families.portals.journal import StagedTable
from memory_mcp.families.portals.model import (
    NO_CHOICES,
    ColumnChoices,
    FileColumn,
    FileFormat,
    ImportPreview,
    NewColumn,
    Table,
)
from memory_mcp.families.portals.record_writer import check_not_rounded, is_key_needed, renaming_notices
from memory_mcp.families.portals.wider_types import Widened

MAX_TEXT_BYTES = 1024 * 1024


def table_name(source: str, given: str | None) -> str:
    """The table that the caller named, or the file's name. Raises Invalid for a file whose name no table can have."""
    if given is not None:
        return given
    stem = Path(source).name.split(".")[0]
    if not TABLE.fullmatch(stem) or stem.startswith("_"):
        raise Invalid(f"table: a table cannot be called {stem!r}, as the file is. Name one.", field="table")
    return stem


@dataclass(frozen=True)
class _FileColumns:
    """The columns of a file, and what a table needs for them."""

    types: Mapping[str, str]  # as they are in the file
    targets: Mapping[str, str]  # where each goes to
    wanted: Sequence[NewColumn]  # what the table lacks
    widened: Sequence[Widened]  # what gets a wider type in the table
    converts_to_text: bool = False  # numbers of a JSON file may become texts, as the caller chose

    def notices(self, choices: ColumnChoices) -> list[str]:
        renamed = {name: to for name, to in self.targets.items() if name != to and name not in choices.names}
        return [*renaming_notices(renamed), *map(str, self.widened)]

    def types_in(self, known: Table | None) -> dict[str, str]:
        """The type of each column of the table, with those that it lacks."""
        there = {column.name: column.type for column in known.columns} if known else {}
        return there | {column.name: column.type for column in self.wanted}


def preview(engine: PortalEngine, source: SourceFile, table: str, choices: ColumnChoices) -> ImportPreview:
    """The columns of a prepared file as they would be imported, and its first rows. Changes nothing."""
    known = next((one for one in storage.tables(engine) if one.name == table), None)
    limited = source.limited_engine(engine)
    columns = _inspect(limited, source, choices, table, known)
    types = columns.types_in(known)
    shown = [FileColumn(name, to, inference.plain_type(types[to])) for name, to in columns.targets.items()]
    try:
        rows = storage.first_rows(limited, str(source.path), source.format, [column.name for column in shown])
    except EngineError as exc:
        raise Invalid(f"source: {error_messages.misfit(str(exc), 1)}", field="source") from exc
    return ImportPreview(shown, rows)


def load(
    target: ImportTarget, source: SourceFile, table: str, choices: ColumnChoices
) -> tuple[dict[str, int], list[str]]:
    """Add the records of a prepared file to a table, which is made if it is missing: all of them or none. Returns how
    many records the table got, and notices."""
    target.drop_leftovers()
    known = target.tables.get(table)
    target.check_conflicts([table], [table] if known else [])
    extended = None if target.replaces else known
    columns = _inspect(source.limited_engine(target.engine), source, choices, table, extended)
    if known is extended and not columns.widened:
        count = _load_into(target, source, table, known, table, columns)
        if columns.wanted:
            target.record_schema(target.engine, table)
    else:
        try:
            staged, count, _ = _stage_records(target, source, table, extended, columns)
            target.rename_staged([staged])
        finally:
            target.drop_leftovers()
    return {table: count}, columns.notices(choices)


StageFile = Callable[[str], AbstractContextManager[Path]]
"""Gives the path of a temporary file with this ending."""


def load_zip(
    target: ImportTarget, archive: SourceFile, files: Mapping[str, str], stage_file: StageFile
) -> tuple[dict[str, int], list[str]]:
    """Add the records of all files of a zip, or of none. `files` has the file of each table. Returns how many records
    each table got, and notices."""
    target.drop_leftovers()
    target.check_conflicts(files, target.tables)
    extended = target.tables if target.on_conflict == "append" else {}
    counts: dict[str, int] = {}
    staged, notices, budget = [], [], archive.budget
    try:
        for table, file in files.items():
            with stage_file(PurePath(file).suffix) as path:
                archive.worker.call(zip_files.extract, archive.path, file, path)
                if archive.format != "parquet":
                    archive.worker.call(inspection.prepare, path, archive.format)
                source = replace(archive, path=path, budget=budget)
                former = extended.get(table)
                columns = _inspect(source.limited_engine(target.engine), source, NO_CHOICES, table, former)
                one, count, size = _stage_records(target, source, table, former, columns)
            staged.append(one)
            notices += [f"{table}: {notice}" for notice in columns.notices(NO_CHOICES)]
            counts[table], budget = count, budget.without(count, size)
        check_not_cancelled(archive.cancelled)
        target.rename_staged(staged)
    finally:
        target.drop_leftovers()
    return counts, notices


def _stage_records(
    target: ImportTarget, source: SourceFile, table: str, known: Table | None, columns: _FileColumns
) -> tuple[StagedTable, int, int]:
    """Load a file into a table with a temporary name, which begins with the rows of the `known` table. Returns that
    table, how many records the file holds, and how many bytes they take up."""
    engine, name, before = target.engine, new_table_name(), 0
    if known is not None:
        storage.create_like(engine, name, table)
        storage.link_rows(engine, table, name)
        known = _widen(engine, name, known, columns.widened)
        before = storage.uncompressed_bytes(engine, name)
    count = _load_into(target, source, table, known, name, columns)
    return target.staged_table(name, table), count, storage.uncompressed_bytes(engine, name) - before


def _widen(engine: PortalEngine, name: str, known: Table, widened: Sequence[Widened]) -> Table:
    """Give columns of a copy of a known table, called `name`, other types. Returns the table as it is then."""
    if not widened:
        return known
    check_not_rounded(engine, known, widened, "source")
    types = {column.name: column.type for column in widened}
    storage.modify_columns(engine, name, types)
    return replace(
        known, columns=[replace(column, type=types.get(column.name, column.type)) for column in known.columns]
    )


def _load_into(
    target: ImportTarget, source: SourceFile, table: str, known: Table | None, name: str, inspected: _FileColumns
) -> int:
    """Add the records of a prepared file to the table that is called `name` now, and `table` once the import ends. It
    is created unless it is `known`. Returns the number of records."""
    engine, path, format_ = target.engine, source.path, source.format
    stopping = source.limited_engine(engine)
    found, columns, wanted = inspected.types, inspected.targets, inspected.wanted
    types = inspected.types_in(known)
    read_as = {name: types[target] for name, target in columns.items()}
    temporary = new_table_name()
    try:
        with storage.widen_table(engine, name, known, wanted):
            mark = target.mark if storage.add_marks(engine, name) else None
            storage.create_like(engine, temporary, name)
            defaults = storage.defaults(engine, name)
            declared = [name for name, kind in read_as.items() if format_ == "parquet" and _same(found[name], kind)]
            file = storage.TableFile(
                str(path), format_, columns, read_as, declared, defaults, inspected.converts_to_text
            )
            storage.load_file(stopping, temporary, file, mark)
            count = storage.row_count(engine, temporary)
            source.check_amount(count, 0)  # the engine stops at a block of rows, not at a row
            _check_texts(stopping, path, format_, temporary, columns, types)
            _check_numbers(stopping, path, format_, temporary, columns, types)
            check_not_cancelled(source.cancelled)
            storage.move_rows(engine, name, temporary)
    except EngineError as exc:
        if exc.code == storage.NULL_ERROR:
            raise Invalid(f"source: every record of {table!r} needs an {inference.KEY!r}.", field="source") from exc
        reason = _misfit(stopping, source, read_as) or error_messages.misfit(str(exc), 1)
        raise Invalid(f"source: {reason} Nothing was imported.", field="source") from exc
    finally:
        storage.drop_table(engine, temporary)
    return count


def _inspect(
    engine: PortalEngine, source: SourceFile, choices: ColumnChoices, table: str, known: Table | None
) -> _FileColumns:
    try:
        columns = _file_columns(engine, source, choices, table, known)
        is_without_key = inference.KEY not in columns.targets.values()
        if is_without_key and is_key_needed(engine, table, columns.types_in(known)):
            raise Invalid(
                f"source: every record of {table!r} needs an {inference.KEY!r}, and those in the file have none. "
                "Nothing was imported. If another column of the file is the id, say so with mapping.",
                field="source",
            )
        return columns
    except (EngineError, UnicodeDecodeError) as exc:
        reason = f" {exc}" if isinstance(exc, EngineError) else ""
        raise Invalid(f"source: this cannot be read as {source.format}.{reason}", field="source") from exc


def _file_columns(
    engine: PortalEngine, source: SourceFile, choices: ColumnChoices, table: str, known: Table | None
) -> _FileColumns:
    if source.format == "json":
        return _inspect_json(source, choices, table, known)
    if source.format == "parquet":
        _check_parquet(engine, source)
    found = storage.file_columns(engine, str(source.path), source.format)
    columns = inspection.map_columns(list(found), choices.names)
    chosen = inspection.chosen_types(columns, choices.types, _usual_types(table, known))
    wanted = _wanted(engine, source.path, source.format, found, columns, chosen, table, known)
    return _FileColumns(found, columns, wanted, _widened(engine, source, found, columns, known))


def _usual_columns(table: str, known: Table | None) -> list[NewColumn]:
    """The columns that a missing table always gets."""
    return [] if known else list(inference.WELL_KNOWN.get(table, ()))


def _usual_types(table: str, known: Table | None) -> dict[str, str]:
    """The types of columns that the table has whatever the file holds."""
    there = (*(known.columns if known else ()), *_usual_columns(table, known))
    return {column.name: column.type for column in there}


def _inspect_json(source: SourceFile, choices: ColumnChoices, table: str, known: Table | None) -> _FileColumns:
    """The columns of a JSON file, which a worker process reads."""
    usual, there = _usual_columns(table, known), _usual_types(table, known)
    fixed = [column.name for column in known.columns if column.primary] if known else list(there)
    seen = source.worker.call(
        *(inspection.inspect_json, source.path, dict(choices.names), dict(choices.types), there, fixed),
        *(source.max_rows, source.max_expanded_bytes),
    )
    wanted = [*usual, *(NewColumn(*column) for column in seen["new"])]
    widened = [Widened(name, there[name], kind) for name, kind in seen["widened"].items()]
    return _FileColumns(seen["found"], seen["columns"], wanted, widened, "String" in choices.types.values())


def _widened(
    engine: PortalEngine,
    source: SourceFile,
    found: Mapping[str, str],
    columns: Mapping[str, str],
    known: Table | None,
) -> list[Widened]:
    """The columns of a known table that need a wider type for a CSV or Parquet file."""
    types = {column.name: column.type for column in known.columns if not column.primary} if known else {}
    path, seen = str(source.path), dict(found)
    if source.format == "csv" and types:
        seen |= {name: inference.date_type(*ends) for name, ends in storage.date_columns(engine, path, found).items()}
    wider = {
        name: kind
        for name, target in columns.items()
        if target in types
        and (kind := wider_types.wider_type_for_file(types[target], seen[name])) not in (None, types[target])
    }
    misfits = storage.misfits(engine, path, source.format, found, {name: types[columns[name]] for name in wider})
    return [Widened(columns[name], types[columns[name]], kind) for name, kind in wider.items() if name in misfits]


def _check_parquet(engine: PortalEngine, source: SourceFile) -> None:
    """Raises LimitExceeded for a file that holds too much, as it states itself or as the engine finds."""
    about = storage.parquet_metadata(engine, str(source.path))
    inspection.check_column_count(about.columns)
    source.check_amount(about.rows, about.bytes)
    storage.read_through(engine, str(source.path), "parquet", source.max_rows, source.max_expanded_bytes)


def _misfit(engine: PortalEngine, source: SourceFile, types: Mapping[str, str]) -> str | None:
    """Which value does not fit its column, if that can be found out: the engine does not always say."""
    if source.format == "json":
        described: str | None = source.worker.call(inspection.find_json_misfit, source.path, dict(types))
        return described
    if source.format != "csv":
        return None
    misfits: dict[str, int] = {}
    with suppress(EngineError):
        misfits = storage.misfits(engine, str(source.path), "csv", types, types)
    name, number = min(misfits.items(), key=lambda one: one[1], default=("", 0))
    return f"{name!r} of record {number} does not fit {inference.plain_type(types[name])}." if number else None


def _check_numbers(
    engine: PortalEngine,
    path: Path,
    format_: FileFormat,
    table: str,
    columns: Mapping[str, str],
    types: Mapping[str, str],
) -> None:
    """Raises Invalid for what is not a number or date, and for whole numbers that a column of fractions would round."""
    fractions = {name: target for name, target in columns.items() if "Float" in types[target]}
    if (bad := storage.no_number(engine, table, {target: types[target] for target in fractions.values()})) is not None:
        raise Invalid(f"source: {bad!r} holds NaN or infinity. Leave them out, or give null.", field="source")
    dates = {name for name, target in columns.items() if inference.plain_type(types[target]) in ("Date", "Date32")}
    if format_ == "csv" and (bad := storage.no_date(engine, str(path), columns, dates)) is not None:
        raise Invalid(f"source: {bad!r} holds a text that is not a date. Write dates like 2026-01-31.", field="source")
    if format_ == "csv" and (bad := storage.rounded(engine, str(path), columns, fractions)) is not None:
        raise Invalid(
            f"source: {bad!r} holds a whole number that its column of fractions would round. Import it as texts.",
            field="source",
        )


def _check_texts(
    engine: PortalEngine,
    path: Path,
    format_: FileFormat,
    table: str,
    columns: Mapping[str, str],
    types: Mapping[str, str],
) -> None:
    """Raises Invalid for what no record may hold: a text over 1 MiB, and bytes that are not text."""
    came = {target: types[target] for target in columns.values()}
    too_long, no_text = storage.unfit_texts(engine, table, came, MAX_TEXT_BYTES)
    if no_text is not None:
        raise Invalid(f"source: {no_text!r} holds bytes that are not UTF-8. Give them as base64.", field="source")
    if too_long is not None:
        name = next(name for name, target in columns.items() if target == too_long)
        number = storage.first_too_long(engine, str(path), format_, name, types[too_long], MAX_TEXT_BYTES)
        raise Invalid(
            f"source: {name!r} of record {number} is over 1 MiB. Shorten it, or split it over several records.",
            code="too_large",
            field="source",
        )


def _same(seen: str, kind: str) -> bool:
    """Whether two types are one, but for null."""
    return seen in (kind, f"Nullable({kind})") or kind == f"Nullable({seen})"


def _wanted(
    engine: PortalEngine,
    path: Path,
    format_: FileFormat,
    found: Mapping[str, str],
    columns: Mapping[str, str],
    chosen: Mapping[str, str],
    table: str,
    known: Table | None,
) -> list[NewColumn]:
    """The columns that a table needs for a CSV or Parquet file, with the chosen types, else by the rule for records."""
    there = _usual_types(table, known)
    wanted = [name for name, target in columns.items() if target not in there]
    new = [name for name in wanted if name not in chosen]
    texts = [name for name in new if found[name] == "Nullable(String)"]
    with_null = storage.lists_with_null(engine, str(path), format_, {name: found[name] for name in new})
    key = next((name for name in new if columns[name] == inference.KEY), None)
    if key is not None and storage.has_null(engine, str(path), format_, found, key):
        with_null.add(key)
    if format_ == "csv" and (wide := storage.too_wide(engine, str(path), found, new)) is not None:
        raise Invalid(f"source: {wide!r} holds a number wider than 64 bits. Write it as a text.", field="source")
    seen = dict(found)
    seen |= dict.fromkeys(storage.uuid_columns(engine, str(path), format_, texts), "UUID")
    if format_ == "csv":
        dates = storage.date_columns(engine, str(path), found)
        seen |= {name: "String" for name in new if found[name] in ("Nullable(Date)", "Nullable(Date32)")}
        seen |= {name: inference.date_type(*ends) for name, ends in dates.items()}
        seen |= dict.fromkeys(storage.code_columns(engine, str(path), found), "Nullable(String)")
    of_texts = format_ != "parquet"
    types = dict(chosen) | {
        name: inference.column_type(seen[name], columns[name], of_texts=of_texts, has_null=name in with_null)
        for name in new
    }
    return _usual_columns(table, known) + [NewColumn(columns[name], types[name]) for name in wanted]
