"""The answer to a query. Apart from the other values, which a worker process imports without pydantic."""

from dataclasses import dataclass

from memory_mcp.families import Notice
from memory_mcp.portals.model import Record


@dataclass(frozen=True)
class ResultColumn:
    name: str
    type: str


@dataclass(frozen=True)
class Result:
    columns: list[ResultColumn]
    rows: list[Record]
    rowCount: int  # noqa: N815
    truncated: bool
    elapsedMs: float  # noqa: N815
    notice: Notice = None
