"""Portals in and out of files."""

import csv
import threading
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from pathlib import Path
from uuid import uuid4

from memory_mcp.engine import archive, words
from memory_mcp.engine.client import EngineError, EngineLine, check_wanted
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.portals import inference, storage
from memory_mcp.portals.address import COLUMN, TABLE, check_column
from memory_mcp.portals.folders import PortalFolder
from memory_mcp.portals.model import METADATA, Format, NewColumn, Table

TEMPORARY = "_import_"  # what the names of unfinished tables start with
LONGEST_TEXT = 1024 * 1024  # bytes
AT_ONCE = 1024 * 1024  # bytes read at once
RESTORED = "restored"  # the database a file is opened in

NewSchema = Callable[[EngineLine, str], None]
"""Told of each table that came or changed."""


@contextmanager
def staged(folder: PortalFolder, ending: str) -> Iterator[Path]:
    """A file that the engine may read and write, and that does not stay."""
    path = folder.path / "staging" / f"{uuid4().hex}{ending}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield path
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


def load(
    line: EngineLine,
    path: Path,
    format_: Format,
    table: str,
    mapping: Mapping[str, str],
    changed: NewSchema,
    cancelled: threading.Event | None,
) -> int:
    """Add the records of a file to a table, which is made if it is missing: all of them or none."""
    stopping = line.until(cancelled)  # for what a caller who leaves need not wait for, nor anybody else
    _check_text(path, format_)
    storage.drop_left_behind(line, TEMPORARY, RESTORED)
    known = next((one for one in storage.tables(line) if one.name == table), None)
    try:
        found = storage.file_columns(stopping, str(path), format_)
        columns = _mapped(found, mapping)
        wanted = _wanted(stopping, path, format_, found, columns, table, known)
    except (EngineError, UnicodeDecodeError) as exc:
        said = f" {exc}" if isinstance(exc, EngineError) else ""
        raise Invalid(f"source: this cannot be read as {format_}.{said}", field="source") from exc
    types = {column.name: column.type for column in known.columns} if known else {}
    types |= {column.name: column.type for column in wanted}
    temporary = f"{TEMPORARY}{uuid4().hex}"
    try:
        with storage.widened(line, table, known, wanted):
            storage.make_like(line, temporary, table)
            read_as = {name: types[target] for name, target in columns.items()}
            sure = [name for name, kind in read_as.items() if format_ == "parquet" and _same(found[name], kind)]
            storage.load_file(stopping, temporary, str(path), format_, columns, read_as, sure)
            count = storage.row_count(line, temporary)
            _check_texts(stopping, path, format_, temporary, columns, types)
            check_wanted(cancelled)
            storage.add_all(line, table, temporary)
    except EngineError as exc:
        raise Invalid(f"source: {words.misfit(str(exc), 1)} Nothing was imported.", field="source") from exc
    finally:
        storage.drop_table(line, temporary)
    if wanted:
        changed(line, table)
    return count


def _check_text(path: Path, format_: Format) -> None:
    """Raises Invalid for a file of texts that is not UTF-8, and for a CSV file with a column that has no name: the
    engine would replace the one and leave out the other."""
    if format_ == "parquet":
        return
    with path.open("rb") as file:
        decoder, number = getincrementaldecoder("utf-8")(), 1
        while chunk := file.read(AT_ONCE):
            number = _check_utf8(decoder, chunk, number)
        _check_utf8(decoder, b"", number, is_last=True)
    if format_ == "csv":
        with path.open(encoding="utf-8-sig", newline="") as text:
            names = next(csv.reader(text), [])
        if "" in map(str.strip, names):
            place = [name.strip() for name in names].index("") + 1
            raise Invalid(f"source: column {place} has no name. Give it one in the first line.", field="source")


def _check_utf8(decoder: IncrementalDecoder, chunk: bytes, number: int, *, is_last: bool = False) -> int:
    """The line that a part of a file ends in, of which this one starts in line `number`."""
    try:
        decoder.decode(chunk, is_last)
    except UnicodeDecodeError as exc:
        bad = number + exc.object[: exc.start].count(b"\n")
        raise Invalid(f"source: line {bad} is not UTF-8. Save the file as UTF-8.", field="source") from exc
    return number + chunk.count(b"\n")


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


