"""portal_write, portal_query, portal_delete, portal_view: shapes, types, all or nothing, and what comes out again."""

import json
import math
import os
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_mcp.app import App, open_app
from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.errors import Invalid
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.stdio import local_client
from memory_mcp.settings import load
from tests.clickhouse import FILES_ONLY
from tests.conftest import connected
from tests.events import eventually
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import (
    PORTAL,
    delete,
    metadata,
    not_written,
    put,
    query,
    query_operation,
    tables,
    types,
    values,
    write,
)
from tests.processes import environment
from tests.wire import Stdio

pytestmark = pytest.mark.anyio

TOOLS = ["write", "query", "delete", "import", "export", "view"]
MOMENT = "DateTime64(3, 'UTC')"
SOME_UUID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture(scope="module", autouse=True)
def shared_portal(app: App) -> None:
    put(app, "shared", [{"id": number, "word": f"w{number}"} for number in range(10)])


# Names


async def test_six_tools_are_listed_by_names_every_client_takes(client: Client) -> None:
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert list(listed) == [f"portal_{name}" for name in TOOLS]
    assert all(tool.input_schema["required"][0] == "portalUri" for tool in listed.values())
    hints = {name: tool.annotations for name, tool in listed.items()}
    assert [name for name, hint in hints.items() if hint and hint.destructive_hint] == ["portal_delete"]
    assert all(hint and hint.open_world_hint is False for hint in hints.values())


async def test_the_names_of_the_specification_are_listed_where_they_are_wanted(tmp_path: Path, era: str) -> None:
    chosen = load({"data_dir": tmp_path, "families": "portals,notes", "portal_names": "spec"}, environ={}).settings
    with open_app(chosen, serving=False) as app:
        async with connected(McpServer(app), mode=era) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            assert [name for name in listed if "/" in name] == [f"memory/{name}" for name in TOOLS]
            assert not [name for name in listed if name.startswith("portal_")]
            for name in ("memory/view", "portal_view"):
                assert (await refusal(client, name, portalUri="mem://a/b"))["error"] == "not_found"


@FILES_ONLY  # imports
async def test_a_call_works_under_either_name(client: Client, table: str) -> None:
    uri = {"portalUri": PORTAL}
    written = await call(client, "memory/write", **uri, table=table, data=[{"n": 1}, {"n": 2}])
    assert written == {"portalUri": PORTAL, "table": table, "written": 2}
    assert (await call(client, "memory/query", **uri, sql=f"SELECT sum(n) AS s FROM {table}"))["rows"] == [{"s": 3}]
    deleted = await call(client, "memory/delete", **uri, table=table, where={"n": 1})
    assert deleted == {"portalUri": PORTAL, "table": table, "deleted": 1}
    exported = await call(client, "memory/export", **uri, table=table, destination=f"{table}.json", format="json")
    assert exported["rows"] == 1
    view = await call(client, "memory/view", **uri)
    assert view["portalUri"] == PORTAL
    missing = await refusal(client, "memory/import", **uri, source="nowhere.json", format="json")
    assert missing["error"] == "not_found"


# Shapes


async def test_a_query_answers_with_columns_rows_and_how_long_it_took(client: Client) -> None:
    answer = await call(client, "portal_query", portalUri=PORTAL, sql="SELECT id, word FROM shared ORDER BY id LIMIT 2")

    assert answer.pop("elapsedMs") > 0
    assert answer == {
        "columns": [{"name": "id", "type": "Int64"}, {"name": "word", "type": "Nullable(String)"}],
        "rows": [{"id": 0, "word": "w0"}, {"id": 1, "word": "w1"}],
        "rowCount": 2,
        "truncated": False,
    }


async def test_a_view_lists_tables_columns_and_sizes(client: Client, table: str) -> None:
    portal = f"mem://tests/{table}"
    await write(client, "people", {"id": 1, "name": "Ann"}, {"id": 2, "name": None}, portal=portal)
    await write(client, "empty", {"n": 1}, portal=portal)
    await delete(client, "empty", {"n": 1}, portal=portal)

    view = await call(client, "portal_view", portalUri=portal)
    sizes = {one["name"]: one.pop("bytes") for one in view["tables"]}
    assert sizes["people"] > 0
    assert {one.pop("origin") for one in view["tables"]} == {"mcp"}
    written_at = view["stats"]["usage"].pop("lastWrite")
    assert view == {
        "portalUri": portal,
        "viewerUri": "ui://memory/viewer",
        "tables": [
            {"name": "empty", "rows": 0, "columns": [{"name": "n", "type": "Nullable(Int64)", "primary": False}]},
            {
                "name": "people",
                "rows": 2,
                "columns": [
                    {"name": "id", "type": "Int64", "primary": True},
                    {"name": "name", "type": "Nullable(String)", "primary": False},
                ],
            },
        ],
        "stats": {
            **{"tables": 2, "rows": 2, "bytes": sum(sizes.values())},
            "usage": {"reads": 0, "writes": 3, "lastRead": None},
        },
    }
    await query(client, "SELECT 1", portal=portal)
    await client.read_resource(f"{portal}/people")
    await call(client, "portal_export", portalUri=portal, destination=f"{table}.csv", format="csv", table="people")
    refused = await refusal(client, "portal_write", portalUri=portal, table="people", data=[{"id": "no number"}])
    assert refused["error"] == "invalid"
    usage = (await call(client, "portal_view", portalUri=portal))["stats"]["usage"]
    assert (usage["reads"], usage["writes"], usage["lastWrite"]) == (3, 3, written_at)
    assert usage["lastRead"] > written_at


async def test_columns_keep_the_order_they_came_in(client: Client, table: str) -> None:
    names = [f"c{number * 7919 % 211}" for number in range(200)]
    await write(client, table, dict.fromkeys(names, 1))

    assert list(await types(client, table)) == names
    assert list((await query(client, f"SELECT * FROM {table}"))[0]) == names


async def test_columns_of_one_name_are_distinguished(client: Client) -> None:
    [row] = await query(client, "SELECT a.id, b.id FROM shared AS a JOIN shared AS b ON a.id = b.id WHERE a.id = 3")
    assert list(row.values()) == [3, 3]


# Refusals


