"""SQL of a portal: its tables, its records, and the table that says what it is."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, ClassVar
from uuid import uuid4

from memory_mcp.engines.chdb.client import MAX_ATTEMPTS, EngineError, EngineLine, Interrupted
from memory_mcp.engines.chdb.frames import UNFINISHED_COPY
from memory_mcp.engines.chdb.parameters import literal, prepared, ticks
from memory_mcp.engines.chdb.sql_policy import DATABASE
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.families.portals.address import RowRange
from memory_mcp.families.portals.inference import KEY, WELL_KNOWN
from memory_mcp.families.portals.model import METADATA, Column, FileSize, NewColumn, Record, Table

# A record that does not fit is refused: nothing is bent, nothing is dropped, and none of its batch stays.
_STRICT = {
    "input_format_skip_unknown_fields": 0,
    "input_format_json_read_numbers_as_strings": 0,
    "input_format_json_read_bools_as_numbers": 0,
    "input_format_json_read_bools_as_strings": 0,
    "input_format_json_read_arrays_as_strings": 0,
    "input_format_json_read_objects_as_strings": 0,
    "input_format_try_infer_dates": 0,  # a text inside of an object stays the text it is
    "input_format_try_infer_datetimes": 0,
    "input_format_parallel_parsing": 0,
    "max_insert_block_size": 10_000_000,
    "async_insert": 0,
}
STAGED_PREFIX = "_import_"  # of the names of tables that an import has not finished
RESTORED = "restored"  # the database that a portal file is opened in


def tables(line: EngineLine) -> list[Table]:
    """All of them, but not the one that says what the portal is."""
    columns: dict[str, list[Column]] = {}
    for row in line.rows(
        "SELECT table, name, type, is_in_primary_key FROM system.columns WHERE database = 'portal' "
        "AND NOT startsWith(table, '_') ORDER BY table, position"
    ):
        columns.setdefault(row["table"], []).append(Column(row["name"], row["type"], bool(row["is_in_primary_key"])))
    sizes = line.rows(
        """
        SELECT name, toUInt64(ifNull(total_rows, 0)) AS rows, toUInt64(ifNull(total_bytes, 0)) AS bytes
        FROM system.tables WHERE database = 'portal' AND NOT startsWith(name, '_') ORDER BY name
        SETTINGS output_format_json_quote_64bit_integers = 0
        """
    )
    # One that has come or gone between the two statements is left out.
    return [
        Table(row["name"], row["rows"], row["bytes"], columns[row["name"]]) for row in sizes if row["name"] in columns
    ]


def create_table(line: EngineLine, name: str, columns: Sequence[NewColumn]) -> None:
    cannot = ("Nullable", "Array", "JSON")
    has_key = any(column.name == KEY and not column.type.startswith(cannot) for column in columns)
    defined = ", ".join(_defined(column) for column in columns)
    order = KEY if has_key else "tuple()"
    line.run(f"CREATE TABLE IF NOT EXISTS {_name(name)} ({defined}) ENGINE = MergeTree ORDER BY {order}")


def has_default(line: EngineLine, table: str, column: str) -> bool:
    return bool(
        line.rows(
            "SELECT 1 FROM system.columns WHERE database = 'portal' AND table = {table:String} "
            "AND name = {column:String} AND default_kind <> ''",
            {"table": table, "column": column},
        )
    )


def add_columns(line: EngineLine, table: str, columns: Sequence[NewColumn]) -> None:
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS {_defined(column)}" for column in columns)
    line.run(f"ALTER TABLE {_name(table)} {added}")


def drop_columns(line: EngineLine, table: str, names: Iterable[str]) -> None:
    dropped = ", ".join(f"DROP COLUMN IF EXISTS {_name(name)}" for name in names)
    line.run(f"ALTER TABLE {_name(table)} {dropped}")


def drop_table(line: EngineLine, table: str) -> None:
    line.run(f"DROP TABLE IF EXISTS {_name(table)} SYNC")


@contextmanager
def widened(line: EngineLine, table: str, known: Table | None, wanted: Sequence[NewColumn]) -> Iterator[None]:
    """A table with the columns that are wanted, made if it is not known. As it was, if the block fails for whatever
    reason: a limit and an engine that does not stay up are reasons, too."""
    try:
        if known is None:
            create_table(line, table, wanted)
        elif wanted:
            add_columns(line, table, wanted)
        yield
    except (EngineError, AppError):
        with suppress(EngineError, AppError):  # the first error is the one to tell
            if known is None:
                drop_table(line, table)
            elif wanted:
                drop_columns(line, table, [column.name for column in wanted])
        raise


def insert(line: EngineLine, table: str, records: Sequence[Record], rows_before: int) -> None:
    """All of them or none, once. The caller has the portal's turn, and says how many rows there are."""
    settings = ", ".join(f"{name} = {value}" for name, value in _STRICT.items())
    data = json.dumps(records, ensure_ascii=False, separators=(",", ":"))  # at once: three times as fast as one by one
    for _ in range(MAX_ATTEMPTS):
        try:
            line.run_once(
                f"INSERT INTO {_name(table)} SETTINGS {settings}, date_time_input_format = 'best_effort' "
                "FORMAT JSONEachRow",
                data.encode(),
            )
        except Interrupted:
            # A token under which they land once (insert_deduplication_token) is no help: the engine notes it before
            # the rows, and one killed in between would have us believe that they are there.
            if row_count(line, table) > rows_before:
                return
        else:
            return
    raise Unavailable("The engine of this portal does not stay up. Look at the log; nothing was written.")


