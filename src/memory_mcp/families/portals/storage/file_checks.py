"""Values of an imported file that do not fit their columns, and their records."""

import re
from collections.abc import Iterable, Iterator, Mapping

from memory_mcp.engines.chdb.parameters import MAX_EXACT_INTEGER, literal
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals.storage.expressions import FORMATS, INFERENCE_SETTINGS, TEXT_TYPES, quote

_FRACTIONS = re.compile(r"(Nullable\(Float\d+\)|Float\d+|Array\((Nullable\()?Float\d+\)?\))")
COLUMNS_AT_ONCE = 16  # of a table, that one statement checks
FILE_COLUMNS_AT_ONCE = 250  # of a file, which is read again for each statement; the engine refuses longer ones
IS_DATE = "ifNull(toString(toDate32OrNull({})) = {}, {} IS NULL)"  # the engine takes 2026-02-30 for a day in March
_IS_WHOLE = "match(ifNull({}, '0'), '^[+-]?[0-9]+$')"


def file_groups(names: Iterable[str]) -> Iterator[list[str]]:
    """Columns of a file, as many at a time as one statement checks."""
    all_ = list(names)
    for first in range(0, len(all_), FILE_COLUMNS_AT_ONCE):
        yield all_[first : first + FILE_COLUMNS_AT_ONCE]


def has_null(engine: PortalEngine, path: str, format_: str, columns: Mapping[str, str], name: str) -> bool:
    """Whether a column of a file has a value missing."""
    (row,) = engine.rows(f"SELECT count() > count({quote(name)}) AS found FROM {_file_source(path, format_, columns)}")
    return bool(row["found"])


def lists_with_null(engine: PortalEngine, path: str, format_: str, columns: Mapping[str, str]) -> set[str]:
    """Those of a file's columns of lists in which one has a null."""
    lists = [name for name, kind in columns.items() if kind.startswith("Array(Nullable(")]
    found: set[str] = set()
    for some in file_groups(lists):
        expressions = ", ".join(
            f"countIf(arrayExists(t -> isNull(t), {quote(name)})) > 0 AS c{number}" for number, name in enumerate(some)
        )
        (row,) = engine.rows(
            f"SELECT {expressions} FROM file({literal(path)}, '{FORMATS[format_]}') SETTINGS {INFERENCE_SETTINGS}"
        )
        found |= {name for number, name in enumerate(some) if row[f"c{number}"]}
    return found


def _file_source(path: str, format_: str, columns: Mapping[str, str]) -> str:
    """A file, if it is CSV with texts only."""
    as_texts = ", ".join(f"{quote(name)} Nullable(String)" for name in columns)
    structure = f", {literal(as_texts)}" if format_ == "csv" else ""
    return f"file({literal(path)}, '{FORMATS[format_]}'{structure})"


_NO_CAST = "accurateCastOrNull({0}, '{1}') IS NULL"
_MISFITS = {  # a cast to these would cut off the time, or move the day
    "Date": "ifNull(toString(toDateOrNull(toString({0}))) <> toString({0}), TRUE)",
    "Date32": "ifNull(toString(toDate32OrNull(toString({0}))) <> toString({0}), TRUE)",
}


def too_wide(engine: PortalEngine, path: str, columns: Mapping[str, str], names: Iterable[str]) -> str | None:
    """One of a CSV file's columns that holds whole numbers only, and some too wide for every type."""
    fractions = [name for name in names if columns[name] == "Nullable(Float64)"]
    return _first_true(
        engine, _file_source(path, "csv", columns), dict.fromkeys(fractions, f"countIf(NOT {_IS_WHOLE}) = 0")
    )


def rounded(engine: PortalEngine, path: str, columns: Iterable[str], names: Iterable[str]) -> str | None:
    """One of a CSV file's columns with a whole number that a fraction would round."""
    loses = (
        f"countIf({_IS_WHOLE} AND (length({{}}) > 70 OR toInt256OrNull({{}}) <> toInt256(toFloat64OrZero({{}})))) > 0"
    )
    return _first_true(engine, _file_source(path, "csv", dict.fromkeys(columns, "")), dict.fromkeys(names, loses))


def rounded_by_fractions(engine: PortalEngine, table: str, columns: Mapping[str, str]) -> str | None:
    """One of a table's columns of whole numbers, by their types, with a number that a fraction would round."""
    is_wide = f"{{0}} NOT BETWEEN -{MAX_EXACT_INTEGER} AND {MAX_EXACT_INTEGER}"
    loses = f"{is_wide} AND toInt256(toFloat64({{0}})) <> toInt256({{0}})"
    expressions = {
        name: f"countIf(arrayExists(t -> {loses.format('t')}, {{}})) > 0"
        if kind.startswith("Array(")
        else f"countIf({loses.format('{}')}) > 0"
        for name, kind in columns.items()
    }
    return _first_true(engine, quote(table), expressions)


def no_date(engine: PortalEngine, path: str, columns: Iterable[str], names: Iterable[str]) -> str | None:
    """One of a CSV file's columns with a text that is not a date."""
    source = _file_source(path, "csv", dict.fromkeys(columns, ""))
    return _first_true(engine, source, dict.fromkeys(names, f"countIf(NOT {IS_DATE}) > 0"))


