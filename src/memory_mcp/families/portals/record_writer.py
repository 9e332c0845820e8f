"""Records into tables, which get the columns that they lack."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_mcp.caller import Caller
from memory_mcp.engines.chdb import error_messages
from memory_mcp.engines.chdb.client import EngineError, EngineLine
from memory_mcp.errors import Invalid
from memory_mcp.families.portals import inference, storage
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.inference import KEY
from memory_mcp.families.portals.model import NewColumn, Record, Table
from memory_mcp.families.portals.portal_registry import PortalRegistry, find_table


class RecordWriter:
    """Writes the records of a call: all of them, or none."""

    def __init__(self, registry: PortalRegistry) -> None:
        self._registry = registry

    def write(
        self, caller: Caller, folder: PortalFolder, line: EngineLine, table: str, records: Sequence[Record]
    ) -> None:
        """The caller holds the portal's lock."""
        tables = self._registry.described_tables(folder, line)
        known = find_table(tables, table)
        wanted = inference.wanted_columns(records, table, known)
        if wanted or known is None:
            self._write_changing(caller, folder, line, table, records)
        else:
            self._insert(line, table, known, [], records)
            folder.describe([_grown(one, len(records)) if one.name == table else one for one in tables])
            self._registry.report_change(caller, folder.address, list_changed=False)

    def _write_changing(
        self, caller: Caller, folder: PortalFolder, line: EngineLine, table: str, records: Sequence[Record]
    ) -> None:
        """Write records that need a table or columns that the description lacks: the engine may have them."""
        known = find_table(storage.tables(line), table)
        wanted = inference.wanted_columns(records, table, known)
        with self._registry.changing(caller, folder, line):
            self._insert(line, table, known, wanted, records)
            if wanted:
                self._registry.record_schema(line, table)

    def _insert(
        self, line: EngineLine, table: str, known: Table | None, wanted: Sequence[NewColumn], records: Sequence[Record]
    ) -> None:
        """Insert into a table, created with the needed columns. If the records are refused, nothing is changed."""
        types = {column.name: column.type for column in (*(known.columns if known else ()), *wanted)}
        self._check_fit(line, table, types, records)
        if not types:
            raise Invalid("data: give at least one field, so that the table gets a column.", field="data")
        try:
            with storage.widen_table(line, table, known, wanted):
                storage.insert(line, table, records, known.rows if known else 0)
        except EngineError as exc:
            raise Invalid(f"data: {error_messages.misfit(str(exc), 0)} Nothing was written.", field="data") from exc

    def _check_fit(self, line: EngineLine, table: str, types: Mapping[str, str], records: Sequence[Record]) -> None:
        """Raises Invalid for values that the engine would change."""
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


def _grown(table: Table, by: int) -> Table:
    return replace(table, rows=table.rows + by)