def count(line: EngineLine, table: str, where: "Condition") -> int:
    (row,) = line.rows(
        f"SELECT toUInt64(count()) AS count FROM {_name(table)} WHERE {where.sql} "
        "SETTINGS output_format_json_quote_64bit_integers = 0",
        where.values,
    )
    return int(row["count"])


def delete(line: EngineLine, table: str, where: "Condition") -> None:
    """Replace a table by a copy without the rows that match.

    A mutation (DELETE, ALTER TABLE … DELETE) would leave the values of the condition in a file, and the rows in parts
    that the engine removes later.
    """
    names = ", ".join(map(_name, _insertable_columns(line, table)))
    # One thread, so that rows without a key stay in their order.
    _replace(
        line,
        table,
        f"""
        ({names}) SELECT {names} FROM {_name(table)} WHERE NOT ifNull({where.sql}, 0)
        SETTINGS max_threads = 1, max_insert_threads = 1, max_partitions_per_insert_block = 0
        """,
        where.values,
    )


def _replace(line: EngineLine, table: str, rows: str, parameters: dict[str, Any]) -> None:
    """Replace a table in one step by one that is made like it and has other rows. The former one is gone from the disk
    when this returns.

    `rows` is what follows INSERT INTO. If the engine ends meanwhile, this begins again: the next engine drops the
    unfinished copy. So `rows` must give the same when it is run on its own result.
    """
    for _ in range(MAX_ATTEMPTS):
        copy = f"{UNFINISHED_COPY}{uuid4().hex}"
        make_like(line, copy, table)
        try:
            line.run_once(f"INSERT INTO {_name(copy)} {rows}", parameters=parameters)
            line.run_once(f"EXCHANGE TABLES {_name(copy)} AND {_name(table)}")
        except Interrupted:
            continue
        except EngineError as exc:
            if exc.code != UNKNOWN_TABLE:  # of a copy that the next engine has dropped
                raise
        else:
            return
        finally:
            drop_table(line, copy)
    raise Unavailable("The engine of this portal does not stay up. Look at the log, and see what is still there.")


def _insertable_columns(line: EngineLine, table: str) -> list[str]:
    """Those that are stored and not computed."""
    rows = line.rows(
        "SELECT name FROM system.columns WHERE database = 'portal' AND table = {table:String} "
        "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS', 'EPHEMERAL') ORDER BY position",
        {"table": table},
    )
    return [row["name"] for row in rows]


def _apply_deleted_mask(line: EngineLine, table: str) -> None:
    """Remove rows from the disk that another program has deleted with DELETE."""
    line.run(f"ALTER TABLE {_name(table)} APPLY DELETED MASK SETTINGS mutations_sync = 2")


def page(line: EngineLine, table: Table, asked: RowRange) -> tuple[list[Record], bool]:
    """Some rows of a table, as a resource shows them, and whether the engine left out rows that were too large."""
    moment = time_column(table)
    conditions = ["1"]
    if moment and asked.since:
        conditions.append(f"{_name(moment)} >= {{since:DateTime64(3)}}")
    if moment and asked.until:
        conditions.append(f"{_name(moment)} < {{until:DateTime64(3)}}")
    given = {name: value for name, value in (("since", asked.since), ("until", asked.until)) if value and moment}
    found = line.query(
        f"""
        SELECT * FROM {_name(table.name)} WHERE {" AND ".join(conditions)}
        ORDER BY {_order(table, asked.order or moment)}
        LIMIT {{limit:UInt64}} OFFSET {{offset:UInt64}}
        """,
        {**given, "limit": asked.limit, "offset": asked.offset},
        field="uri",
    )
    names = [column["name"] for column in found["meta"]]
    return [dict(zip(names, row, strict=True)) for row in found["data"]], found["isCut"]