async def test_a_missing_portal_is_not_found_and_not_created(client: Client, data_dir: Path) -> None:
    calls: dict[str, dict[str, Any]] = {
        "query": {"sql": "SELECT 1"},
        "delete": {"table": "t", "confirm": True},
        "view": {},
        "export": {"destination": "x.json", "format": "json"},
    }
    for tool, more in calls.items():
        refused = await refusal(client, f"portal_{tool}", portalUri="mem://unknown/here", **more)
        assert refused["error"] == "not_found"
        assert refused["data"] == {"field": "portalUri"}
        assert "portal_write" in refused["message"]
    assert not (data_dir / "portals" / "unknown").exists()


async def test_a_malformed_address_is_refused_with_the_right_form(client: Client) -> None:
    for uri in (
        *(
            "",
            "tests/shared",
            "mem://",
            "mem://tests",
            "mem:///shared",
            "mem://tests/shared/t/u",
            "http://tests/shared",
        ),
        *("mem://Tests/shared", "mem://../shared", "mem://tests/..", "mem://tests/.hidden", "mem://tests/a b"),
        *("mem://tests/a%2Fb", "mem://tests/%00", "mem://[/x", "mem://tests/é", f"mem://tests/{'x' * 65}"),
    ):
        refused = await refusal(client, "portal_write", portalUri=uri, table="t", data=[{"a": 1}])
        assert (refused["error"], refused["data"]["field"]) == ("invalid", "portalUri")
        assert "mem://namespace/portal" in refused["message"]


async def test_a_table_has_a_plain_name(client: Client) -> None:
    for name in ("_mcp_metadata", "_x", "a b", "1a", "a.b", "a`b", "a;DROP TABLE shared", "système", "x" * 65, ""):
        for tool, more in (("portal_write", {"data": [{"a": 1}]}), ("portal_delete", {"confirm": True})):
            refused = await refusal(client, tool, portalUri=PORTAL, table=name, **more)
            assert (refused["error"], refused["data"]["field"]) == ("invalid", "table")


async def test_arguments_that_do_not_fit_name_their_field(client: Client) -> None:
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("portal_write", {"table": "t"}, "data"),
        ("portal_write", {"table": "t", "data": []}, "data"),
        ("portal_write", {"table": "t", "data": [1]}, "data.0"),
        ("portal_query", {}, "sql"),
        ("portal_query", {"sql": ""}, "sql"),
        ("portal_query", {"sql": "SELECT 1", "parameters": [1]}, "parameters"),
        ("portal_delete", {"table": "t", "where": "1"}, "where"),
        ("portal_import", {"source": "x", "format": "xml"}, "format"),
        ("portal_view", {"more": 1}, "more"),
    ]
    for tool, arguments, field in calls:
        refused = await refusal(client, tool, portalUri=PORTAL, **arguments)
        assert (refused["error"], refused["data"]["field"]) == ("invalid", field)


async def test_each_tool_needs_its_scope(app: App, era: str) -> None:
    needs: dict[str, tuple[str, dict[str, Any]]] = {
        "portal_write": ("write_memory", {"table": "t", "data": [{"a": 1}]}),
        "portal_import": ("write_memory", {"source": "x", "format": "json"}),
        "portal_delete": ("delete_memory", {"table": "t", "confirm": True}),
        "portal_query": ("read_memory", {"sql": "SELECT 1"}),
        "portal_export": ("read_memory", {"destination": "x", "format": "json"}),
        "portal_view": ("read_memory", {}),
    }
    for tool, (scope, more) in needs.items():
        others = frozenset(one for one in Scope if one.value != scope)
        line = local_client(app)
        line = type(line)(Caller(LOCAL_USER, others, frozenset({"portals"})), line.connection, line.transport)
        async with connected(McpServer(app), line, mode=era) as client:
            refused = await refusal(client, tool, portalUri=PORTAL, **more)
            assert (refused["error"], refused["data"]) == ("scope_required", {"scope": scope})


async def test_a_refusal_is_a_tool_result_on_the_wire_and_an_unknown_tool_is_not(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="1"))
    answer = server.ask(
        "tools/call", {"name": "memory/query", "arguments": {"portalUri": "mem://a/b", "sql": "SELECT 1"}}
    )
    unknown = server.ask("tools/call", {"name": "memory/nothing", "arguments": {}})
    server.close()

    result = answer["result"]
    assert result["isError"] is True
    assert set(result["structuredContent"]) == {"error", "message", "data"}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert unknown["error"]["code"] == -32602


# Types of new columns, row by row of docs/portals.md


TYPE_RULES: list[tuple[list[Any], str]] = [
    ([True, False], "Nullable(Bool)"),
    ([1, -5], "Nullable(Int64)"),
    ([2**63 - 1, -(2**63)], "Nullable(Int64)"),
    ([2**63], "Nullable(UInt64)"),
    ([0, 2**64 - 1], "Nullable(UInt64)"),
    ([-1, 2**63], "Nullable(Int128)"),
    ([2**127 - 1, -(2**127)], "Nullable(Int128)"),
    ([1.5, 0.1], "Nullable(Float64)"),
    ([1, 1.5], "Nullable(Float64)"),
    ([SOME_UUID, SOME_UUID.upper()], "Nullable(UUID)"),
    (["2026-01-31T10:00:00Z", "2026-01-31 10:00"], f"Nullable({MOMENT})"),
    (["2026-01-31T10:00:00+02:00"], f"Nullable({MOMENT})"),
    (["2026-01-31T10:00:00.123Z"], f"Nullable({MOMENT})"),
    (["2026-01-31"], "Nullable(Date)"),
    (["1970-01-01", "2149-06-06"], "Nullable(Date)"),
    (["1969-12-31", "2026-01-31"], "Nullable(Date32)"),
    (["0001-01-01", "9999-12-31"], "Nullable(Date32)"),
    (["2026-01-31", "2026-01-31T10:00:00Z"], f"Nullable({MOMENT})"),
    (["2026-02-31"], "Nullable(String)"),
    (["2026-01-31", "soon"], "Nullable(String)"),
    (["2026-01-31", SOME_UUID], "Nullable(String)"),
    (["20260131"], "Nullable(String)"),
    (["2026-02-31T10:00:00Z"], "Nullable(String)"),
    ([SOME_UUID, "2026-01-31T10:00:00Z"], "Nullable(String)"),
    (["a", SOME_UUID], "Nullable(String)"),
    ([""], "Nullable(String)"),
    ([None], "Nullable(String)"),
    ([None, 1], "Nullable(Int64)"),
    ([["a"], []], "Array(String)"),
    ([[]], "Array(String)"),
    ([[1, 2]], "Array(Int64)"),
    ([[2**64 - 1]], "Array(UInt64)"),
    ([[1], [1.5]], "Array(Float64)"),
    ([[True]], "Array(Bool)"),
    ([[SOME_UUID]], "Array(String)"),
    ([["a", None]], "Array(Nullable(String))"),
    ([[{"a": 1}, {"b": 2}]], "Array(JSON)"),
    ([[[1], [2]]], "Array(Dynamic)"),
    ([[1, "a"]], "Array(Dynamic)"),
    ([[1], ["a"]], "Array(Dynamic)"),
    ([[True, 1.5, None]], "Array(Dynamic)"),
    ([[2**53 + 1, 1.5]], "Array(Dynamic)"),
    ([["2026-01-31"]], "Array(String)"),
    ([[2**64]], "Array(Int128)"),
    ([{"a": 1}], "JSON"),
]


