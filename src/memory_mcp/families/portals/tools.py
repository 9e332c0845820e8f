from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from memory_mcp.caller import Scope
from memory_mcp.families.family import Arguments, Call
from memory_mcp.families.portals.answers import PortalDeleted, PortalImported, Result, View, Written
from memory_mcp.families.portals.family import portals as portals
from memory_mcp.families.portals.model import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    VIEWER,
    ColumnChoices,
    ColumnType,
    Exported,
    FileFormat,
    ImportPreview,
    OnConflict,
    Piece,
    Received,
)
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.query_results import RowFormat
from memory_mcp.families.portals.references import PORTAL
from memory_mcp.text.names import check_readable

MAX_BASE64_CHARS = 1_400_000  # of 1 MiB

Uri = Annotated[str, Field(max_length=512, alias="portalUri"), PORTAL]
TableName = Annotated[str, Field(min_length=1, max_length=64)]
Sql = Annotated[str, Field(min_length=1, max_length=65536)]
FilePath = Annotated[str, Field(min_length=1, max_length=4096)]

PortalName = Annotated[str, Field(max_length=MAX_NAME_CHARS), AfterValidator(check_readable)]
PortalDescription = Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS), AfterValidator(check_readable)]


class InPortal(Arguments):
    uri: Uri


class InDescribedPortal(InPortal):  # where a model looks first, the form of an address is spelled out
    uri: Uri = Field(description="mem://namespace/portal")


class PortalWrite(InDescribedPortal):
    table: TableName
    data: list[dict[str, Any]] = Field(max_length=100_000)
    name: PortalName | None = Field(None, alias="portalName")
    description: PortalDescription | None = Field(None, alias="portalDescription")


@portals.tool(PortalWrite, answers=Written, title="Add rows to a table", needs=Scope.WRITE, spec_name="memory/write")
def portal_write(call: Call[Portals], arguments: PortalWrite) -> Written:
    """Tables: add records, all or none. Creates the portal, table and columns. For a file: portal_import."""
    return call.operations.write(
        call.caller, arguments.uri, arguments.table, arguments.data, arguments.name, arguments.description
    )


class PortalQuery(InDescribedPortal):
    sql: Sql = Field(description="One ClickHouse SELECT.")
    parameters: dict[str, Any] = Field({}, description="For {name:Type} in the SQL.")
    format: RowFormat | None = None


@portals.tool(
    PortalQuery, answers=Result, title="Query with SQL", needs=Scope.READ, idempotent=True, spec_name="memory/query"
)
def portal_query(call: Call[Portals], arguments: PortalQuery) -> Result:
    """Tables: read with SQL; portal_view lists tables and columns."""
    return call.operations.query(
        call.caller, arguments.uri, arguments.sql, arguments.parameters, call.cancelled, arguments.format or "objects"
    )


class PortalDelete(InPortal):
    table: TableName | None = Field(None, description="Without: the portal.")
    where: dict[str, Any] | None = Field(
        None, description='{column: value, [values] or {"lt": value}}; lte, gt, gte, ne, like.'
    )
    confirm: bool = Field(False, description="For a table or portal.")


def _audit(arguments: PortalDelete, deleted: PortalDeleted) -> dict[str, Any]:
    """The columns in the conditions, and how many rows were deleted; not the values, which are deleted data."""
    counted = {name: value for name, value in asdict(deleted).items() if value is not None}
    return {**counted, "columns": sorted(arguments.where or ())}


@portals.tool(
    PortalDelete,
    answers=PortalDeleted,
    title="Delete table rows",
    needs=Scope.DELETE,
    destructive=True,
    spec_name="memory/delete",
    audit=_audit,
)
def portal_delete(call: Call[Portals], arguments: PortalDelete) -> PortalDeleted:
    """Tables: delete matching rows, a table or a portal."""
    return call.operations.delete(
        call.caller, arguments.uri, arguments.table, arguments.where, confirm=arguments.confirm
    )


class FileToImport(InPortal):
    source: FilePath = Field(description="In the imports folder.")
    format: FileFormat
    table: TableName | None = Field(None, description="Or the file's name.")
    mapping: dict[str, str] = Field({}, description="{file's column: table's}")
    types: dict[str, ColumnType] = Field({}, description="{file's column: type}, where not as guessed.")


class PortalImport(FileToImport):
    on_conflict: OnConflict | None = Field(
        None, alias="onConflict", description="If a table exists; usually append, for db refuse."
    )