def _order(table: Table, wanted: str | None) -> str:
    """By a column, with a minus for the last first, then by the key and all others: no row is on two pages."""
    direction = " DESC" if wanted and wanted.startswith("-") else ""
    first = wanted.removeprefix("-") if wanted else None
    rest = sorted((column for column in table.columns if column.name != first), key=lambda column: not column.primary)
    parts = [f"{_name(first)}{direction}"] if first else []
    for column in rest:
        is_plain = not re.search("JSON|Dynamic|Variant|Map|Object", column.type)
        parts.append(_name(column.name) if is_plain else f"toString({_name(column.name)})")
    return ", ".join(parts)


def time_column(table: Table) -> str | None:
    """The column that says when: `timestamp`, `created_at`, or the first with a time in it."""
    moments = [column.name for column in table.columns if "DateTime" in column.type]
    return next((name for name in ("timestamp", "created_at") if name in moments), moments[0] if moments else None)


def whole_table(table: str) -> str:
    """The query of a caller who wants all of a table."""
    return f"SELECT * FROM {_name(table)}"


class Condition:
    """Which rows: a column equal to a value, one of several, or compared to some."""

    OPERATORS: ClassVar = {"eq": "=", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "like": "LIKE"}

    def __init__(self, table: Table, where: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] = {}
        self.columns: dict[str, str] = {}  # which column each value is compared with
        parts = [self._part(table, name, value) for name, value in where.items()]
        self.sql = " AND ".join(parts) or "1"

    def _part(self, table: Table, name: str, wanted: Any) -> str:
        column = next(column for column in table.columns if column.name == name)
        if isinstance(wanted, list):
            return "(" + (" OR ".join(self._compared(column, "eq", one) for one in wanted) or "0") + ")"
        if isinstance(wanted, dict):
            return "(" + " AND ".join(self._compared(column, word, one) for word, one in wanted.items()) + ")"
        return self._compared(column, "eq", wanted)

    def _compared(self, column: Column, word: str, value: Any) -> str:
        if value is None and word in ("eq", "ne"):
            return f"{_name(column.name)} IS {'NOT ' if word == 'ne' else ''}NULL"
        parameter = f"p{len(self.values)}"
        kind = column.type[9:-1] if column.type.startswith("Nullable(") else column.type
        self.columns[parameter] = column.name
        self.values[parameter] = prepared(column.name, value, kind)
        compared = _name(column.name)
        if word != "like" and isinstance(value, str) and (count := ticks(value, kind)) is not None:
            # As numbers: what the engine makes of a time long ago or far ahead in a DELETE it cannot read again.
            self.values[parameter] = count
            compared, kind = f"toUnixTimestamp64{'Milli' if '(3' in kind else 'Micro'}({compared})", "Int64"
        return f"{compared} {self.OPERATORS[word]} {{{parameter}:{kind}}}"


# What a portal is


_METADATA_COLUMNS = """(
    key String,
    value String,
    created_at DateTime64(3) DEFAULT now64(3),
    updated_at DateTime64(3) DEFAULT now64(3)
) ENGINE = MergeTree() ORDER BY key"""


def create_metadata(line: EngineLine, values: Mapping[str, str]) -> None:
    line.run(f"CREATE TABLE IF NOT EXISTS {METADATA} {_METADATA_COLUMNS}")
    known = metadata(line)
    new = [{"key": key, "value": value} for key, value in values.items() if key not in known]
    if new:
        insert(line, METADATA, new, row_count(line, METADATA))


def metadata(line: EngineLine, database: str = DATABASE) -> dict[str, str]:
    rows = line.rows(f"SELECT key, argMax(value, updated_at) AS value FROM {database}.{METADATA} GROUP BY key")
    return {row["key"]: row["value"] for row in rows}


def foreign_metadata(line: EngineLine, database: str, keys: Sequence[str], max_chars: int) -> dict[str, str]:
    """These values of the metadata in a file from elsewhere, whose table may have any size and any types. Left out is
    what is longer or no text. Raises EngineError for a table that is no such one."""
    rows = line.rows(
        f"""
        SELECT key, argMax(given, updated_at) AS value
        FROM (SELECT toString(key) AS key, toString(value) AS given, updated_at FROM {database}.{METADATA})
        WHERE key IN {{keys:Array(String)}} AND isNotNull(given) AND isValidUTF8(assumeNotNull(given))
            AND lengthUTF8(assumeNotNull(given)) <= {{most:UInt32}}
        GROUP BY key
        """,
        {"keys": list(keys), "most": max_chars},
    )
    return {row["key"]: row["value"] for row in rows}