def _mapped(found: Mapping[str, str], mapping: Mapping[str, str]) -> dict[str, str]:
    """Which column of a table each of a file's goes to. A mapping names those that are called otherwise."""
    if unknown := [name for name in mapping if name not in found]:
        raise Invalid(f"mapping: the file has no column {unknown[0]!r}. It has: {', '.join(found)}.", field="mapping")
    columns = {
        name: check_column(mapping.get(name, name), "mapping" if name in mapping else "source") for name in found
    }
    if len(set(columns.values())) < len(columns):
        raise Invalid("mapping: two columns of the file would go to one of the table.", field="mapping")
    return columns


def _wanted(
    line: EngineLine,
    path: Path,
    format_: Format,
    found: Mapping[str, str],
    columns: Mapping[str, str],
    table: str,
    known: Table | None,
) -> list[NewColumn]:
    """The columns that a table needs for a file, with types by the rule for records."""
    usual = [] if known else list(inference.WELL_KNOWN.get(table, ()))
    there = {column.name for column in (*(known.columns if known else ()), *usual)}
    new = [name for name, target in columns.items() if target not in there]
    texts = [name for name in new if found[name] == "Nullable(String)"]
    seen = dict(found)
    seen |= dict.fromkeys(storage.uuid_columns(line, str(path), format_, texts), "UUID")
    if format_ == "csv":
        seen |= dict.fromkeys(storage.codes(line, str(path), found), "Nullable(String)")
    return usual + [NewColumn(columns[name], _type(seen[name], columns[name], format_)) for name in new]


def _type(seen: str, name: str, format_: Format) -> str:
    return inference.column_type(seen, name, of_texts=format_ != "parquet")


def open_file(
    line: EngineLine, path: Path, only: str | None, changed: NewSchema, cancelled: threading.Event | None
) -> tuple[list[str], int]:
    """Take in a portal's file: its tables, or one of them. What is there already stays, and gets more rows."""
    stopping = line.until(cancelled)
    try:
        archive.manifest(path)
        line.check_archive(path.name)
    except archive.Damaged as exc:
        raise Invalid(f"source: {exc} Nothing was changed.", field="source") from exc
    storage.drop_left_behind(line, TEMPORARY, RESTORED)
    try:
        storage.restore(stopping, str(path), RESTORED)
        line.check_restored(RESTORED)
        found = storage.restored_tables(line, RESTORED)
        if only is not None and only not in found:
            raise NotFound(f"table: the file has no table {only!r}. It has: {', '.join(found)}.", field="table")
        chosen = {name: columns for name, columns in found.items() if only in (None, name)}
        known = {table.name: table for table in storage.tables(line)}
        for name, columns in chosen.items():
            _check_taking(stopping, name, columns, known.get(name))
        return list(chosen), _take(line, chosen, known, changed, cancelled)
    except archive.Damaged as exc:
        raise Invalid(f"source: {exc} Nothing was changed.", field="source") from exc
    except EngineError as exc:
        raise Invalid("source: the tables in this portal file cannot be opened.", field="source") from exc
    finally:
        storage.drop_left_behind(line, TEMPORARY, RESTORED)


def open_whole(line: EngineLine, path: Path) -> int:
    """Make a portal of its file, its own description included, where nothing is yet. How many rows it holds."""
    try:
        archive.manifest(path)
        line.check_archive(path.name)
        storage.drop_left_behind(line, TEMPORARY, RESTORED)
        storage.restore(line, str(path), RESTORED)
        line.check_restored(RESTORED)
        found = storage.restored_tables(line, RESTORED)
        for name, columns in found.items():
            _check_taking(line, name, columns, None)
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


def _take(
    line: EngineLine,
    chosen: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Table],
    changed: NewSchema,
    cancelled: threading.Event | None,
) -> int:
    """All tables or none, as far as the engine goes: what can fail comes first and is undone, and moving comes last."""
    count = 0
    with ExitStack() as undoing:
        moves: dict[str, str] = {}
        for name, columns in chosen.items():
            count += storage.row_count(line, name, RESTORED)
            if name not in known:
                continue
            new = [NewColumn(*column) for column in columns.items() if known[name].column(column[0]) is None]
            undoing.enter_context(storage.widened(line, name, known[name], new))
            moves[name] = f"{TEMPORARY}{uuid4().hex}"
            storage.make_like(line, moves[name], name)
            storage.copy_rows(line.until(cancelled), RESTORED, name, moves[name], list(columns))
        check_wanted(cancelled)
        for name in chosen.keys() - known.keys():
            undoing.enter_context(storage.taken(line, RESTORED, name))
        for name, temporary in moves.items():
            storage.add_all(line, name, temporary)
    for name, columns in chosen.items():
        if name not in known or any(known[name].column(column) is None for column in columns):
            changed(line, name)
    return count


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