def no_number(engine: PortalEngine, table: str, columns: Mapping[str, str]) -> str | None:
    """One of a table's columns of fractions, by their types, with NaN or infinity in it."""
    expressions = {
        name: "countIf(arrayExists(t -> NOT isFinite(ifNull(t, 0)), {})) > 0"
        if kind.startswith("Array(")
        else "countIf(NOT isFinite(ifNull({}, 0))) > 0"
        for name, kind in columns.items()
        if _FRACTIONS.fullmatch(kind)
    }
    return _first_true(engine, quote(table), expressions)


def _first_true(engine: PortalEngine, source: str, expressions: Mapping[str, str]) -> str | None:
    """The first column whose expression is true, each with {} for its name."""
    for some in file_groups(expressions):
        chosen = ", ".join(
            f"{expressions[name].replace('{}', quote(name))} AS c{number}" for number, name in enumerate(some)
        )
        (row,) = engine.rows(f"SELECT {chosen} FROM {source}")
        if (found := next((name for number, name in enumerate(some) if row[f"c{number}"]), None)) is not None:
            return found
    return None


def misfits(
    engine: PortalEngine, path: str, format_: str, columns: Iterable[str], types: Mapping[str, str]
) -> dict[str, int]:
    """The columns of a CSV or Parquet file with a value that does not fit their type, and in which record that is
    first."""
    plain = {name: kind.removeprefix("Nullable(").removesuffix(")") for name, kind in types.items()}
    plain = {
        name: kind for name, kind in plain.items() if re.fullmatch(r"U?Int\d+|Float\d+|UUID|Bool|Date|Date32", kind)
    }
    source = _file_source(path, format_, dict.fromkeys(columns, ""))
    found: dict[str, int] = {}
    for some in file_groups(plain):
        expressions = ", ".join(
            f"toInt64(minIf(number, {quote(name)} IS NOT NULL AND "
            f"{_MISFITS.get(plain[name], _NO_CAST).format(quote(name), plain[name])})) AS c{number}"
            for number, name in enumerate(some)
        )
        (row,) = engine.rows(
            f"SELECT {expressions} FROM (SELECT rowNumberInAllBlocks() + 1 AS number, * FROM {source}) "
            "SETTINGS max_threads = 1, input_format_parallel_parsing = 0, output_format_json_quote_64bit_integers = 0"
        )
        found |= {name: int(row[f"c{number}"]) for number, name in enumerate(some)}
    return {name: number for name, number in found.items() if number}


def unfit_texts(
    engine: PortalEngine, table: str, columns: Mapping[str, str], max_bytes: int
) -> tuple[str | None, str | None]:
    """Of a table's columns of texts, by their types: one with a text of more than so many bytes, and one with bytes
    that are not text."""
    texts = [(name, kind) for name, kind in columns.items() if kind in TEXT_TYPES]
    too_long: list[str] = []
    no_text: list[str] = []
    for first in range(0, len(texts), COLUMNS_AT_ONCE):
        some = texts[first : first + COLUMNS_AT_ONCE]
        checks = [
            f"toInt32(max({_any_text(name, kind, f'length({{}}) > {max_bytes}')})) AS long{number}, "
            f"toInt32(max({_any_text(name, kind, 'NOT isValidUTF8({})')})) AS bytes{number}"
            for number, (name, kind) in enumerate(some)
        ]
        (row,) = engine.rows(f"SELECT {', '.join(checks)} FROM {quote(table)}")
        too_long += [name for number, (name, _) in enumerate(some) if row[f"long{number}"]]
        no_text += [name for number, (name, _) in enumerate(some) if row[f"bytes{number}"]]
    return next(iter(too_long), None), next(iter(no_text), None)


def _any_text(column: str, kind: str, condition: str) -> str:
    """Whether a condition holds for the text in a column, or for one in its list."""
    if kind.startswith("Array("):
        text = "ifNull(t, '')"
        return f"arrayExists(t -> {condition.format(text)}, {quote(column)})"
    return condition.format(f"ifNull({quote(column)}, '')")


def first_too_long(engine: PortalEngine, path: str, format_: str, column: str, kind: str, max_bytes: int) -> int:
    """Which record of a file, counted from 1, is the first with a text of more than so many bytes in a column."""
    each = f"arrayMax(arrayMap(t -> length(ifNull(t, '')), {quote(column)}))"
    size = each if kind.startswith("Array(") else f"length(ifNull({quote(column)}, ''))"
    structure = literal(f"{quote(column)} {kind}")
    (row,) = engine.rows(
        f"""
        SELECT toInt64(min(number)) AS number FROM (
            SELECT rowNumberInAllBlocks() + 1 AS number, {size} AS size
            FROM file({literal(path)}, '{FORMATS[format_]}', {structure})
        ) WHERE size > {max_bytes}
        SETTINGS max_threads = 1, input_format_parallel_parsing = 0, output_format_json_quote_64bit_integers = 0
        """
    )
    return int(row["number"])