async def test_a_new_column_gets_its_type_from_its_values(client: Client, table: str) -> None:
    records = [
        {
            f"c{number}": given_values[place]
            for number, (given_values, _) in enumerate(TYPE_RULES)
            if place < len(given_values)
        }
        for place in range(2)
    ]
    await write(client, table, *records)
    assert await types(client, table) == {f"c{number}": type_ for number, (_, type_) in enumerate(TYPE_RULES)}


async def test_a_column_of_different_kinds_or_too_wide_numbers_is_refused(client: Client, table: str) -> None:
    for given_values in (
        *([1, "a"], [True, 1], ["a", ["a"]], [{"a": 1}, [1]], [{"a": 1}, "a"]),
        *([2**127], [-1, 2**127], [-(2**127) - 1], [[2**130]], [2**53 + 1, 1.5]),
    ):
        message = await not_written(client, table, *({"value": value} for value in given_values))
        assert "'value'" in message
        assert await types(client, table) == {}


async def test_a_table_is_sorted_by_an_id_that_all_its_first_records_have(client: Client, table: str) -> None:
    await write(client, table, {"id": 2}, {"id": 1}, {"id": 1})
    await write(client, f"{table}_some", {"id": 1}, {"n": 1})
    await write(client, f"{table}_object", {"id": {"a": 1}})

    view = await call(client, "portal_view", portalUri=PORTAL)
    columns = {one["name"]: {c["name"]: (c["type"], c["primary"]) for c in one["columns"]} for one in view["tables"]}
    assert columns[table] == {"id": ("Int64", True)}
    assert columns[f"{table}_some"] == {"id": ("Nullable(Int64)", False), "n": ("Nullable(Int64)", False)}
    assert columns[f"{table}_object"] == {"id": ("JSON", False)}
    assert await values(client, f"SELECT id FROM {table}") == [1, 1, 2]  # not a promise that it is unique


async def test_a_record_without_the_id_its_table_is_sorted_by_is_refused(client: Client, table: str) -> None:
    await write(client, table, {"id": 1, "n": 1})
    for record in ({"n": 1}, {"id": None, "n": 1}):
        assert "'id'" in await not_written(client, table, {"id": 2, "n": 2}, record)
    assert await values(client, f"SELECT id FROM {table}") == [1]


async def test_messages_start_with_the_columns_of_the_specification(client: Client, table: str) -> None:
    portal = f"mem://tests/{table}"
    await write(client, "messages", {"role": "user", "content": "hi", "mood": 3}, portal=portal)
    own = {"id": SOME_UUID, "timestamp": "2026-01-31T10:00:00Z", "role": "tool", "tool_calls": ["a", "b"]}
    await write(client, "messages", own, portal=portal)

    assert await types(client, "messages", portal=portal) == {
        "id": "UUID",
        "timestamp": MOMENT,
        "role": "String",
        "content": "String",
        "tool_calls": "Array(String)",
        "mood": "Nullable(Int64)",
    }
    first, second = await query(client, "SELECT * FROM messages ORDER BY role = 'tool'", portal=portal)
    assert UUID(first.pop("id")).version == 4
    assert first.pop("timestamp") > "2026"
    assert first == {"role": "user", "content": "hi", "tool_calls": [], "mood": 3}
    assert second == own | {"timestamp": "2026-01-31T10:00:00.000Z", "content": "", "mood": None}
    assert "tool_calls" in await not_written(client, "messages", {"tool_calls": [{"a": 1}]}, portal=portal)


async def test_a_portal_says_what_it_is_and_every_change_of_its_schema_counts(client: Client, table: str) -> None:
    portal = f"mem://tests/{table}"
    await write(client, "one", {"a": 1}, portal=portal)
    first = await metadata(client, portal=portal)
    await write(client, "one", {"a": 2}, portal=portal)
    unchanged = await metadata(client, portal=portal)
    await write(client, "one", {"b": "x", "c": 1.5}, portal=portal)
    await not_written(client, "one", {"d": 1, "a": "no"}, portal=portal)
    await write(client, "two", {"a": 1}, portal=portal)
    last = await metadata(client, portal=portal)
    await delete(client, "two", confirm=True, portal=portal)
    after = await metadata(client, portal=portal)

    assert {name for name in first if not name.startswith("mcp.schema")} == {
        *("mcp.version", "mcp.created_at", "mcp.server.name", "mcp.server.version"),
        *("mcp.portal.id", "mcp.portal.name", "mcp.portal.description"),
    }
    assert (first["mcp.portal.id"], first["mcp.portal.name"]) == (f"tests/{table}", table)
    assert first["mcp.server.name"] == "memory-mcp"
    assert first["mcp.created_at"].endswith("Z")
    assert unchanged == first
    assert [found["mcp.schema_version"] for found in (first, last, after)] == ["1", "3", "4"]
    assert "`c` Nullable(Float64)" in last["mcp.schema.one"]
    assert "`d`" not in last["mcp.schema.one"]
    assert last["mcp.schema.two"].startswith("CREATE TABLE")
    assert "mcp.schema.two" not in after
    assert await values(
        client, "SELECT uniqExact(created_at) FROM _mcp_metadata WHERE key = 'mcp.version'", portal=portal
    )
    [types_of] = await query(
        client,
        "SELECT toTypeName(key) AS k, toTypeName(value) AS v, toTypeName(updated_at) AS u FROM _mcp_metadata LIMIT 1",
    )
    assert types_of == {"k": "String", "v": "String", "u": "DateTime64(3)"}


