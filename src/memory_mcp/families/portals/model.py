from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FileFormat = Literal["json", "csv", "parquet", "db"]
OnConflict = Literal["refuse", "append", "replace"]
ColumnType = Literal["String", "Int64", "Float64", "Bool", "Date", "DateTime", "UUID"]  # that an import may be given
Record = dict[str, Any]

METADATA = "_mcp_metadata"  # the table with a portal's metadata
MAX_NAME_CHARS = 120  # of a portal's name for people
MAX_DESCRIPTION_CHARS = 1000
LABEL_KEYS = (
    "mcp.portal.id",
    "mcp.portal.name",
    "mcp.portal.description",
)  # the keys of a portal's name and description
VIEWER = "ui://memory/viewer"


@dataclass(frozen=True)
class NewColumn:
    """A column that records need."""

    name: str
    type: str
    default: str = ""  # an SQL expression


@dataclass(frozen=True)
class ColumnChoices:
    """What the caller of an import chose for columns of the file."""

    names: Mapping[str, str] = field(default_factory=dict)  # their names in the table
    types: Mapping[str, ColumnType] = field(default_factory=dict)


NO_CHOICES = ColumnChoices()


@dataclass(frozen=True)
class FileSize:
    """The size of a file's contents, as the file states it."""

    columns: int
    rows: int
    bytes: int  # uncompressed


@dataclass(frozen=True)
class TableSize:
    """How large a table of a portal is on the disk."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Labels:
    """A portal's name and description for people; empty if it has none."""

    name: str = ""
    description: str = ""


# Answers are sent as they are: their fields are the specification's.


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    primary: bool = False


@dataclass(frozen=True)
class Table:
    name: str
    rows: int
    bytes: int
    columns: list[Column]

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True)
class Usage:
    """How often a portal was used since it was created or restored from a backup."""

    reads: int = 0  # queries, pages of tables and exports
    writes: int = 0  # calls that changed something: writes, deletions and imports
    lastRead: str | None = None  # noqa: N815
    lastWrite: str | None = None  # noqa: N815


@dataclass(frozen=True)
class PortalStats:
    tables: int
    rows: int
    bytes: int
    usage: Usage


@dataclass(frozen=True)
class Exported:
    destination: str
    format: FileFormat
    tables: list[str]
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Received:
    """How much of an upload is stored."""

    source: str  # for portal_import
    bytes: int


@dataclass(frozen=True)
class FileColumn:
    """A column of a file, and the column of the table that it would go to."""

    name: str
    column: str
    type: str


@dataclass(frozen=True)
class ImportPreview:
    columns: list[FileColumn]
    rows: list[list[str | None]]  # the first ones, as text


@dataclass(frozen=True)
class Piece:
    """A piece of a download."""

    data: str  # base64
    offset: int
    bytes: int  # of the whole file
    done: bool


@dataclass(frozen=True)
class PortalSummary:
    """A portal in a list, as described in its folder."""

    uri: str
    name: str  # for people; may be empty
    description: str
    tables: list[str]
    rows: int
    bytes: int


@dataclass(frozen=True)
class Described:
    """The description of a portal, which needs no engine."""

    namespace: str
    portal: str
    tables: list[Table] = field(default_factory=list)