def set_metadata(line: EngineLine, values: Mapping[str, str], gone: Sequence[str] = ()) -> None:
    """Set these values and drop others, in one step. Nothing of the former values stays on the disk."""
    _replace(
        line,
        METADATA,
        f"""
        SELECT key, argMax(given.value, (is_new, given.updated_at)) AS value, min(given.created_at) AS created_at,
            max(given.updated_at) AS updated_at
        FROM (
            SELECT key, value, created_at, updated_at, 0 AS is_new FROM {METADATA}
            UNION ALL
            SELECT key, value, now64(3), now64(3), 1 FROM system.one
            ARRAY JOIN {{keys:Array(String)}} AS key, {{values:Array(String)}} AS value
        ) AS given
        WHERE key NOT IN {{gone:Array(String)}} GROUP BY key
        """,
        {"keys": list(values), "values": list(values.values()), "gone": list(gone)},
    )


def statement(line: EngineLine, table: str) -> str:
    """The CREATE TABLE of a table."""
    return line.run(f"SHOW CREATE TABLE {_name(table)}").decode().strip()


def _defined(column: NewColumn) -> str:
    return f"{_name(column.name)} {column.type}" + (f" DEFAULT {column.default}" if column.default else "")


def _name(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


# Other portals, lent to this one


def open_lent(line: EngineLine, name: str, path: str) -> None:
    line.run(f"CREATE DATABASE {name} ENGINE = Backup('portal', File({literal(path)}))")


def close_lent(line: EngineLine, name: str) -> None:
    line.run(f"DROP DATABASE IF EXISTS {name} SYNC")


# Files, which lie where the engine may read and write


_WHOLE = re.compile(r"\bU?Int(8|16|32|64|128)\b")
_TEXTS = {"String", "Nullable(String)", "Array(String)", "Array(Nullable(String))"}
_FRACTIONS = re.compile(r"(Nullable\(Float\d+\)|Float\d+|Array\((Nullable\()?Float\d+\)?\))")
_IN_NFC = "if(isValidUTF8({}), normalizeUTF8NFC({}), {})"
_IS_WHOLE = "match(ifNull({}, '0'), '^[+-]?[0-9]+$')"
_DYNAMIC_TYPE = re.compile(r"\b(?:Dynamic|JSON|Object)\b", re.IGNORECASE)  # each value has a type of its own
FORMATS = {"json": "JSONEachRow", "csv": "CSVWithNames", "parquet": "Parquet"}
UNKNOWN_TABLE = 60
NULL = 349  # what the engine calls a null where there must be none
SAMPLE = 1000  # rows of a file that tell which columns are worth a look at all of them
_INFERRING = """
    schema_inference_make_columns_nullable = 1, schema_inference_use_cache_for_file = 0,
    input_format_max_rows_to_read_for_schema_inference = 1000000,
    input_format_max_bytes_to_read_for_schema_inference = 268435456,
    input_format_try_infer_dates = 1, input_format_try_infer_datetimes_only_datetime64 = 1,
    input_format_json_try_infer_named_tuples_from_objects = 1,
    input_format_json_use_string_type_for_ambiguous_paths_in_named_tuples_inference_from_objects = 1
"""


def file_columns(line: EngineLine, path: str, format_: str) -> dict[str, str]:
    """The columns of a file and the types the engine sees in them."""
    rows = line.rows(f"DESCRIBE TABLE file({literal(path)}, '{FORMATS[format_]}') SETTINGS {_INFERRING}")
    return {row["name"]: row["type"] for row in rows}


def parquet_metadata(line: EngineLine, path: str) -> FileSize:
    """What a Parquet file says of itself."""
    (row,) = line.rows(
        "SELECT num_columns AS columns, num_rows AS rows, total_uncompressed_size AS bytes "
        f"FROM file({literal(path)}, 'ParquetMetadata') SETTINGS output_format_json_quote_64bit_integers = 0"
    )
    return FileSize(**row)


def read_through(line: EngineLine, path: str, format_: str, max_rows: int, max_bytes: int) -> None:
    """Read all of a file and keep nothing. The engine stops at more rows or bytes than these, as it holds them; of an
    INSERT it would count the bytes of the file."""
    line.run(
        f"SELECT * FROM file({literal(path)}, '{FORMATS[format_]}') FORMAT Null "
        f"SETTINGS max_result_rows = {max_rows}, max_result_bytes = {max_bytes}, result_overflow_mode = 'throw'"
    )


def uuid_columns(line: EngineLine, path: str, format_: str, names: Sequence[str]) -> set[str]:
    """Those of a file's text columns that hold UUIDs only."""
    if not names:
        return set()
    file = f"file({literal(path)}, '{FORMATS[format_]}')"
    sample = ", ".join(map(_name, names))
    likely = _only_uuids(line, f"(SELECT {sample} FROM {file} LIMIT {SAMPLE})", names, least=0)
    return _only_uuids(line, file, likely, least=1) if likely else set()


def _only_uuids(line: EngineLine, source: str, names: Iterable[str], *, least: int) -> set[str]:
    """The columns with at least so many values, all of them UUIDs."""
    names = list(names)
    asked = ", ".join(
        f"count({column}) >= {least} AND count({column}) = countIf(toUUIDOrNull({column}) IS NOT NULL) AS c{number}"
        for number, column in enumerate(map(_name, names))
    )
    (row,) = line.rows(f"SELECT {asked} FROM {source} SETTINGS {_INFERRING}")
    return {name for number, name in enumerate(names) if row[f"c{number}"]}


def codes(line: EngineLine, path: str, columns: Mapping[str, str]) -> set[str]:
    """Those of a CSV file's columns that look like whole numbers and are none: 01234 and +49 would lose a sign."""
    numbers = [name for name, kind in columns.items() if kind == "Nullable(Int64)"]
    if not numbers:
        return set()
    structure = ", ".join(f"{_name(name)} Nullable(String)" for name in columns)
    asked = ", ".join(
        f"countIf({column} <> toString(toInt64OrNull({column}))) > 0 AS c{number}"
        for number, column in enumerate(map(_name, numbers))
    )
    (row,) = line.rows(f"SELECT {asked} FROM file({literal(path)}, 'CSVWithNames', {literal(structure)})")
    return {name for number, name in enumerate(numbers) if row[f"c{number}"]}


def load_file(
    line: EngineLine,
    table: str,
    path: str,
    format_: str,
    columns: Mapping[str, str],
    types: Mapping[str, str],
    sure: Collection[str],
    defaults: Mapping[str, str],
) -> None:
    """Read a file into an empty table.

    `columns` says where each of the file's goes, `types` what each is read as; `sure` are those of which the file
    itself says that they are of that type. `defaults` are what columns of the table get where the file has nothing; a
    key without one is refused there.
    """
    # The engine wraps what is too wide, and takes null for zero.
    wide = {name: types[name] if name in sure else _WHOLE.sub("Int256", types[name]) for name in columns}
    for name, target in columns.items():
        if (target == KEY or target in defaults) and not types[name].startswith(("Nullable", "Array", "JSON")):
            wide[name] = f"Nullable({wide[name]})"
    structure = literal(", ".join(f"{_name(name)} {wide[name]}" for name in columns))
    chosen = ", ".join(
        _read(name, wide[name], types[name], defaults.get(target), is_text=format_ == "parquet")
        for name, target in columns.items()
    )
    settings = ", ".join(
        f"{name} = {value}" for name, value in _STRICT.items() if name != "input_format_skip_unknown_fields"
    )
    _fill(
        line,
        table,
        f"""
        INSERT INTO {_name(table)} ({", ".join(map(_name, columns.values()))})
        SETTINGS {settings}, date_time_input_format = 'best_effort'
        SELECT {chosen} FROM file({literal(path)}, '{FORMATS[format_]}', {structure})
        """,
    )


def _fill(line: EngineLine, table: str, statement: str, database: str = DATABASE) -> None:
    """Insert into a table that is empty and nobody else's. Interrupted, it begins again once: the engine may have ended
    because of another call."""
    try:
        line.run_once(statement)
    except Interrupted:
        line.run(f"TRUNCATE TABLE {database}.{_name(table)}")
        line.run_once(statement)


def _read(name: str, seen: str, kind: str, default: str | None, *, is_text: bool) -> str:
    """A column of a file as one of its table. `is_text` is whether texts are not known to be in NFC."""
    value = _name(name)
    if is_text and kind in _TEXTS:
        value = (
            f"arrayMap(t -> {_IN_NFC.replace('{}', 't')}, {value})"
            if kind.startswith("Array")
            else _IN_NFC.replace("{}", value)
        )
    if default is not None and seen.startswith("Nullable("):
        value = f"ifNull({value}, {default})"
    return value if seen == kind else f"accurateCast({value}, {literal(kind)})"


def defaults(line: EngineLine, table: str) -> dict[str, str]:
    """What columns get where nothing is given, of those that this server makes."""
    ours = {column.default for columns in WELL_KNOWN.values() for column in columns if column.default}
    rows = line.rows(
        "SELECT name, default_expression AS value FROM system.columns "
        "WHERE database = 'portal' AND table = {table:String} AND default_kind = 'DEFAULT'",
        {"table": table},
    )
    return {row["name"]: row["value"] for row in rows if row["value"] in ours}


def has_null(line: EngineLine, path: str, format_: str, columns: Mapping[str, str], name: str) -> bool:
    """Whether a column of a file has a value missing."""
    (row,) = line.rows(f"SELECT count() > count({_name(name)}) AS found FROM {_file(path, format_, columns)}")
    return bool(row["found"])


def lists_with_null(line: EngineLine, path: str, format_: str, columns: Mapping[str, str]) -> set[str]:
    """Those of a file's columns of lists in which one has a null."""
    lists = [name for name, kind in columns.items() if kind.startswith("Array(Nullable(")]
    if not lists:
        return set()
    asked = ", ".join(
        f"countIf(arrayExists(t -> isNull(t), {_name(name)})) > 0 AS c{number}" for number, name in enumerate(lists)
    )
    (row,) = line.rows(f"SELECT {asked} FROM file({literal(path)}, '{FORMATS[format_]}') SETTINGS {_INFERRING}")
    return {name for number, name in enumerate(lists) if row[f"c{number}"]}


def _file(path: str, format_: str, columns: Mapping[str, str]) -> str:
    """A file, if it is CSV with texts only."""
    as_texts = ", ".join(f"{_name(name)} Nullable(String)" for name in columns)
    structure = f", {literal(as_texts)}" if format_ == "csv" else ""
    return f"file({literal(path)}, '{FORMATS[format_]}'{structure})"


def too_wide(line: EngineLine, path: str, columns: Mapping[str, str], names: Iterable[str]) -> str | None:
    """One of a CSV file's columns that holds whole numbers only, and some that no type for them holds."""
    taken = [name for name in names if columns[name] == "Nullable(Float64)"]
    return _first(line, _file(path, "csv", columns), dict.fromkeys(taken, f"countIf(NOT {_IS_WHOLE}) = 0"))


def rounded(line: EngineLine, path: str, columns: Iterable[str], names: Iterable[str]) -> str | None:
    """One of a CSV file's columns with a whole number that is another as a fraction."""
    loses = (
        f"countIf({_IS_WHOLE} AND (length({{}}) > 70 OR toInt256OrNull({{}}) <> toInt256(toFloat64OrZero({{}})))) > 0"
    )
    return _first(line, _file(path, "csv", dict.fromkeys(columns, "")), dict.fromkeys(names, loses))


def no_number(line: EngineLine, table: str, columns: Mapping[str, str]) -> str | None:
    """One of a table's columns of fractions, by their types, with NaN or infinity in it."""
    asked = {
        name: "countIf(arrayExists(t -> NOT isFinite(ifNull(t, 0)), {})) > 0"
        if kind.startswith("Array(")
        else "countIf(NOT isFinite(ifNull({}, 0))) > 0"
        for name, kind in columns.items()
        if _FRACTIONS.fullmatch(kind)
    }
    return _first(line, _name(table), asked)


def _first(line: EngineLine, source: str, asked: Mapping[str, str]) -> str | None:
    """The first column of which is true what is asked of it, each in an expression with {} for its name."""
    if not asked:
        return None
    chosen = ", ".join(
        f"{expression.replace('{}', _name(name))} AS c{number}"
        for number, (name, expression) in enumerate(asked.items())
    )
    (row,) = line.rows(f"SELECT {chosen} FROM {source}")
    return next((name for number, name in enumerate(asked) if row[f"c{number}"]), None)


def misfits(line: EngineLine, path: str, types: Mapping[str, str]) -> dict[str, int]:
    """The columns of a CSV file with a value that does not fit their type, and in which record that is first."""
    plain = {name: kind.removeprefix("Nullable(").removesuffix(")") for name, kind in types.items()}
    plain = {name: kind for name, kind in plain.items() if re.fullmatch(r"U?Int\d+|Float\d+|UUID|Bool", kind)}
    if not plain:
        return {}
    asked = ", ".join(
        f"toInt64(minIf(number, {_name(name)} IS NOT NULL AND accurateCastOrNull({_name(name)}, '{kind}') IS NULL)) "
        f"AS c{number}"
        for number, (name, kind) in enumerate(plain.items())
    )
    (row,) = line.rows(
        f"SELECT {asked} FROM (SELECT rowNumberInAllBlocks() + 1 AS number, * FROM {_file(path, 'csv', types)}) "
        "SETTINGS max_threads = 1, input_format_parallel_parsing = 0, output_format_json_quote_64bit_integers = 0"
    )
    found = {name: int(row[f"c{number}"]) for number, name in enumerate(plain)}
    return {name: number for name, number in found.items() if number}


def unfit_texts(
    line: EngineLine, table: str, columns: Mapping[str, str], longest: int
) -> tuple[str | None, str | None]:
    """Of a table's columns of texts, by their types: one with a text of more than so many bytes, and one with bytes
    that are no text."""
    found: list[str | None] = [None, None]
    for name, kind in columns.items():
        if kind not in _TEXTS:
            continue
        each = f"arrayJoin({_name(name)})" if kind.startswith("Array(") else _name(name)
        (row,) = line.rows(
            f"SELECT toInt32(max(length(t) > {longest})) AS long, toInt32(max(NOT isValidUTF8(t))) AS bytes "
            f"FROM (SELECT ifNull({each}, '') AS t FROM {_name(table)})"
        )
        found = [found[0] or (name if row["long"] else None), found[1] or (name if row["bytes"] else None)]
    return found[0], found[1]


def first_too_long(line: EngineLine, path: str, format_: str, column: str, kind: str, longest: int) -> int:
    """Which record of a file, counted from 1, is the first with a text of more than so many bytes in a column."""
    each = f"arrayMax(arrayMap(t -> length(ifNull(t, '')), {_name(column)}))"
    size = each if kind.startswith("Array(") else f"length(ifNull({_name(column)}, ''))"
    structure = literal(f"{_name(column)} {kind}")
    (row,) = line.rows(
        f"""
        SELECT toInt64(min(number)) AS number FROM (
            SELECT rowNumberInAllBlocks() + 1 AS number, {size} AS size
            FROM file({literal(path)}, '{FORMATS[format_]}', {structure})
        ) WHERE size > {longest}
        SETTINGS max_threads = 1, input_format_parallel_parsing = 0, output_format_json_quote_64bit_integers = 0
        """
    )
    return int(row["number"])


def make_like(line: EngineLine, new: str, table: str) -> None:
    line.run(f"CREATE TABLE IF NOT EXISTS {_name(new)} AS {_name(table)}")


def add_all(line: EngineLine, table: str, source: str) -> None:
    """Give a table all rows of one that is made like it. They are moved: sent again, there is nothing left to give."""
    for partition in _partitions(line, source):  # one, unless a file has brought a table with more
        line.run(f"ALTER TABLE {_name(source)} MOVE PARTITION ID {literal(partition)} TO TABLE {_name(table)}")


def _partitions(line: EngineLine, table: str) -> list[str]:
    rows = line.rows(
        "SELECT DISTINCT partition_id FROM system.parts WHERE active AND database = 'portal' AND table = {t:String}",
        {"t": table},
    )
    return [row["partition_id"] for row in rows]


def row_count(line: EngineLine, table: str, database: str = DATABASE) -> int:
    return int(line.run(f"SELECT count() FROM {database}.{_name(table)}").decode())


def drop_left_behind(line: EngineLine) -> None:
    """Drop what deletions and imports have left whose server died: copies of rows of this portal. The caller holds the
    portal's lock, and no import is in its last step."""
    sql = "SELECT name FROM system.tables WHERE database = 'portal' AND startsWith(name, {prefix:String})"
    for prefix in (UNFINISHED_COPY, STAGED_PREFIX):
        for row in line.rows(sql, {"prefix": prefix}):
            drop_table(line, row["name"])
    line.run(f"DROP DATABASE IF EXISTS {RESTORED} SYNC")


def back_up(line: EngineLine, path: str) -> None:
    """The whole portal as one file, without what was deleted from it."""
    with_deleted = (
        "SELECT DISTINCT table FROM system.parts WHERE database = 'portal' AND active AND has_lightweight_delete"
    )
    for row in line.rows(with_deleted):
        _apply_deleted_mask(line, row["table"])
    line.run_afresh(f"BACKUP DATABASE portal TO File({literal(path)})", made=path)


def restore(line: EngineLine, path: str, database: str) -> None:
    line.run_afresh(f"RESTORE DATABASE portal AS {database} FROM File({literal(path)})")


def restored_tables(line: EngineLine, database: str) -> dict[str, dict[str, str]]:
    """The tables of a restored portal, each with its columns and their types."""
    rows = line.rows(
        f"SELECT table, name, type FROM system.columns WHERE database = '{database}' AND NOT startsWith(table, '_') "
        "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY table, position"
    )
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["table"], {})[row["name"]] = row["type"]
    return found


