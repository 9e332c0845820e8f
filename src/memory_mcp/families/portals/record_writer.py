"""Records into tables, which get the columns that they lack, and wider types where values need them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.chdb import error_messages
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.portals import inference, journal, storage, wider_types
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.import_context import new_table_name
from memory_mcp.families.portals.inference import KEY
from memory_mcp.families.portals.journal import StagedTable
from memory_mcp.families.portals.journal_items import table_write
from memory_mcp.families.portals.model import Column, NewColumn, Record, Table
from memory_mcp.families.portals.portal_registry import PortalRegistry, find_table
from memory_mcp.families.portals.wider_types import Widened
from memory_mcp.services.write_journal import Action

MAX_COLUMNS = 10_000  # of a table
MAX_NAMES_SHOWN = 5  # in a notice
MAX_NOTICES = 20  # in an answer
_BELOW_MILLISECONDS = re.compile(r"\.\d{3}\d*[1-9]")
_MIN_CHARS_BELOW_MILLISECONDS = 24


@dataclass(frozen=True)
class _NewRecords:
    """The records of a call, and where they go. The caller holds the portal's lock."""

    caller: Caller
    folder: PortalFolder
    engine: PortalEngine
    table: str
    records: Sequence[Record]
    mark: int | None  # that their rows get


class RecordWriter:
    """Writes the records of a call: all of them, or none."""

    def __init__(self, registry: PortalRegistry) -> None:
        self._registry = registry

    def write(
        self, caller: Caller, folder: PortalFolder, engine: PortalEngine, table: str, records: Sequence[Record]
    ) -> list[str]:
        """Returns notices for the caller, who holds the portal's lock."""
        tables = self._registry.described_tables(folder, engine)
        known = find_table(tables, table)
        renamed = inference.column_names(records, known)
        if renamed:
            records = [{renamed.get(name, name): value for name, value in record.items()} for record in records]
        wanted = inference.wanted_columns(records, table, known)
        widened = _widened_columns(known, records)
        new = _NewRecords(caller, folder, engine, table, records, storage.new_mark(engine))
        if wanted or widened or known is None:
            widened = self._write_changing(new)
        else:
            rows = self._insert(new, known, [])
            self._record(new, known)
            folder.describe([replace(one, rows=rows) if one.name == table else one for one in tables])
            self._registry.report_change(caller, folder.address, list_changed=False)
        types = _types(known, wanted) | {column.name: column.type for column in widened}
        return [*renaming_notices(renamed), *map(str, widened), *_rounding_notices(types, records)]

    def _write_changing(self, new: _NewRecords) -> list[Widened]:
        """Write records that need a table, columns or types that the description lacks: the engine may have them."""
        known = find_table(storage.tables(new.engine), new.table)
        wanted = inference.wanted_columns(new.records, new.table, known)
        _check_column_count(known, wanted)
        with self._registry.changing(new.caller, new.folder, new.engine):
            widened = _widened_columns(known, new.records)
            if known is not None and widened:
                self._write_widened(new, known, wanted, widened)
                self._record(new, known)
            else:
                self._insert(new, known, wanted)
                self._record(new, known)
                if wanted:
                    self._registry.record_schema(new.engine, new.table)
        return widened

    def _record(self, new: _NewRecords, known: Table | None) -> None:
        """Record who wrote what the engine has confirmed."""
        action: Action = "updated" if known else "created"
        write = table_write(new.folder.address, new.table, action, len(new.records), new.mark)
        self._registry.journal_of_writes.record(new.caller, write)

    def _write_widened(
        self, new: _NewRecords, known: Table, wanted: Sequence[NewColumn], widened: Sequence[Widened]
    ) -> None:
        """Widen a copy of the table, which shares its files, write the records to it, and put it in place: all of that,
        or nothing, also if a process ends meanwhile."""
        engine = new.engine
        check_not_rounded(engine, known, widened, "data")
        changed = _types(None, wanted) | {column.name: column.type for column in widened}
        types = _types(known, wanted) | changed
        _check_fit(new, types, changed)
        storage.drop_unfinished(engine)
        staged = new_table_name()
        try:
            storage.create_like(engine, staged, known.name)
            storage.link_rows(engine, known.name, staged)
            storage.modify_columns(engine, staged, {column.name: column.type for column in widened})
            if wanted:
                storage.add_columns(engine, staged, wanted)
            storage.insert(engine, staged, new.records, new.mark)
            uuid = str(storage.table_uuid(engine, staged))
            self._registry.rename_staged(new.folder, engine, [StagedTable(staged, uuid, known.name)])
        except EngineError as exc:
            raise _misfit(exc, types, new.records) from exc
        finally:
            if not journal.exists(new.folder):  # if it exists, the next call puts the table in place
                storage.drop_table(engine, staged)

    def _insert(self, new: _NewRecords, known: Table | None, wanted: Sequence[NewColumn]) -> int:
        """Insert into a table, created with the needed columns. If the records are refused, nothing is changed. Returns
        how many rows the table has now."""
        types = _types(known, wanted)
        _check_fit(new, types, _types(None, wanted))
        if not types:
            raise Invalid("data: give at least one field, so that the table gets a column.", field="data")
        try:
            with storage.widen_table(new.engine, new.table, known, wanted):
                return storage.insert(new.engine, new.table, new.records, new.mark)
        except EngineError as exc:
            raise _misfit(exc, types, new.records) from exc