@portals.tool(PortalImport, answers=PortalImported, title="Import a file", needs=Scope.WRITE, spec_name="memory/import")
def portal_import(call: Call[Portals], arguments: PortalImport) -> PortalImported:
    """Tables: add a file's records (else portal_write), all or none; db brings whole tables."""
    return call.operations.imports.import_file(
        call.caller,
        arguments.uri,
        arguments.source,
        arguments.format,
        arguments.table,
        call.progress,
        call.cancelled,
        arguments.on_conflict,
        ColumnChoices(arguments.mapping, arguments.types),
    )


class PortalExport(InPortal):
    destination: FilePath = Field(description="In the exports folder.")
    format: FileFormat
    table: TableName | None = None
    query: Sql | None = Field(None, description="A SELECT.")


@portals.tool(
    PortalExport,
    answers=Exported,
    title="Export tables",
    needs=Scope.READ,
    makes_files=True,
    spec_name="memory/export",
)
def portal_export(call: Call[Portals], arguments: PortalExport) -> Exported:
    """Tables: write a table, a query's rows or all (zip) to a file; db: the portal."""
    return call.operations.exports.export_file(
        call.caller,
        arguments.uri,
        arguments.destination,
        arguments.format,
        arguments.table,
        arguments.query,
        call.progress,
        call.cancelled,
    )


SHOWN_BY_THE_VIEWER: dict[str, Any] = {
    "ui": {"resourceUri": VIEWER},
    # As drafts of MCP Apps had it, which some hosts still read; portals' own specification names both.
    "ui/resourceUri": VIEWER,
    "ui/params": {"portalUri": "{{portalUri}}"},
}


def _summary(view: View) -> str:
    tables = ", ".join(f"{table.name} ({table.rows:,} rows)" for table in view.tables) or "no tables"
    return (
        f"{view.portalUri}: {tables}; {view.stats.bytes:,} bytes. A host that shows apps has its viewer open; "
        "elsewhere it is in the server's web app, under Portals."
    )


@portals.tool(
    InDescribedPortal,
    answers=View,
    title="List tables",
    needs=Scope.READ,
    idempotent=True,
    spec_name="memory/view",
    summary=_summary,
    **SHOWN_BY_THE_VIEWER,
)
def portal_view(call: Call[Portals], arguments: InDescribedPortal) -> View:
    """Tables: a portal's tables, columns and sizes."""
    return call.operations.view(call.caller, arguments.uri)


# For the viewer alone: a page in a host reaches no disk and no network but through tools

FOR_THE_VIEWER: dict[str, Any] = {"visibility": ["app"]}  # no resource of its own, or a host offers it as an app
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")]
Offset = Annotated[int, Field(ge=0, le=2**53)]


class PortalUpload(Arguments):
    name: FileName
    offset: Offset = Field(0, description="How much of the file has come before.")
    data: str = Field(max_length=MAX_BASE64_CHARS, description="The next piece, base64, at most 1 MiB of it.")


@portals.tool(
    PortalUpload,
    answers=Received,
    title="Upload a piece of a file",
    needs=Scope.WRITE,
    idempotent=True,
    app_only=True,
    ui=FOR_THE_VIEWER,
)
def portal_upload(call: Call[Portals], arguments: PortalUpload) -> Received:
    """Upload a file piece by piece, for portal_import, which deletes it. A file that is not imported is deleted after
    an hour; ten such files can wait at a time."""
    return call.operations.imports.receive(call.caller, arguments.name, arguments.offset, arguments.data)


class PortalPreview(FileToImport):
    source: FilePath = Field(description="As portal_upload answered.")
    table: TableName | None = Field(None, description="Where it would go to; or the file's name.")


@portals.tool(
    PortalPreview,
    answers=ImportPreview,
    title="Preview an import",
    needs=Scope.WRITE,
    idempotent=True,
    app_only=True,
    ui=FOR_THE_VIEWER,
)
def portal_preview(call: Call[Portals], arguments: PortalPreview) -> ImportPreview:
    """The columns of an uploaded file as portal_import would import them, and its first rows. Changes nothing."""
    return call.operations.imports.preview(
        call.caller,
        arguments.uri,
        arguments.source,
        arguments.format,
        arguments.table,
        ColumnChoices(arguments.mapping, arguments.types),
        call.cancelled,
    )


class PortalDownload(Arguments):
    destination: FilePath = Field(description="As given to portal_export, in downloads/.")
    offset: Offset = 0


@portals.tool(
    PortalDownload,
    answers=Piece,
    title="Download a piece of an export",
    needs=Scope.READ,
    idempotent=True,
    app_only=True,
    ui=FOR_THE_VIEWER,
)
def portal_download(call: Call[Portals], arguments: PortalDownload) -> Piece:
    """Give an exported file piece by piece. Exports to downloads/ are gone after an hour."""
    return call.operations.exports.read_piece(call.caller, arguments.destination, arguments.offset)