def rewrite_dynamic_columns(line: EngineLine, database: str, table: str) -> None:
    """Rewrite a restored table whose columns let each value have its own type: JSON and Dynamic.

    The values go through JSON, as records from callers do, so only types of JSON values are left: the state of an
    aggregate function that hides in a Dynamic column becomes a text. Raises EngineError for values that JSON changes.
    """
    sql = "SELECT name, type FROM system.columns WHERE database = {d:String} AND table = {t:String} ORDER BY position"
    types = {row["name"]: row["type"] for row in line.rows(sql, {"d": database, "t": table})}
    dynamic = {name: kind for name, kind in types.items() if _DYNAMIC_TYPE.search(kind)}
    if not dynamic:
        return
    rewritten = f"_rewritten_{uuid4().hex}"
    values = [_from_json(name, dynamic[name]) if name in dynamic else _name(name) for name in types]
    is_same = " AND ".join(
        f"toJSONString({_from_json(name, kind)}) = {_as_json(name)}" for name, kind in dynamic.items()
    )
    line.run(f"CREATE TABLE IF NOT EXISTS {database}.{rewritten} AS {database}.{_name(table)}")
    _fill(
        line,
        rewritten,
        f"INSERT INTO {database}.{rewritten} ({', '.join(map(_name, types))}) SELECT {', '.join(values)} "
        f"FROM {database}.{_name(table)} WHERE throwIf(NOT ({is_same}), 'no JSON') = 0 "
        "SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 1",
        database,
    )
    line.run(f"DROP TABLE IF EXISTS {database}.{_name(table)} SYNC")
    line.run(f"RENAME TABLE IF EXISTS {database}.{rewritten} TO {database}.{_name(table)}")


