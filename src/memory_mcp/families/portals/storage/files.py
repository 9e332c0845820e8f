"""Files that the engine reads: their columns, and their rows as rows of a table."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals.inference import KEY
from memory_mcp.families.portals.model import FileSize
from memory_mcp.families.portals.storage.expressions import (
    CONVERTING_SETTINGS,
    FORMATS,
    INFERENCE_SETTINGS,
    STRICT_SETTINGS,
    TEXT_TYPES,
    quote,
)
from memory_mcp.families.portals.storage.file_checks import IS_DATE, file_groups
from memory_mcp.families.portals.storage.row_marks import ALLOW_MARKS
from memory_mcp.families.portals.storage.rows import fill_table

_INTEGER = re.compile(r"\bU?Int(8|16|32|64|128)\b")
_IN_NFC = "if(isValidUTF8({}), normalizeUTF8NFC({}), {})"
SAMPLE_ROWS = 1000  # of a file; columns that fit in them are checked in all rows
MAX_PREVIEW_ROWS = 20
MAX_PREVIEW_CHARS = 200  # of a value


def file_columns(engine: PortalEngine, path: str, format_: str) -> dict[str, str]:
    """The columns of a file and the types the engine sees in them."""
    rows = engine.rows(f"DESCRIBE TABLE file({literal(path)}, '{FORMATS[format_]}') SETTINGS {INFERENCE_SETTINGS}")
    return {row["name"]: row["type"] for row in rows}


def first_rows(engine: PortalEngine, path: str, format_: str, names: Sequence[str]) -> list[list[str | None]]:
    """The first rows of a file, as text."""
    values = ", ".join(
        f"leftUTF8(toString({quote(name)}), {MAX_PREVIEW_CHARS}) AS c{at}" for at, name in enumerate(names)
    )
    source = _csv_as_text(path, names) if format_ == "csv" else f"file({literal(path)}, '{FORMATS[format_]}')"
    rows = engine.rows(f"SELECT {values} FROM {source} LIMIT {MAX_PREVIEW_ROWS} SETTINGS {INFERENCE_SETTINGS}")
    return [[row[f"c{at}"] for at in range(len(names))] for row in rows]


def parquet_metadata(engine: PortalEngine, path: str) -> FileSize:
    """The size of a Parquet file, as its metadata state it."""
    (row,) = engine.rows(
        "SELECT num_columns AS columns, num_rows AS rows, total_uncompressed_size AS bytes "
        f"FROM file({literal(path)}, 'ParquetMetadata') SETTINGS output_format_json_quote_64bit_integers = 0"
    )
    return FileSize(**row)


def read_through(engine: PortalEngine, path: str, format_: str, max_rows: int, max_bytes: int) -> None:
    """Read all of a file and keep nothing. The engine stops at more rows or bytes than these, as it holds them; of an
    INSERT it would count the bytes of the file."""
    engine.run(
        f"SELECT * FROM file({literal(path)}, '{FORMATS[format_]}') FORMAT Null "
        f"SETTINGS max_result_rows = {max_rows}, max_result_bytes = {max_bytes}, result_overflow_mode = 'throw'"
    )


def uuid_columns(engine: PortalEngine, path: str, format_: str, names: Sequence[str]) -> set[str]:
    """Those of a file's text columns that hold UUIDs only."""
    file = f"file({literal(path)}, '{FORMATS[format_]}')"
    found: set[str] = set()
    for some in file_groups(names):
        sample = ", ".join(map(quote, some))
        likely = _only_uuids(engine, f"(SELECT {sample} FROM {file} LIMIT {SAMPLE_ROWS})", some, min_count=0)
        found |= _only_uuids(engine, file, likely, min_count=1) if likely else set()
    return found


def _only_uuids(engine: PortalEngine, source: str, names: Iterable[str], *, min_count: int) -> set[str]:
    """The columns with at least `min_count` values, all of them UUIDs."""
    names = list(names)
    expressions = ", ".join(
        f"count({column}) >= {min_count} AND count({column}) = countIf(toUUIDOrNull({column}) IS NOT NULL) AS c{number}"
        for number, column in enumerate(map(quote, names))
    )
    (row,) = engine.rows(f"SELECT {expressions} FROM {source} SETTINGS {INFERENCE_SETTINGS}")
    return {name for number, name in enumerate(names) if row[f"c{number}"]}