# All or nothing


BAD: dict[str, Any] = {"n": "not a number"}
GOOD: list[dict[str, Any]] = [{"n": number} for number in range(50)]


async def test_one_bad_record_keeps_the_whole_batch_out(client: Client, table: str) -> None:
    await write(client, table, {"n": -1})
    for records in ([BAD, *GOOD], [*GOOD, BAD, *GOOD], [*GOOD, BAD], [*GOOD, {"n": 2**127}]):
        await not_written(client, table, *records)
        await not_written(client, table, *({**record, "new": 1} for record in records))

    assert await values(client, f"SELECT n FROM {table}") == [-1]
    assert await types(client, table) == {"n": "Nullable(Int64)"}


async def test_a_bad_record_after_many_good_ones_keeps_them_out_too(client: Client, table: str) -> None:
    await write(client, table, {"n": -1})
    await not_written(client, table, *({"n": number} for number in range(20_000)), BAD)
    assert await values(client, f"SELECT count() FROM {table}") == [1]


async def test_a_refused_write_leaves_no_table_and_no_portal(client: Client, table: str) -> None:
    portal = f"mem://tests/{table}"
    await not_written(client, table, {"a": 1}, {"a": "x"})
    await not_written(client, "messages", {"role": 5}, portal=portal)

    assert table not in await tables(client)
    assert (await refusal(client, "portal_view", portalUri=portal))["error"] == "not_found"
    listed = [resource.uri for resource in (await client.list_resources()).resources]
    assert portal not in listed
    await write(client, "messages", {"role": "user"}, portal=portal)
    assert await tables(client, portal=portal) == {"messages"}


async def test_a_value_is_never_bent_to_fit_its_column(client: Client, table: str) -> None:
    await write(
        client,
        table,
        {
            **{"whole": 1, "wide": 2**63, "number": 1.5, "truth": True, "text": "x", "uuid": SOME_UUID},
            **{"moment": "2026-01-31T10:00:00Z", "wholes": [1], "texts": ["a"], "object": {"a": 1}},
        },
    )
    misfits: list[tuple[str, Any]] = [
        *(("whole", "x"), ("whole", True), ("whole", 2**127), ("whole", "9" * 20), ("whole", [1])),
        *(("wide", 2**127), ("number", 2**53 + 1), ("number", "x"), ("number", True), ("truth", 2), ("truth", "true")),
        *(("text", 5), ("text", True), ("text", ["a"]), ("text", {"a": 1}), ("uuid", "x"), ("uuid", 5)),
        *(("moment", "nonsense"), ("moment", True), ("wholes", ["x"]), ("wholes", 1), ("wholes", [2**127])),
        *(("wholes", [None]), ("texts", [None]), ("texts", [1]), ("object", [1]), ("object", "x")),
    ]
    for column, value in misfits:
        await not_written(client, table, {column: value})
    assert await values(client, f"SELECT count() FROM {table}") == [1]


async def test_missing_values_are_null_or_empty(client: Client, table: str) -> None:
    await write(client, table, {"n": 1, "texts": ["a"], "object": {"a": 1}}, {})
    await write(client, table, {"n": None, "texts": None, "object": None})

    nothing: dict[str, Any] = {"n": None, "texts": [], "object": {}}
    assert await query(client, f"SELECT * FROM {table} WHERE n IS NULL") == [nothing, nothing]
    assert "at least one field" in await not_written(client, f"{table}_none", {})


# Values


async def test_wide_numbers_and_decimals_are_texts_and_say_their_type(client: Client) -> None:
    answer = await call(
        client,
        "portal_query",
        portalUri=PORTAL,
        sql="""
            SELECT toInt64(9007199254740992) AS last, toInt64(9007199254740993) AS wide, -9007199254740993 AS least,
                toUInt64(18446744073709551615) AS unsigned, toInt128('170141183460469231731687303715884105727') AS huge,
                toDecimal64('1.50', 2) AS price, [9007199254740993] AS list, map('a', 9007199254740993) AS map,
                nan AS a, inf AS b, -inf AS c, 1e18 AS float, 0.1 AS tenth, toDate('2026-01-31') AS day,
                toDateTime('2026-01-31 10:00:00') AS moment, tuple(1, 'a') AS pair, CAST(NULL, 'Nullable(Int8)') AS none
        """,
    )
    assert answer["rows"] == [
        {
            **{"last": 2**53, "wide": "9007199254740993", "least": "-9007199254740993"},
            **{"unsigned": str(2**64 - 1), "huge": str(2**127 - 1), "price": "1.5"},
            **{"list": ["9007199254740993"], "map": {"a": "9007199254740993"}},
            **{"a": None, "b": None, "c": None, "float": 1e18, "tenth": 0.1, "day": "2026-01-31"},
            **{"moment": "2026-01-31T10:00:00Z", "pair": [1, "a"], "none": None},
        }
    ]
    types = {column["name"]: column["type"] for column in answer["columns"]}
    assert (types["wide"], types["huge"], types["price"]) == ("Int64", "Int128", "Decimal(18, 2)")


async def test_a_wide_number_read_as_text_can_be_written_and_queried_again(client: Client, table: str) -> None:
    await write(client, table, {"n": 2**62 + 1})
    [text] = await values(client, f"SELECT n FROM {table}")
    await write(client, table, {"n": text})
    assert await values(client, f"SELECT count() FROM {table} WHERE n = {{n:Int64}}", n=text) == [2]
    assert await delete(client, table, {"n": text}) == 2