def _as_json(name: str) -> str:
    return f"toJSONString({_name(name)})"


def _from_json(name: str, kind: str) -> str:
    """A column's values, read from their JSON as values of the column's type."""
    whole = literal(f"JSON(value {kind})")
    return f"""getSubcolumn(CAST(concat('{{"value":', {_as_json(name)}, '}}'), {whole}), 'value')"""


def restored_size(line: EngineLine, database: str) -> FileSize:
    """What a restored portal's tables hold, as their parts say."""
    (row,) = line.rows(
        f"""
        SELECT 0 AS columns, toUInt64(sum(rows)) AS rows, toUInt64(sum(data_uncompressed_bytes)) AS bytes
        FROM system.parts WHERE active AND database = '{database}'
        SETTINGS output_format_json_quote_64bit_integers = 0
        """
    )
    return FileSize(**row)


def uncompressed_bytes(line: EngineLine, table: str) -> int:
    """How many bytes the values of a table take up uncompressed, as its parts say."""
    (row,) = line.rows(
        "SELECT toUInt64(sum(data_uncompressed_bytes)) AS bytes FROM system.parts "
        "WHERE active AND database = 'portal' AND table = {table:String} "
        "SETTINGS output_format_json_quote_64bit_integers = 0",
        {"table": table},
    )
    return int(row["bytes"])


