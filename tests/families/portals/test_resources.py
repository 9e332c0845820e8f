"""mem://namespace/portal and mem://namespace/portal/table: listed, read, watched, completed."""

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from memory_mcp.app import App
from memory_mcp.server.protocol import McpServer
from tests.families.notes.calls import LIST_CHANGED, listen_to_changes
from tests.families.portals.calls import CALLER, PORTAL, delete, put, write

pytestmark = pytest.mark.anyio

MIME = "application/vnd.mcp.memory+json"


@pytest.fixture(scope="module", autouse=True)
def shared_portal(app: App) -> None:
    put(
        app,
        "days",
        [
            {"id": n, "timestamp": f"2026-01-{n:02d}T10:00:00Z", "wide": 2**60 + n, "text": f"day {n}"}
            for n in range(1, 6)
        ],
    )
    put(app, "words", [{"word": "a", "price": 1.5}, {"word": "b", "price": None}])
    put(app, "long", [{"n": n, "text": "x" * 10_000} for n in range(20)])
    put(app, "many", [{"n": n} for n in range(150)])


async def read(client: Client, uri: str, mime: str = "application/json") -> tuple[Any, Any]:
    [found] = (await client.read_resource(uri)).contents
    assert (found.uri, found.mime_type) == (uri, mime)
    return json.loads(found.text), found.meta  # type: ignore[union-attr]


async def rows(client: Client, rest: str) -> list[Any]:
    found, _ = await read(client, f"{PORTAL}/{rest}")
    return [row.get("id", row.get("n")) for row in found]


