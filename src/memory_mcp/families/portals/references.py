"""References of portals: mem://NAMESPACE/PORTAL and mem://NAMESPACE/PORTAL/TABLE, which may have filters."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from memory_mcp.caller import Caller
from memory_mcp.clock import stamp
from memory_mcp.errors import Invalid
from memory_mcp.families.family import Call, Document
from memory_mcp.families.portals import resources
from memory_mcp.families.portals.address import SCHEME, Address, page, parse, view
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.model import VIEWER, Table
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.portal_registry import existing_table
from memory_mcp.families.references import GroupSize, NamedByReference, Opened, References, TakesReference, text_of_list


def _named_table(text: str) -> NamedByReference | None:
    try:
        address = view(text)
    except Invalid:
        return None
    return NamedByReference(address.portal_uri, {"table": address.table}) if address.table else NamedByReference(text)


PORTAL = TakesReference(_named_table)


def _open(call: Call[Portals], ref: str) -> Opened:
    if ref == VIEWER:
        return Opened(ref, "viewer", "A page that shows portals, in hosts that show apps.", {"viewerUri": VIEWER})
    document = resources.read(call, ref)
    address = parse(ref)
    folder, tables = call.operations.described(call.caller, address)
    text = _portal(folder, tables) if address.table is None else _table(call, document, tables)
    uri = f"{address.portal_uri}/{address.table}" if address.table else address.portal_uri
    filters = ref.partition("?")[2]
    return Opened(
        f"{uri}?{filters}" if filters else uri,
        address.table or address.portal,
        text,
        json.loads(document.text),
        updated_at=stamp(folder.written_at()),
    )


def _portal(folder: PortalFolder, tables: Sequence[Table]) -> str:
    heading = " ".join(filter(None, [f"Portal {folder.address.portal_uri}.", *vars(folder.labels()).values()]))
    return text_of_list(heading, [_described(folder.address, table) for table in tables])


def _table(call: Call[Portals], document: Document, tables: Sequence[Table]) -> str:
    """The columns of a table, and its rows as the resource shows them, or one row that is too long for it."""
    address, following = parse(document.uri), document.meta["memory"].get("next_offset")
    rows = json.loads(document.text)
    if not rows and following is not None:
        rows, _ = call.operations.page(call.caller, address, replace(page(document.uri), limit=1))
    filters = dict(parse_qsl(document.uri.partition("?")[2])) | {"offset": following}
    return text_of_list(
        _described(address, existing_table(tables, address.table or "")),
        [json.dumps(row, ensure_ascii=False) for row in rows],
        f"{address.portal_uri}/{address.table}?{urlencode(filters)}" if following is not None else None,
    )


def _described(address: Address, table: Table) -> str:
    columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
    return f"{address.portal_uri}/{table.name}: {table.rows} rows of ({columns})"


def sizes(portals: Portals, caller: Caller) -> Iterator[GroupSize]:
    """The rows of each portal, as described in its folder: no engine starts."""
    for folder in portals.all(caller):
        with suppress(OSError):  # it is deleted by now
            described = folder.described()
            tables = {table.name: table.rows for table in described.tables} if described else {}
            count = sum(tables.values()) if described else None
            uri = folder.address.portal_uri
            yield GroupSize(uri, count, stamp(folder.written_at()), uri, tables)


REFERENCES = References[Portals](
    "mem://NAMESPACE/PORTAL/TABLE", (SCHEME, VIEWER), _open, tool="portal_view", all_groups=SCHEME
)
