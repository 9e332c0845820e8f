"""Answers to queries and deletions. Apart from the other values, which a worker process imports without pydantic."""

from dataclasses import dataclass
from typing import Annotated

from memory_mcp.families import LEFT_OUT, Notice
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


@dataclass(frozen=True)
class Deleted:
    portalUri: str  # noqa: N815
    deleted: int
    table: Annotated[str | None, LEFT_OUT] = None
    portal: Annotated[bool | None, LEFT_OUT] = None  # true if it is gone as a whole