def date_columns(engine: PortalEngine, path: str, columns: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Those of a CSV file's columns that hold dates only, with the first and the last of them."""
    likely = [name for name, kind in columns.items() if kind.startswith("Nullable(Date")]
    found: dict[str, tuple[str, str]] = {}
    for some in file_groups(likely):
        expressions = ", ".join(
            f"countIf(NOT {IS_DATE.replace('{}', column)}) = 0 AS c{number}, "
            f"ifNull(min({column}), '') AS first{number}, ifNull(max({column}), '') AS last{number}"
            for number, column in enumerate(map(quote, some))
        )
        (row,) = engine.rows(f"SELECT {expressions} FROM {_csv_as_text(path, columns)}")
        found |= {
            name: (row[f"first{number}"], row[f"last{number}"]) for number, name in enumerate(some) if row[f"c{number}"]
        }
    return found


def code_columns(engine: PortalEngine, path: str, columns: Mapping[str, str]) -> set[str]:
    """Those of a CSV file's columns that look like whole numbers and are none: 01234 and +49 would lose a character."""
    numbers = [name for name, kind in columns.items() if kind == "Nullable(Int64)"]
    found: set[str] = set()
    for some in file_groups(numbers):
        expressions = ", ".join(
            f"countIf({column} <> toString(toInt64OrNull({column}))) > 0 AS c{number}"
            for number, column in enumerate(map(quote, some))
        )
        (row,) = engine.rows(f"SELECT {expressions} FROM {_csv_as_text(path, columns)}")
        found |= {name for number, name in enumerate(some) if row[f"c{number}"]}
    return found


def _csv_as_text(path: str, names: Iterable[str]) -> str:
    """A CSV file whose values are read as they are in it: 01234 is not a number."""
    structure = ", ".join(f"{quote(name)} Nullable(String)" for name in names)
    return f"file({literal(path)}, '{FORMATS['csv']}', {literal(structure)})"


@dataclass(frozen=True)
class TableFile:
    """A file, and how its columns become those of a table."""

    path: str
    format: str
    columns: Mapping[str, str]  # the table's column for each of the file's
    types: Mapping[str, str]  # that each is read as
    declared: Collection[str]  # the file's columns whose type the file itself states
    defaults: Mapping[str, str]  # the values for columns of the table where the file has none
    converts_to_text: bool  # whether numbers and booleans of JSON may become texts


def load_file(engine: PortalEngine, table: str, file: TableFile, mark: int | None) -> None:
    """Read a file into an empty table. A missing key without a default is refused. The rows get the mark, if there is
    one."""
    types = file.types
    # The engine wraps what is too wide, and takes null for zero.
    read_types = {
        name: types[name] if name in file.declared else _INTEGER.sub("Int256", types[name]) for name in file.columns
    }
    for name, target in file.columns.items():
        if (target == KEY or target in file.defaults) and not types[name].startswith(("Nullable", "Array", "JSON")):
            read_types[name] = f"Nullable({read_types[name]})"
    structure = literal(", ".join(f"{quote(name)} {read_types[name]}" for name in file.columns))
    chosen = ", ".join(
        _column_value(name, read_types[name], types[name], file.defaults.get(target), is_text=file.format == "parquet")
        for name, target in file.columns.items()
    )
    strict = {**STRICT_SETTINGS, **(CONVERTING_SETTINGS if file.converts_to_text else {})}
    settings = ", ".join(
        f"{name} = {value}" for name, value in strict.items() if name != "input_format_skip_unknown_fields"
    )
    into, marks = ", ".join(map(quote, file.columns.values())), ""
    if mark is not None:
        into, chosen, marks = f"{into}, {MARK_COLUMN}", f"{chosen}, {mark}", f", {ALLOW_MARKS}"
    fill_table(
        engine,
        table,
        f"""
        INSERT INTO {quote(table)} ({into})
        SETTINGS {settings}{marks}, date_time_input_format = 'best_effort', date_time_overflow_behavior = 'throw'
        SELECT {chosen} FROM file({literal(file.path)}, '{FORMATS[file.format]}', {structure})
        """,
    )


def _column_value(name: str, read_type: str, type_: str, default: str | None, *, is_text: bool) -> str:
    """A column of a file as one of its table. `is_text` is whether texts are not known to be in NFC."""
    value = quote(name)
    if is_text and type_ in TEXT_TYPES:
        value = (
            f"arrayMap(t -> {_IN_NFC.replace('{}', 't')}, {value})"
            if type_.startswith("Array")
            else _IN_NFC.replace("{}", value)
        )
    if default is not None and read_type.startswith("Nullable("):
        value = f"ifNull({value}, {default})"
    return value if read_type == type_ else f"accurateCast({value}, {literal(type_)})"
