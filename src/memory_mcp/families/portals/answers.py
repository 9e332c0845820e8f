"""Answers with fields that may be left out, apart from the values that a worker process imports without pydantic."""

from dataclasses import dataclass
from typing import Annotated, Any

from memory_mcp.families.family import LEFT_OUT, Notice, OriginText
from memory_mcp.families.portals.model import PortalStats, Record, Table


@dataclass(frozen=True)
class ResultColumn:
    name: str
    type: str


@dataclass(frozen=True)
class Result:
    columns: list[ResultColumn]
    rows: list[Record] | list[list[Any]]
    rowCount: int  # noqa: N815
    truncated: bool
    elapsedMs: float  # noqa: N815
    notice: Notice = None


@dataclass(frozen=True)
class Written:
    portalUri: str  # noqa: N815
    table: str
    written: int
    notice: Notice = None


@dataclass(frozen=True)
class PortalImported:
    portalUri: str  # noqa: N815
    table: str
    imported: int
    notice: Notice = None


@dataclass(frozen=True)
class PortalDeleted:
    portalUri: str  # noqa: N815
    deleted: int
    table: Annotated[str | None, LEFT_OUT] = None
    portal: Annotated[bool | None, LEFT_OUT] = None  # true if the whole table or portal was deleted


@dataclass(frozen=True)
class ViewedTable(Table):
    origin: OriginText = None


@dataclass(frozen=True)
class View:
    portalUri: str  # noqa: N815
    viewerUri: str  # noqa: N815
    tables: list[ViewedTable]
    stats: PortalStats
    name: Annotated[str | None, LEFT_OUT] = None  # its name for people, if it has one
    description: Annotated[str | None, LEFT_OUT] = None