async def test_a_number_that_is_none_is_refused_on_the_wire(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="1"))
    for bad in (math.nan, math.inf):
        arguments = {"portalUri": "mem://a/b", "table": "t", "data": [{"n": bad}]}
        answer = server.ask("tools/call", {"name": "portal_write", "arguments": arguments})
        assert "error" in answer or answer["result"]["isError"]
    server.close()
    assert not list((tmp_path / "portals").glob("*/*/portal.json"))


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(nfc)
hostile = st.sampled_from(
    [
        *(
            "'",
            '"',
            "\\",
            "`",
            "\n",
            "\t",
            "\r",
            "\0",
            "\b",
            "\f",
            "\\N",
            "NULL",
            "{x:String}",
            "--",
            "/*",
            ";",
            "%s",
            "?",
        ),
        *("it's", "a\\b", "\\'", "\\\\'", "'); DROP TABLE shared; --", "\u2028", "‘quoted’", "🎉", "a\u0301", "\ufeff"),
    ]
).map(nfc)
anything = st.one_of(texts, hostile, st.tuples(hostile, texts, hostile).map("".join).map(nfc))
numbers = st.integers(-(2**53), 2**53)
floats = st.floats(allow_nan=False, allow_infinity=False)
often = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@often
@given(text=anything, several=st.lists(anything, max_size=5), number=numbers, float_=floats, truth=st.booleans())
def test_a_parameter_is_returned_unchanged(
    app: App, text: str, several: list[str], number: int, float_: float, truth: bool
) -> None:
    sql = """
        SELECT {text:String} AS text, {several:Array(String)} AS several, {number:Int64} AS number,
            {float_:Float64} AS float_, {truth:Bool} AS truth, {none:Nullable(String)} AS none,
            {maybe:Nullable(String)} AS maybe, {map:Map(String, String)} AS map, {numbers:Array(Int64)} AS numbers
    """
    given_values: dict[str, Any] = {
        **{"text": text, "several": several, "number": number, "float_": float_, "truth": truth, "none": None},
        **{"maybe": text, "map": {text: text[::-1]}, "numbers": [number, 0]},
    }
    assert query_operation(app, sql, **given_values) == [given_values]


@often
@given(
    st.lists(
        st.fixed_dictionaries(
            {"text": anything, "number": numbers, "float": floats, "truth": st.booleans(), "list": st.lists(anything)},
            optional={"maybe": st.none() | anything, "numbers": st.lists(numbers)},
        ),
        min_size=1,
        max_size=3,
    )
)
def test_records_are_returned_unchanged(app: App, records: list[dict[str, Any]]) -> None:
    mark = uuid4().hex
    fixed = {
        "text": "",
        "number": 0,
        "float": 0.5,
        "truth": True,
        "list": ["a"],
        "maybe": "",
        "numbers": [1],
        "mark": "",
    }
    if not hasattr(app, "_round_trips"):
        put(app, "round_trips", [fixed | {"position": -1}])
        object.__setattr__(app, "_round_trips", True)
    put(app, "round_trips", [{**one, "mark": mark, "position": number} for number, one in enumerate(records)])

    found = query_operation(app, "SELECT * FROM round_trips WHERE mark = {mark:String} ORDER BY position", mark=mark)
    expected = [{"maybe": None, "numbers": [], **one, "mark": mark} for one in records]
    assert [{name: value for name, value in one.items() if name != "position"} for one in found] == expected


async def test_objects_come_out_as_they_went_in(client: Client, table: str) -> None:
    objects = [
        {"a": 1, "b": {"c": [1, 2], "d": "x"}, "e": True, "f": 1.5},
        {"a.b": 1, "a": {"b": 2}},
        {"when": "2026-01-31T10:00:00Z", "day": "2026-01-31", "number": "5", "truth": "true", "none": "null"},
        {"list": [{"a": 1}, {"b": [1, "x"]}], "é🎉": "ü", 'q"uote': "it's", "back\\slash": "\\"},
        {"type": "differs"},
        {"type": 5},
    ]
    await write(client, table, *({"n": number, "object": one} for number, one in enumerate(objects)))
    assert await values(client, f"SELECT object FROM {table} ORDER BY n") == objects


async def test_a_text_of_a_mebibyte_fits_and_a_longer_one_is_too_large(client: Client, table: str) -> None:
    long = "é" * (512 * 1024)
    await write(client, table, {"text": long})
    assert await query(client, f"SELECT length(text) AS n, text = repeat('é', 524288) AS same FROM {table}") == [
        {"n": 2**20, "same": 1}
    ]
    refused = await refusal(client, "portal_write", portalUri=PORTAL, table=table, data=[{"text": long + "x"}])
    assert refused["error"] == "too_large"
    assert await values(client, f"SELECT count() FROM {table}") == [1]


@FILES_ONLY  # a server takes 100 KB of parameters
async def test_a_parameter_of_a_mebibyte_fits(client: Client) -> None:
    assert await values(client, "SELECT length({t:String}) AS n", t="é" * (512 * 1024)) == [2**20]


async def test_an_answer_too_long_for_a_model_is_cut_at_a_row_and_says_so(client: Client) -> None:
    answer = await call(
        client, "portal_query", portalUri=PORTAL, sql="SELECT repeat('word ', 200) AS t FROM numbers(500)"
    )
    assert answer["truncated"] is True
    assert 1 <= answer["rowCount"] == len(answer["rows"]) < 500
    assert len(json.dumps(answer)) < 8_000 * 6
    assert all(row["t"] == "word " * 200 for row in answer["rows"])
    assert "LIMIT" in answer["notice"]

    one = await call(client, "portal_query", portalUri=PORTAL, sql="SELECT repeat('x', 200000) AS t")
    assert (one["rows"], one["rowCount"], one["truncated"]) == ([], 0, True)
    assert "substring" in one["notice"]


@pytest.mark.parametrize("text", ["Jan 1 2026", "1/2/2024", "2026-01-01T10:00:00+02:00", " 2026-01-01 ", "2026-1-1"])
async def test_a_text_inside_of_an_object_stays_the_text_it_is(client: Client, text: str) -> None:
    written = {"id": 1, "o": {"k": text}, "l": [[text]]}
    await call(client, "portal_write", portalUri=PORTAL, table="texts", data=[written])
    sql = "SELECT o, l FROM texts"
    (row,) = (await call(client, "portal_query", portalUri=PORTAL, sql=sql))["rows"]
    assert row == {"o": {"k": text}, "l": [[text]]}
    await call(client, "portal_delete", portalUri=PORTAL, table="texts", confirm=True)


async def test_a_text_that_is_no_time_or_number_is_refused(client: Client) -> None:
    good = {"id": 1, "at": "2026-01-01T00:00:00Z"}
    await call(client, "portal_write", portalUri=PORTAL, table="times", data=[good])
    for bad in ({"id": 2, "at": "May"}, {"id": 2, "at": "5"}, {"id": 2, "at": 1_700_000_000_000}, {"id": ""}):
        refused = await refusal(client, "portal_write", portalUri=PORTAL, table="times", data=[bad])
        assert refused["error"] == "invalid", bad
    where = {"at": {"lt": 1_800_000_000_000}}
    assert (await refusal(client, "portal_delete", portalUri=PORTAL, table="times", where=where))["error"] == "invalid"
    await call(client, "portal_delete", portalUri=PORTAL, table="times", confirm=True)


