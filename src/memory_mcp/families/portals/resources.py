"""mem://namespace/portal: the tables of a portal; mem://namespace/portal/table: its rows."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import Call, Document, ListedResource, ResourcePage, Template, parse_number_cursor
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals.folders import PORTALS, PortalFolder
from memory_mcp.families.portals.model import VIEWER, Table
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.query_results import rows_within

MIME = "application/vnd.mcp.memory+json"
VIEWER_MIME = "text/html;profile=mcp-app"
VIEWER_PAGE = Path(__file__).parents[2] / "web" / "viewer.html"
VIEWER_META = {"ui": {"prefersBorder": True, "permissions": {"clipboardWrite": {}}}}

TEMPLATES = (
    Template("mem://{namespace}/{portal}", "portal", "Schema and sizes of a portal.", MIME),
    Template(
        "mem://{namespace}/{portal}/{table}{?since,until,limit,offset,order}",
        "portal_table",
        "Rows of a table; order is a column, with a minus for the last first.",
    ),
)


def list_page(call: Call[Portals], cursor: str | None, limit: int) -> ResourcePage:
    start = parse_number_cursor(cursor)
    first = [] if start else [_viewer()]
    folders = call.operations.all(call.caller)
    end = start + limit - len(first)
    shown = folders[start:end]
    origins = call.operations.journal.origins(call.caller, [folder.address.portal_uri for folder in shown])
    return ResourcePage(
        [*first, *(_listed(call.operations, folder, origins.get(folder.address.portal_uri)) for folder in shown)],
        str(end) if len(folders) > end else None,
    )


def _viewer() -> ListedResource:
    return ListedResource(
        VIEWER, "memory_portal_viewer", "Looks into portals, in hosts that show apps.", VIEWER_MIME, VIEWER_META
    )


def _listed(operations: Portals, folder: PortalFolder, origin: str | None) -> ListedResource:
    uri, described = folder.address.portal_uri, folder.described()
    tables = described.tables if described else []
    names = ", ".join(table.name for table in tables)
    about = {"memory": _about(operations, folder, tables)} | _origin(origin)
    labels = folder.labels()
    description = labels.description or f"Tables: {names or 'none'}"
    return ListedResource(uri, uri.removeprefix("mem://"), description, MIME, about, labels.name or None)


def read(call: Call[Portals], uri: str) -> Document:
    """Raises NotFound for a portal or table that does not exist."""
    if uri == VIEWER:
        return Document(uri, VIEWER_PAGE.read_text(encoding="utf-8"), VIEWER_MIME, VIEWER_META)
    try:
        address, page = addresses.parse(uri, "uri"), addresses.page(uri)
    except Invalid as exc:
        if uri.partition("?")[2]:
            raise
        raise NotFound("No portal has this address.", hint="resources/list shows what there is.") from exc
    origin = _origin(call.operations.journal.origins(call.caller, [uri]).get(uri))
    if address.table is None:
        about = _about(call.operations, *call.operations.described(call.caller, address))
        return Document(uri, json.dumps(about, ensure_ascii=False), MIME, {"memory": about} | origin)
    limit = min(page.limit, call.operations.max_rows)
    rows, is_cut = call.operations.page(call.caller, address, replace(page, limit=limit + 1))
    shown = rows_within(rows[:limit], call.operations.max_tokens)
    meta: dict[str, Any] = {"memory": {"rows": len(shown), "offset": page.offset}} | origin
    if is_cut or len(shown) < len(rows):  # a row that is too long alone is skipped
        meta["memory"]["next_offset"] = page.offset + max(len(shown), 1)
    return Document(uri, json.dumps(shown, ensure_ascii=False), "application/json", meta)


def _origin(names: str | None) -> dict[str, str]:
    """Who wrote to a portal or table, if that is known."""
    return {"memory-mcp/origin": names} if names else {}


def subscription_uri(call: Call[Portals], uri: str) -> str | None:
    if uri == VIEWER:
        return VIEWER  # which never changes
    try:
        return addresses.parse(uri, "uri").portal_uri
    except Invalid:
        return None


def complete(call: Call[Portals], name: str, value: str) -> list[str]:
    """The names of existing namespaces and portals."""
    if name not in ("namespace", "portal"):
        return []
    found = {getattr(folder.address, name) for folder in call.operations.all(call.caller)}
    return sorted(one for one in found if one.startswith(value))


def _about(operations: Portals, folder: PortalFolder, tables: Sequence[Table]) -> dict[str, Any]:
    return {
        **{label: text for label, text in asdict(folder.labels()).items() if text},
        "schema": {"tables": [{"name": table.name, "columns": [asdict(c) for c in table.columns]} for table in tables]},
        "stats": asdict(operations.stats(folder, tables))
        | {"by_table": {table.name: {"rows": table.rows, "bytes": table.bytes} for table in tables}},
        "dbPath": f"{PORTALS}/{folder.address.namespace}/{folder.address.portal}",
        "viewerUri": VIEWER,
    }