def is_whole(line: EngineLine, table: str, database: str = DATABASE) -> bool:
    """Whether a table's data is as it was written: RESTORE does not look."""
    checked = line.run(f"CHECK TABLE {database}.{_name(table)} SETTINGS check_query_single_value_result = 1")
    return checked.strip() == b"1"


@contextmanager
def taken(line: EngineLine, database: str, table: str) -> Iterator[None]:
    """A restored table becomes one of the portal's, and goes again if the block fails."""
    try:
        move_restored(line, database, table, table)
        yield
    except (EngineError, AppError):
        with suppress(EngineError, AppError):  # the first error is the one to tell
            drop_table(line, table)
        raise


def move_restored(line: EngineLine, database: str, table: str, new: str) -> None:
    """Move a restored table to the portal, under another name."""
    line.run(f"RENAME TABLE IF EXISTS {database}.{_name(table)} TO portal.{_name(new)}")


def link_rows(line: EngineLine, table: str, target: str) -> None:
    """Give `target`, which is made like `table`, the rows of it. Their files are shared, not copied."""
    for partition in _partitions(line, table):
        line.run(f"ALTER TABLE {_name(target)} REPLACE PARTITION ID {literal(partition)} FROM {_name(table)}")


def table_uuid(line: EngineLine, table: str) -> str | None:
    """The id of a table, which stays when the table is renamed; None if no table has this name."""
    rows = line.rows(
        "SELECT toString(uuid) AS uuid FROM system.tables WHERE database = 'portal' AND name = {table:String}",
        {"table": table},
    )
    return str(rows[0]["uuid"]) if rows else None