# Parameters


async def test_a_parameter_can_be_of_any_plain_type(client: Client) -> None:
    cases: list[tuple[str, Any, Any]] = [
        ("Date", "2026-01-31", "2026-01-31"),
        ("DateTime", "2026-01-31T10:00:00+02:00", "2026-01-31T08:00:00Z"),
        ("DateTime64(3)", "2026-01-31T10:00:00.5Z", "2026-01-31T10:00:00.500Z"),
        ("DateTime64(3)", "2026-01-31 10:00:00", "2026-01-31T10:00:00.000Z"),
        ("DateTime64(3, 'Europe/Berlin')", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00.000Z"),
        ("Nullable(DateTime64(3))", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00.000Z"),
        ("UUID", SOME_UUID, SOME_UUID),
        ("UInt64", 2**64 - 1, str(2**64 - 1)),
        ("UInt64", str(2**64 - 1), str(2**64 - 1)),
        ("Int256", -(2**200), str(-(2**200))),
        ("Decimal(18, 4)", "1.2345", "1.2345"),
        ("FixedString(3)", "abc", "abc"),
        ("IPv4", "127.0.0.1", "127.0.0.1"),
        ("Array(Float64)", [1.5, -2], [1.5, -2]),
        ("Array(UUID)", [SOME_UUID], [SOME_UUID]),
        ("Array(String)", [], []),
        ("Array(DateTime64(3))", ["2026-01-31T10:00:00Z"], ["2026-01-31T10:00:00.000Z"]),
    ]
    columns = ", ".join(f"{{p{number}:{type_}}} AS p{number}" for number, (type_, *_) in enumerate(cases))
    given_values = {f"p{number}": value for number, (_, value, _) in enumerate(cases)}
    [row] = await query(client, f"SELECT {columns}", **given_values)
    assert list(row.values()) == [shown for *_, shown in cases]


async def test_a_parameter_that_does_not_fit_its_type_is_refused(client: Client) -> None:
    misfits: list[tuple[str, Any]] = [
        *(("Int64", 2**63), ("UInt8", 256), ("UInt8", -1), ("Int64", "x"), ("Int64", None), ("Int64", 1.5)),
        *(("Array(Int64)", [1, None]), ("Array(UInt8)", [256]), ("Array(Int64)", 1), ("UUID", "x"), ("Date", "x")),
    ]
    for type_, value in misfits:
        arguments = {"sql": f"SELECT {{v:{type_}}} AS v", "parameters": {"v": value}}
        refused = await refusal(client, "portal_query", portalUri=PORTAL, **arguments)
        assert (refused["error"], refused["data"]["field"]) == ("invalid", "parameters")


async def test_a_parameter_is_bound_and_never_pasted_in(client: Client) -> None:
    evil = "' OR 1 = 1 --"
    assert await query(client, "SELECT * FROM shared WHERE word = {w:String}", w=evil) == []
    missing = await refusal(client, "portal_query", portalUri=PORTAL, sql="SELECT {v:String}")
    assert "`v`" in missing["message"]
    assert await values(client, "SELECT 1", unused="x") == [1]


async def test_a_failed_query_leaves_nothing_in_the_next_answer(client: Client) -> None:
    for _ in range(3):
        failing = "SELECT number, throwIf(number = 9999) FROM numbers(10000)"
        assert (await refusal(client, "portal_query", portalUri=PORTAL, sql=failing))["error"] == "invalid"
        assert await values(client, "SELECT 42 AS answer") == [42]


async def test_comments_and_a_last_semicolon_do_no_harm(client: Client) -> None:
    for sql in ("SELECT 1 -- one", "SELECT 1;", "/* one */ SELECT 1", "SELECT 1 ; -- one", "\n SELECT\n1\n"):
        assert await values(client, sql) == [1]


async def test_an_error_of_the_engine_leaks_no_internals(client: Client, data_dir: Path) -> None:
    for sql in ("SELECT nothing FROM shared", "SELECT toInt64('x')", "SELECT", "SELEC 1", "SELECT * FROM", "SELECT (1"):
        refused = await refusal(client, "portal_query", portalUri=PORTAL, sql=sql)
        assert refused["error"] in ("invalid", "unknown_column", "type_mismatch")
        assert str(data_dir) not in refused["message"]
        assert "DB::Exception" not in refused["message"]
        assert len(refused["message"]) < 600


@pytest.mark.parametrize(
    ("sql", "error", "field", "message"),
    [
        ("SELECT nothing FROM shared", "unknown_column", "sql", "There is no column 'nothing'."),
        ("SELECT id, count() FROM shared", "invalid", "sql", "neither in an aggregate function nor in GROUP BY."),
        (
            "SELECT 1 FROM",
            "invalid",
            "sql",
            "This cannot be read as SQL: syntax error at position 14 (end of query).",
        ),
        ("DESCRIBE shared", "read_only_query", "sql", "only SELECT is possible here."),
        ("SELECT id FROM shared FINAL", "invalid", "sql", "Tables of portals know neither SAMPLE nor FINAL."),
        ("SELECT match('a', '(')", "invalid", "sql", "This regular expression cannot be read: missing ): (."),
        ("SELECT {a:Int64}", "invalid", "parameters", "The query has a parameter `a`, and there is no value for it."),
        ("SELECT {n:Int64}", "invalid", "parameters", "The value of 'n' does not fit Int64."),
        (f"SELECT {'+'.join('1' * 5000)}", "too_large", "sql", "The query is nested too deeply: 150 operators"),
        (
            f"SELECT {'(' * 3000}1{')' * 3000}",
            "too_large",
            "sql",
            "The query is nested too deeply: 150 operators",
        ),
        (f"SELECT {'+'.join('1' * 250)} AS a", "too_large", "sql", "The query is nested too deeply: 150 operators"),
        ("SELECT * FROM zeros(2)", "read_only_query", "sql", "The table function 'zeros' is not possible here"),
        ("INSERT INTO shared VALUES (1)", "read_only_query", "sql", "This is not one SELECT: only SELECT is possible"),
        ("SELECT runningDifference(id) FROM shared", "read_only_query", "sql", "'runningDifference' is not possible"),
        ("SELECT row_exists FROM shared", "unknown_column", "sql", "There is no column 'row_exists'."),
        ("SELECT '\\xZZ'", "read_only_query", "sql", "This is not one SELECT: it has a text that is not UTF-8."),
        (f"SELECT length('{'x' * 5000}')", "too_large", "sql", "SELECT … AS name."),
        *(
            (f"SELECT CAST({text}, 'JSON') AS x", "too_large", "sql", "nested more than 100 levels deep")
            for text in (
                """concat('{"a":', repeat('[', 100), repeat(']', 100), '}')""",
                """concat('{"a":', repeat('[', 900), repeat(']', 900), '}')""",
                """concat(repeat('{"a":', 300), '1', repeat('}', 300))""",
            )
        ),
        (f"SELECT {','.join('1' * 8000)}", "too_large", "sql", "the result has 8000 columns."),
    ],
)
async def test_an_error_of_the_engine_is_reported_in_plain_words(
    client: Client, sql: str, error: str, field: str, message: str
) -> None:
    refused = await refusal(client, "portal_query", portalUri=PORTAL, sql=sql, parameters={"n": "x"})
    assert (refused["error"], refused["data"]) == (error, {"field": field})
    assert refused["message"].startswith(f"{field}: ")
    assert message in refused["message"]
    assert not any(word in refused["message"] for word in ("scope", "executing", "__table", "portal.", "Expected one"))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {'+'.join('1' * 150)} AS a",
        f"SELECT {'(' * 150}1{')' * 150} AS a",
        f"SELECT {'abs(' * 100}1{')' * 100} AS a",
        f"SELECT * FROM {'(SELECT * FROM ' * 30}numbers(1){')' * 30}",
        pytest.param(f"SELECT {'abs(' * 300}1{')' * 300} AS a", marks=FILES_ONLY),
        pytest.param(f"SELECT * FROM {'(SELECT * FROM ' * 80}numbers(1){')' * 80}", marks=FILES_ONLY),
        """SELECT CAST(concat('{"a":', repeat('[', 99), repeat(']', 99), '}'), 'JSON') AS x""",
    ],
)
def test_a_query_is_nested_as_deep_as_the_docs_say(app: App, sql: str) -> None:
    assert len(query_operation(app, sql)) == 1