async def test_there_are_two_kinds_of_address(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    assert {template.uri_template: template.mime_type for template in templates} == {
        "mem://{namespace}/{portal}": MIME,
        "mem://{namespace}/{portal}/{table}{?since,until,limit,offset,order}": "application/json",
    }


async def test_a_portal_is_listed_and_read_with_schema_sizes_and_viewer(client: Client) -> None:
    listed = {resource.uri: resource for resource in (await client.list_resources()).resources}
    about, meta = await read(client, PORTAL, MIME)

    assert listed[PORTAL].mime_type == MIME
    assert listed[PORTAL].name == "tests/shared"
    assert listed[PORTAL].meta == meta == {"memory": about, "memory-mcp/origin": "unnamed client"}
    assert set(about) == {"schema", "stats", "dbPath", "viewerUri"}
    assert about["viewerUri"] == "ui://memory/viewer"
    assert about["dbPath"] == "portals/tests/shared"
    by_name = {table["name"]: table["columns"] for table in about["schema"]["tables"]}
    assert list(by_name) == ["days", "long", "many", "words"]
    assert by_name["days"][0] == {"name": "id", "type": "Int64", "primary": True}
    assert about["stats"]["tables"] == 4
    assert about["stats"]["rows"] == sum(table["rows"] for table in about["stats"]["by_table"].values()) == 177


async def test_a_table_is_read_by_its_time_and_filters(client: Client) -> None:
    assert await rows(client, "days") == [1, 2, 3, 4, 5]
    assert await rows(client, "days?since=2026-01-04") == [4, 5]
    assert await rows(client, "days?until=2026-01-02T10:00:00Z") == [1]
    assert await rows(client, "days?since=2026-01-02T12:00:00%2B02:00&until=2026-01-04") == [2, 3]
    assert await rows(client, "days?order=-id&limit=2") == [5, 4]
    assert await rows(client, "days?order=id&limit=2&offset=3") == [4, 5]
    assert await rows(client, "days?offset=10") == []
    assert await rows(client, "many?order=n") == list(range(100))
    assert await rows(client, "many?order=n&limit=1000&offset=100") == list(range(100, 150))


async def test_values_are_shown_as_a_query_shows_them(client: Client) -> None:
    [row], meta = await read(client, f"{PORTAL}/days?limit=1")
    assert row == {"id": 1, "timestamp": "2026-01-01T10:00:00.000Z", "wide": str(2**60 + 1), "text": "day 1"}
    assert meta["memory"] == {"rows": 1, "offset": 0, "next_offset": 1}
    found, _ = await read(client, f"{PORTAL}/words?order=word")
    assert found == [{"word": "a", "price": 1.5}, {"word": "b", "price": None}]


async def test_a_page_too_long_for_a_model_says_where_it_goes_on(client: Client) -> None:
    found, meta = await read(client, f"{PORTAL}/long?order=n")
    assert 1 <= len(found) < 20
    assert meta["memory"]["next_offset"] == len(found)
    following, _ = await read(client, f"{PORTAL}/long?order=n&offset={len(found)}")
    assert following[0]["n"] == len(found)


async def test_a_page_of_the_usual_size_says_where_it_goes_on(app: App, client: Client, table: str) -> None:
    put(app, table, [{"n": n} for n in range(250)])
    found, meta = await read(client, f"{PORTAL}/{table}?order=n")
    assert (len(found), meta["memory"]) == (100, {"rows": 100, "offset": 0, "next_offset": 100})
    found, meta = await read(client, f"{PORTAL}/{table}?order=n&offset=200")
    assert (len(found), meta["memory"]) == (50, {"rows": 50, "offset": 200})


async def test_a_table_without_times_has_no_since(app: App, client: Client, table: str) -> None:
    put(app, table, [{"n": 1}])
    for word in ("since", "until"):
        with pytest.raises(MCPError, match=f"{word}: .* has no column with a time"):
            await client.read_resource(f"{PORTAL}/{table}?{word}=2026-01-01")


async def test_an_address_that_leads_nowhere_is_an_error_of_the_protocol(client: Client) -> None:
    for rest in (
        *("mem://tests/nothing", "mem://tests", "mem://", "mem://tests/shared/nothing", "mem://tests/shared/days/1"),
        *("mem://Tests/shared", "mem://tests/..", "mem://tests/%2e%2e/days", "mem://[/x", "mem://tests/shared/a%20b"),
        *(
            f"{PORTAL}/days?{bad}"
            for bad in ("limit=0", "limit=1001", "limit=x", "offset=-1", "since=yesterday", "what=1")
        ),
        *(f"{PORTAL}/days?{bad}" for bad in ("order=nothing", "order=-", "order=1%3BDROP", "order=id%2Ctext")),
        *(f"{PORTAL}/_mcp_metadata", f"{PORTAL}/system.one"),
    ):
        with pytest.raises(MCPError) as caught:
            await client.read_resource(rest)
        assert caught.value.error.code == -32602, rest
        assert caught.value.error.data["error"] in ("not_found", "invalid")


async def test_clients_hear_when_portals_and_tables_come_and_go_and_when_rows_do(
    mcp_server: McpServer, client: Client, era: str, table: str
) -> None:
    portal = f"mem://tests/{table}"
    async with listen_to_changes(mcp_server, era, [portal]) as ear:
        await write(client, "one", {"n": 1}, portal=portal)
        await ear.until(portal, LIST_CHANGED)
        await write(client, "one", {"n": 2}, portal=portal)
        await ear.until(portal)
        await write(client, "two", {"n": 2}, portal=portal)
        await ear.until(portal, LIST_CHANGED)
        await delete(client, "one", {"n": 1}, portal=portal)
        await ear.until(portal)
        await delete(client, "one", confirm=True, portal=portal)
        await ear.until(portal, LIST_CHANGED)


async def test_a_table_is_watched_through_its_portal(mcp_server: McpServer, client: Client, table: str) -> None:
    uri = f"mem://tests/shared/{table}?limit=5"
    async with listen_to_changes(mcp_server, "legacy", [uri]) as ear:
        await write(client, table, {"n": 1})
        assert uri in await ear.until(uri)
    await delete(client, table, confirm=True)


async def test_names_are_completed(client: Client, app: App) -> None:
    put(app, "t", [{"n": 1}], "mem://other/shade")
    template = ResourceTemplateReference(type="ref/resource", uri="mem://{namespace}/{portal}")

    async def completed(name: str, value: str) -> list[str]:
        found = await client.complete(template, {"name": name, "value": value})
        return list(found.completion.values)

    assert await completed("namespace", "o") == ["other"]
    assert await completed("namespace", "") == ["other", "tests"]
    assert await completed("portal", "sha") == ["shade", "shared"]
    assert await completed("portal", "zzz") == []
    assert len(app.portals.all(CALLER)) >= 2


async def test_rows_that_are_equal_in_order_are_on_one_page_each(app: App, client: Client, table: str) -> None:
    records = [{"same": "x", "n": n, "object": {"n": n}, "list": [n], "truth": n % 2 == 0} for n in range(30)]
    for start in (0, 10, 20):
        put(app, table, records[start : start + 10])
    for order in ("", "&order=same", "&order=-same", "&order=-truth"):
        seen: list[int] = []
        for offset in range(0, 30, 7):
            seen += await rows(client, f"{table}?limit=7&offset={offset}{order}")
        assert sorted(seen) == list(range(30)), order
    put(app, f"{table}_objects", [{"object": {"n": n}} for n in range(5)])
    found, _ = await read(client, f"{PORTAL}/{table}_objects")
    assert sorted(row["object"]["n"] for row in found) == list(range(5))