def _check_fit(new: _NewRecords, types: Mapping[str, str], changed: Mapping[str, str]) -> None:
    """Raises Invalid for values of new and changed columns that the engine would change: the others are checked by
    then. Raises it, too, if the key is missing."""
    for name, kind in changed.items():
        number = inference.first_unfit([record.get(name) for record in new.records], kind)
        if number is not None:
            raise _refused(name, number, new.records[number][name], kind)
    if any(record.get(KEY) is None for record in new.records) and is_key_needed(new.engine, new.table, types):
        raise Invalid(f"data: every record of {new.table!r} needs an {KEY!r}.", field="data")


def is_key_needed(engine: PortalEngine, table: str, types: Mapping[str, str]) -> bool:
    """Whether each record of a table with columns of these types needs a key: it cannot be null, and nothing fills it
    in."""
    has_key = KEY in types and not types[KEY].startswith(("Nullable", "Array", "JSON"))
    return has_key and table not in inference.WELL_KNOWN and not storage.has_default(engine, table, KEY)


def _types(known: Table | None, wanted: Sequence[NewColumn]) -> dict[str, str]:
    return {column.name: column.type for column in (*(known.columns if known else ()), *wanted)}


def _widened_columns(known: Table | None, records: Sequence[Record]) -> list[Widened]:
    """The columns that need a wider type. Raises Invalid for a value that no wider type has."""
    widened = []
    for column in known.columns if known else ():
        values = [record.get(column.name) for record in records]
        number = inference.first_unfit(values, column.type)
        if number is None:
            continue
        kind = None if column.primary else wider_types.wider_type(column.type, values)
        if kind is None:
            raise _refused(column.name, *_first_refused(column, values, number), column.type)
        widened.append(Widened(column.name, column.type, kind))
    return widened


def _first_refused(column: Column, values: Sequence[Any], first_unfit: int) -> tuple[int, Any]:
    """The first value that no wider type has, and its record; if they only do not fit together, the first unfit one."""
    number = next(
        (
            number
            for number, value in enumerate(values)
            if inference.first_unfit([value], column.type) is not None
            and (column.primary or wider_types.wider_type(column.type, [value]) is None)
        ),
        first_unfit,
    )
    return number, values[number]


def _check_column_count(known: Table | None, wanted: Sequence[NewColumn]) -> None:
    if len(known.columns if known else ()) + len(wanted) > MAX_COLUMNS:
        raise Invalid(
            f"data: a table has at most {MAX_COLUMNS} columns. Put some fields into an object.",
            code="too_large",
            field="data",
        )


def check_not_rounded(engine: PortalEngine, table: Table, widened: Sequence[Widened], field: str) -> None:
    """Raises Invalid if a column of whole numbers holds one that a fraction would round. `field` is the argument with
    the fractions."""
    to_fractions = {column.name: column.former for column in widened if column.is_of_fractions}
    if (name := storage.rounded_by_fractions(engine, table.name, to_fractions)) is not None:
        raise Invalid(
            f"{field}: {shorten(name)!r} has whole numbers beyond 2^53, which a column of fractions would round. "
            "Nothing was written. Write the fractions to another column.",
            field=field,
            column=shorten(name),
            type=inference.plain_type(to_fractions[name]),
        )


def _misfit(exc: EngineError, types: Mapping[str, str], records: Sequence[Record]) -> Invalid:
    """The error for records that the engine refused: with the value, if it can be found."""
    for number, record in enumerate(records):
        for name, value in record.items():
            if value is not None and not inference.is_of(value, types[name]):
                return _refused(name, number, value, types[name])
    return Invalid(f"data: {error_messages.misfit(str(exc), 0)} Nothing was written.", field="data")


def _refused(name: str, number: int, value: object, kind: str) -> Invalid:
    return Invalid(
        f"data: {inference.describe_misfit(name, number, value, kind)} Nothing was written.",
        field="data",
        column=shorten(name),
        record=number,
        type=inference.plain_type(kind),
    )


def notice_of(notices: Sequence[str]) -> str | None:
    """Some notices as one."""
    shown = list(notices[:MAX_NOTICES])
    if len(notices) > len(shown):
        shown.append(f"{len(notices) - len(shown)} more columns were renamed or changed; portal_view lists them.")
    return " ".join(shown) or None


def renaming_notices(renamed: Mapping[str, str]) -> list[str]:
    """For fields, by name, that go to columns of other names."""
    shown = list(renamed.items())[:MAX_NAMES_SHOWN]
    notices = [f"The field {shorten(name)!r} is the column {shorten(target)!r}." for name, target in shown]
    if len(renamed) > len(shown):
        notices.append(f"{len(renamed) - len(shown)} more fields go to columns of other names; portal_view lists them.")
    return notices


def _rounding_notices(types: Mapping[str, str], records: Sequence[Record]) -> list[str]:
    """For columns whose times are cut to milliseconds."""
    cut = [
        name
        for name, kind in types.items()
        if kind in (inference.MOMENT_TYPE, f"Nullable({inference.MOMENT_TYPE})")
        and any(_is_finer(record.get(name)) for record in records)
    ]
    return [f"Times in {', '.join(map(repr, cut[:MAX_NAMES_SHOWN]))} are stored to the millisecond."] if cut else []


def _is_finer(value: object) -> bool:
    """Whether a text is a time with more than milliseconds."""
    is_long = isinstance(value, str) and len(value) >= _MIN_CHARS_BELOW_MILLISECONDS
    return is_long and _BELOW_MILLISECONDS.search(str(value)) is not None