async def test_long_names_of_columns_do_not_make_a_long_answer(client: Client) -> None:
    refused = await refusal(
        client, "portal_query", portalUri=PORTAL, sql="SELECT length({a:String})", parameters={"a": "x" * 100_000}
    )
    assert (refused["error"], "AS name" in refused["message"]) == ("too_large", True)
    many = (
        ", ".join(f"1 AS {'x' * 900}{number}" for number in range(900)).replace(", ", ",")[:65_000].rpartition(",")[0]
    )
    assert await query(client, "SELECT length({a:String}) AS l", a="x" * 100_000) == [{"l": 100_000}]
    assert len(await query(client, f"SELECT {many}")) == 1


async def test_a_query_can_hold_thousands_of_values(client: Client) -> None:
    numbers = ",".join(map(str, range(8000)))
    assert await values(client, f"SELECT count() FROM numbers(10000) WHERE number IN ({numbers})") == [8000]
    chain = " OR ".join(f"number = {n}" for n in range(3000))
    assert await values(client, f"SELECT count() FROM numbers(10000) WHERE {chain}") == [3000]


async def test_a_record_that_does_not_fit_is_named(client: Client, table: str) -> None:
    good = {"s": "a", "l": [1], "n": 1, "f": 1.5, "u": SOME_UUID}
    await write(client, table, good)
    for bad, message in (
        ({"s": 5}, "'s' of record 1 is 5, which does not fit String."),
        ({"l": 5}, "'l' of record 1 is 5, which does not fit Array(Int64)."),
        ({"l": [True]}, "'l' of record 1 is [true], which does not fit Array(Int64)."),
        ({"n": "x" * 200}, "which does not fit Int64."),
        ({"f": "x" * 200}, "which does not fit Float64."),
        ({"u": "x"}, 'is "x", which does not fit UUID.'),
    ):
        assert message in await not_written(client, table, good, {**good, **bad})


async def test_an_address_with_more_than_a_portal_is_refused_where_a_portal_is_wanted(
    client: Client, table: str
) -> None:
    await write(client, table, {"n": 1})
    calls: dict[str, dict[str, Any]] = {
        "write": {"table": table, "data": [{"n": 2}]},
        "query": {"sql": "SELECT 1"},
        "delete": {"table": table, "confirm": True},
        "import": {"source": "x.json", "format": "json"},
        "export": {"destination": "x.json", "format": "json", "table": table},
    }
    for tool, more in calls.items():
        for tail in (f"/{table}?limit=1", "?limit=1", "#x", "?"):
            refused = await refusal(client, f"portal_{tool}", portalUri=PORTAL + tail, **more)
            assert (refused["error"], refused["data"]) == ("invalid", {"field": "portalUri"})
            assert f"give {PORTAL} alone" in refused["message"]
    view = await call(client, "portal_view", portalUri=f"{PORTAL}/{table}")
    assert (view["portalUri"], [one["name"] for one in view["tables"]]) == (PORTAL, [table])
    assert (await refusal(client, "portal_view", portalUri=f"{PORTAL}/missing"))["error"] == "not_found"
    assert (await refusal(client, "portal_view", portalUri=f"{PORTAL}?limit=1"))["error"] == "invalid"


# Deleting


TEN = [
    {"n": n, "word": f"Word {n}" if n else None, "at": f"2026-01-{n + 1:02d}T10:00:00Z", "list": [n]} for n in range(10)
]