def put_in_place(line: EngineLine, staged: str, uuid: str, table: str) -> None:
    """Give a staged table its name, in one step. A table that had the name gets that of the staged one.

    Does nothing if the staged table has its name already."""
    for _ in range(MAX_ATTEMPTS):
        there = table_uuid(line, table)
        if there == uuid or table_uuid(line, staged) != uuid:
            return
        try:
            if there is None:
                line.run_once(f"RENAME TABLE {_name(staged)} TO {_name(table)}")
            else:
                line.run_once(f"EXCHANGE TABLES {_name(staged)} AND {_name(table)}")
        except Interrupted:
            continue  # only the uuids say whether it was carried out
    raise Unavailable("The engine of this portal does not stay up. Look at the log; the next call goes on with it.")


def copy_rows(line: EngineLine, database: str, table: str, target: str, columns: Sequence[str]) -> None:
    names = ", ".join(map(_name, columns))
    _fill(line, target, f"INSERT INTO {_name(target)} ({names}) SELECT {names} FROM {database}.{_name(table)}")


def checksum(line: EngineLine) -> str:
    """Of the data as it lies on disk: the same after the file was opened elsewhere."""
    rows = line.rows(
        f"""
        SELECT table, hash_of_uncompressed_files AS hash FROM system.parts
        WHERE database = 'portal' AND active AND table <> '{METADATA}' ORDER BY table, hash
        """
    )
    return sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
