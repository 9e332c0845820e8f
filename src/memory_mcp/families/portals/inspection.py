"""The contents of a foreign text file, inspected before the engine reads it.

These functions are called in a worker process (engines/isolation): they take and return JSON values; paths are texts.
"""

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.portals import inference, text_files, wider_types
from memory_mcp.families.portals.address import check_column, column_name

MAX_FILE_COLUMNS = 4000
MIN_VALUE_BYTES = 8  # that the engine keeps of a value that is missing
MAX_NAME_CHARS = 4000  # of a column in a file
MAX_NAMES_SHOWN = 100  # in an error
MAX_NAMES_BYTES = 1024 * 1024  # of a CSV file's first line


def prepare(path: str, format_: str) -> None:
    """Put a file of texts into NFC. Raises Invalid for one that is not UTF-8, and for a CSV file with a column that has
    no name: the engine would replace the one and leave out the other."""
    text_files.normalise(Path(path), is_json=format_ == "json")
    if format_ == "csv":
        _check_names(_csv_names(Path(path)))


def _csv_names(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as text:
        beginning = text.read(MAX_NAMES_BYTES)
    csv.field_size_limit(MAX_NAMES_BYTES)
    try:
        return next(csv.reader(io.StringIO(beginning, newline="")), [])
    except csv.Error as exc:
        raise Invalid("source: the first line cannot be read as names of columns.", field="source") from exc


def _check_names(names: list[str]) -> None:
    check_column_count(len(names))
    check_name_lengths(names)
    names = [name.strip() for name in names]
    if "" in names:
        number = names.index("") + 1
        raise Invalid(f"source: column {number} has no name. Give it one in the first line.", field="source")


def check_name_lengths(names: Iterable[str]) -> None:
    """Raises Invalid for the name of a column that is far too long."""
    if long := next((name for name in names if len(name) > MAX_NAME_CHARS), None):
        raise Invalid(
            f"source: the column {shorten(long)!r} has a name of more than {MAX_NAME_CHARS} characters.", field="source"
        )


def check_column_count(columns: int) -> None:
    """Raises Invalid for more columns than a file may have."""
    if columns > MAX_FILE_COLUMNS:
        raise Invalid(
            f"source: the file has more than {MAX_FILE_COLUMNS} columns. Split it, or put some of them into an object.",
            code="too_large",
            field="source",
        )


def inspect_json(
    path: str,
    mapping: Mapping[str, str],
    chosen: Mapping[str, str],
    known: Mapping[str, str],
    fixed: Collection[str],
    max_rows: int,
    max_bytes: int,
) -> dict[str, Any]:
    """The columns of a JSON file with their types (`found`), which column of the table each goes to (`columns`), and
    the columns that the table lacks (`new`, pairs of name and type). `chosen` are types that the caller gave; `known`
    are the table's columns, with their types; `fixed` are those that keep theirs. `widened` are the others that need a
    wider one, with it."""
    seen: dict[str, inference.ColumnValues] = {}
    types, count = dict(known), 0
    for batch in text_files.batches(Path(path)):
        for name in dict.fromkeys(name for record in batch for name in record):
            values, target = [record.get(name) for record in batch], mapping.get(name) or column_name(name)
            if target in types:
                types[target] = _fitting_type(name, values, types[target], count, can_widen=target not in fixed)
            seen.setdefault(name, inference.ColumnValues()).add(values)
            check_column_count(len(seen))
        count += len(batch)
        _check_amount(count, len(seen), max_rows, max_bytes)
    if not seen:
        raise Invalid("source: this cannot be read as json. There is nothing in it.", field="source")
    for one in seen.values():
        one.has_null |= one.count < count
    columns = map_columns(list(seen), mapping)
    given = chosen_types(columns, chosen, known)
    new = {
        name: given.get(name) or seen[name].column(target, "source").type
        for name, target in columns.items()
        if target not in known
    }
    found = {name: new[name] if name in new else types[target] for name, target in columns.items()}
    widened = {name: kind for name, kind in types.items() if kind != known[name]}
    if widened and (misfit := find_json_misfit(path, {name: found[name] for name in found})):
        raise _misfit(misfit)  # a former value does not fit the type that a later one needs
    new_columns = [[columns[name], kind] for name, kind in new.items()]
    return {"found": found, "columns": columns, "new": new_columns, "widened": widened}


def _check_amount(rows: int, columns: int, max_rows: int, max_bytes: int) -> None:
    """Raises Invalid for a file that holds too much."""
    if rows > max_rows:
        raise Invalid(f"source: the file has more than {max_rows} records.", code="too_large", field="source")
    if rows * columns * MIN_VALUE_BYTES > max_bytes:
        raise Invalid(
            f"source: {rows} records of {columns} columns take up more than {max_bytes} bytes, though most are "
            "empty. Split the file.",
            code="too_large",
            field="source",
        )


def _fitting_type(name: str, values: list[Any], kind: str, before: int, *, can_widen: bool) -> str:
    """The type that a column needs for some more values, of the records after so many. Raises Invalid."""
    unfit = inference.first_unfit(values, kind)
    if unfit is None:
        return kind
    if can_widen and (wider := wider_types.wider_type(kind, values)):
        return wider
    raise _misfit(inference.describe_misfit(name, before + unfit + 1, values[unfit], kind))


def _misfit(description: str) -> Invalid:
    return Invalid(f"source: {description} Nothing was imported.", field="source")


def map_columns(found: list[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """Which column of a table each of a file's goes to. A mapping renames columns of the file."""
    check_name_lengths(found)
    if unknown := [name for name in mapping if name not in found]:
        there = ", ".join(found[:MAX_NAMES_SHOWN])
        raise Invalid(f"mapping: the file has no column {shorten(unknown[0])!r}. It has: {there}.", field="mapping")
    columns = {name: check_column(mapping[name]) if name in mapping else column_name(name) for name in found}
    if len(set(columns.values())) < len(columns):
        raise Invalid("mapping: two columns of the file would go to one of the table.", field="mapping")
    return columns


def chosen_types(columns: Mapping[str, str], chosen: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The engine's types for columns of a file whose types the caller chose. `columns` are all of the file with those
    of the table that they go to. Raises Invalid for a column that the file lacks or the `known` table has."""
    if unknown := [name for name in chosen if name not in columns]:
        there = ", ".join(list(columns)[:MAX_NAMES_SHOWN])
        raise Invalid(f"types: the file has no column {shorten(unknown[0])!r}. It has: {there}.", field="types")
    for name in chosen:
        if (kind := known.get(columns[name])) is not None and inference.chosen_type(
            chosen[name], columns[name]
        ) != kind:
            raise Invalid(
                f"types: the table has a column {columns[name]!r} of type {inference.plain_type(kind)}. Leave its type "
                "out, or give the file's column another name.",
                field="types",
            )
    return {name: inference.chosen_type(kind, columns[name]) for name, kind in chosen.items()}


def find_json_misfit(path: str, types: Mapping[str, str]) -> str | None:
    """Describes the first value that does not fit its column."""
    records = enumerate((record for batch in text_files.batches(Path(path)) for record in batch), 1)
    return next(
        (
            inference.describe_misfit(name, number, value, types[name])
            for number, record in records
            for name, value in record.items()
            if value is not None
            and not (inference.is_of(value, types[name]) and inference.first_unfit([value], types[name]) is None)
        ),
        None,
    )
