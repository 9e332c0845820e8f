"""The rows that a caller selects."""

from collections.abc import Mapping
from typing import Any, ClassVar

from memory_mcp.engines.chdb.parameters import prepared, ticks
from memory_mcp.families.portals.model import Column, Table
from memory_mcp.families.portals.storage.expressions import quote


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
            return f"{quote(column.name)} IS {'NOT ' if word == 'ne' else ''}NULL"
        parameter = f"p{len(self.values)}"
        kind = column.type[9:-1] if column.type.startswith("Nullable(") else column.type
        self.columns[parameter] = column.name
        self.values[parameter] = prepared(column.name, value, kind)
        compared = quote(column.name)
        if word != "like" and isinstance(value, str) and (count := ticks(value, kind)) is not None:
            # As numbers: what the engine makes of a time long ago or far ahead in a DELETE it cannot read again.
            self.values[parameter] = count
            compared, kind = f"toUnixTimestamp64{'Milli' if '(3' in kind else 'Micro'}({compared})", "Int64"
        return f"{compared} {self.OPERATORS[word]} {{{parameter}:{kind}}}"