async def test_a_delete_removes_only_matching_rows(mcp_server: McpServer, table: str) -> None:
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"n": 3}, [3]),
        ({"n": [3, 4, 99]}, [3, 4]),
        ({"n": []}, []),
        ({"word": None}, [0]),
        ({"word": ["Word 1", None]}, [0, 1]),
        ({"word": {"ne": None}}, list(range(1, 10))),
        ({"n": {"lt": 2}}, [0, 1]),
        ({"n": {"lte": 2}}, [0, 1, 2]),
        ({"n": {"gt": 7}}, [8, 9]),
        ({"n": {"gte": 7}}, [7, 8, 9]),
        ({"n": {"eq": 7}}, [7]),
        ({"n": {"ne": 7}}, [0, 1, 2, 3, 4, 5, 6, 8, 9]),
        ({"n": {"gt": 2, "lt": 5}}, [3, 4]),
        ({"n": {"gt": 2}, "word": "Word 5"}, [5]),
        ({"word": {"like": "%rd 5"}}, [5]),
        ({"word": {"like": "%RD 5"}}, []),
        ({"word": "Word_5"}, []),
        ({"at": {"lt": "2026-01-02"}}, [0]),
        ({"at": {"lt": "2026-01-02T10:00:00Z"}}, [0]),
        ({"at": "2026-01-02T12:00:00+02:00"}, [1]),
        ({"at": ["2026-01-01T10:00:00.000Z", "2026-01-02 10:00:00"]}, [0, 1]),
        ({"list": {"eq": [4]}}, [4]),
        ({"word": "' OR 1 = 1 --"}, []),
    ]
    async with connected(mcp_server) as client:
        await write(client, table, *TEN)
        for where, gone in cases:
            assert await delete(client, table, where) == len(gone)
            left = await values(client, f"SELECT n FROM {table} ORDER BY n")
            assert left == [n for n in range(10) if n not in gone], where
            if gone:
                await write(client, table, *(TEN[n] for n in gone))


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00.000Z", "1850-06-01T00:00:00.000Z"])
async def test_a_time_long_ago_or_far_ahead_is_deleted_as_it_is_written(
    client: Client, table: str, moment: str
) -> None:
    await write(client, table, {"at": moment}, {"at": "2026-01-01T00:00:00.000Z"}, {"at": None})
    assert await delete(client, table, {"at": moment}) == 1
    assert await values(client, f"SELECT at FROM {table} ORDER BY at") == ["2026-01-01T00:00:00.000Z", None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("Date", day) for day in ("2026-13-01", "2026-02-30", "1900-01-01", "2200-01-01")),
        *(("DateTime", time) for time in ("2026-01-01 25:00:00", "1900-01-01", "2200-01-01T00:00:00Z")),
        *(("DateTime64(3)", time) for time in ("2026-02-30T00:00:00", "2026-13-01")),
        *(("Nullable(Date)", "2026-13-01"), ("Array(Date)", ["2026-01-01", "2026-13-01"])),
        *(("Array(DateTime)", ["1900-01-01 00:00:00"]), ("DateTime64(9)", "2400-01-01")),
        *(("String", value) for value in (None, ["a"], {"a": "b"})),
        *(("Map(String, String)", {"a": None}), ("Float64", "nan"), ("Float64", 2**53 + 1)),
    ],
)
def test_a_parameter_that_would_become_another_value_is_refused(app: App, kind: str, value: Any) -> None:
    with pytest.raises(Invalid, match="parameters: The value of 'x' does not fit"):
        query_operation(app, f"SELECT {{x:{kind}}} AS x", x=value)


async def test_two_fields_that_are_one_in_nfc_are_refused(client: Client, table: str) -> None:
    assert "one in NFC" in await not_written(client, table, {"cafe\u0301": 1, "caf\u00e9": 2})


async def test_a_condition_that_makes_no_sense_is_refused_and_deletes_nothing(client: Client, table: str) -> None:
    await write(client, table, *TEN)
    wheres: list[dict[str, Any]] = [
        *({"nothing": 1}, {"n": {"above": 1}}, {"n": {}}, {"n": "x"}, {"n": 2**63}, {"n": {"lt": None}}, {"n": True}),
        *({"at": "2026-02-31"}, {"at": "2026-02-30 00:00:00"}, {"at": {"lt": "2026-01-01 25:00:00"}}),
        *({"at": ["2026-13-01"]}, {"at": "0001-01-01T00:00:00+02:00"}, {"word": {"lt": None}}),
        *({"at": "yesterday"}, {"list": {"a": 1}}, {"n) OR (1": 1}, {"n": [1, 2**64]}, {"n": {"like": "x"}}),
    ]
    for where in wheres:
        refused = await refusal(client, "portal_delete", portalUri=PORTAL, table=table, where=where)
        assert (refused["error"], refused["data"]["field"]) == ("invalid", "where"), where
    assert await values(client, f"SELECT count() FROM {table}") == [10]


async def test_a_whole_table_goes_only_when_that_is_confirmed(client: Client, table: str) -> None:
    await write(client, table, *TEN)
    wholes: list[dict[str, Any]] = [{}, {"where": {}}, {"where": None}, {"confirm": False}]
    for more in wholes:
        refused = await refusal(client, "portal_delete", portalUri=PORTAL, table=table, **more)
        assert (refused["error"], refused["data"]["field"]) == ("invalid", "where")
        assert "confirm: true" in refused["message"]
    assert await delete(client, table, confirm=True) == 10
    assert table not in await tables(client)
    assert (await refusal(client, "portal_delete", portalUri=PORTAL, table=table, confirm=True))["error"] == "not_found"
    await write(client, table, {"n": "another type"})
    assert await types(client, table) == {"n": "Nullable(String)"}


@FILES_ONLY
def test_deleted_rows_leave_the_disk_within_seconds(app: App, data_dir: Path) -> None:
    folder = data_dir / "portals" / "tests" / "purged"
    portal, mark = "mem://tests/purged", uuid4().hex
    put(app, "secrets", [{"n": 1, "text": f"{mark}-row"}, {"n": 2, "text": "stays"}], portal)
    put(app, "whole", [{"text": f"{mark}-table"}], portal)
    assert _files_with(folder, mark)

    caller = Caller(LOCAL_USER, frozenset(Scope), frozenset({"portals"}))
    app.portals.delete(caller, portal, "secrets", {"n": 1}, confirm=False)
    app.portals.delete(caller, portal, "whole", None, confirm=True)

    eventually(lambda: not _files_with(folder, mark))
    assert query_operation(app, "SELECT text FROM secrets", portal=portal) == [{"text": "stays"}]


def _files_with(folder: Path, mark: str) -> list[Path]:
    found = []
    for path, _, names in os.walk(folder):  # which does not mind folders that go while it looks
        for name in names:
            with suppress(FileNotFoundError):
                if Path(path, name).is_file() and mark.encode() in Path(path, name).read_bytes():
                    found.append(Path(path, name))
    return found


async def test_an_unknown_tool_of_the_family_is_an_error_of_the_protocol(client: Client) -> None:
    with pytest.raises(MCPError) as caught:
        await client.call_tool("memory/rename", {})
    assert caught.value.error.code == -32602
