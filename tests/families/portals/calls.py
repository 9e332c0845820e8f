"""Short ways to call the portals' tools in tests."""

from collections.abc import Sequence
from typing import Any

from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.portals.model import Record
from tests.families.notes.calls import call, refusal

PORTAL = "mem://tests/shared"
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"portals"}))


async def write(client: Client, table: str, *records: Record, portal: str = PORTAL) -> None:
    answer = await call(client, "portal_write", portalUri=portal, table=table, data=list(records))
    assert answer == {"portalUri": portal, "table": table, "written": len(records)}


async def not_written(client: Client, table: str, *records: Record, portal: str = PORTAL) -> str:
    """The error message of a write that must be refused."""
    refused = await refusal(client, "portal_write", portalUri=portal, table=table, data=list(records))
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "data")
    return str(refused["message"])


async def query(client: Client, sql: str, *, portal: str = PORTAL, **parameters: Any) -> list[Record]:
    """The rows, in an answer of the promised shape."""
    answer = await call(client, "portal_query", portalUri=portal, sql=sql, parameters=parameters)
    assert set(answer) - {"notice"} == {"columns", "rows", "rowCount", "truncated", "elapsedMs"}
    assert all(set(column) == {"name", "type"} for column in answer["columns"])
    assert answer["rowCount"] == len(answer["rows"])
    assert all(list(row) == [column["name"] for column in answer["columns"]] for row in answer["rows"])
    rows: list[Record] = answer["rows"]
    return rows


async def values(client: Client, sql: str, *, portal: str = PORTAL, **parameters: Any) -> list[Any]:
    """The first column."""
    return [next(iter(row.values())) for row in await query(client, sql, portal=portal, **parameters)]


async def types(client: Client, table: str, *, portal: str = PORTAL) -> dict[str, str]:
    """The columns of a table, in their order."""
    view = await call(client, "portal_view", portalUri=portal)
    found: dict[str, Any] = next((one for one in view["tables"] if one["name"] == table), {"columns": []})
    return {column["name"]: column["type"] for column in found["columns"]}


async def tables(client: Client, *, portal: str = PORTAL) -> set[str]:
    return {table["name"] for table in (await call(client, "portal_view", portalUri=portal))["tables"]}


async def delete(client: Client, table: str, where: Any = None, *, portal: str = PORTAL, **more: Any) -> int:
    given = {} if where is None else {"where": where}
    answer = await call(client, "portal_delete", portalUri=portal, table=table, **given, **more)
    assert answer == {"portalUri": portal, "table": table, "deleted": answer["deleted"]}
    return int(answer["deleted"])


async def metadata(client: Client, *, portal: str = PORTAL) -> dict[str, str]:
    rows = await query(client, "SELECT key, value FROM _mcp_metadata ORDER BY key", portal=portal)
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def put(app: App, table: str, records: Sequence[Record], portal: str = PORTAL) -> None:
    """Write without a client, for tests that need many."""
    app.portals.write(CALLER, portal, table, list(records))


def query_operation(app: App, sql: str, *, portal: str = PORTAL, **parameters: Any) -> list[Record]:
    rows = app.portals.query(CALLER, portal, sql, parameters).rows
    return [row for row in rows if isinstance(row, dict)]
