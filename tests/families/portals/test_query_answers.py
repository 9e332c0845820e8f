"""What a query answers: rows within a budget of tokens, and errors with a code, the nearest name and a suggestion."""

import json
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.families.portals.query_results import count_tokens
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import PORTAL, put

pytestmark = pytest.mark.anyio

MAX_TOKENS = 8_000
PEOPLE = [
    {"id": 1, "name": "Ann", "born": "1990-05-01", "joined": "2026-01-31T10:00:00Z", "salary": 10.5},
    {"id": 2, "name": "Bob", "born": None, "joined": None, "salary": None},
]


@pytest.fixture(scope="module", autouse=True)
def people(app: App) -> None:
    put(app, "people", PEOPLE)
    put(app, "orders", [{"person": 1, "total": 3}])
    put(app, "secret_table", [{"secret_column": 1}], "mem://tests/other")


# Rows


async def query(client: Client, sql: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = await call(client, "portal_query", portalUri=PORTAL, sql=sql, **more)
    return found


async def test_rows_are_objects_unless_arrays_are_wanted(client: Client) -> None:
    sql = "SELECT id, name FROM people ORDER BY id"
    columns = [{"name": "id", "type": "Int64"}, {"name": "name", "type": "Nullable(String)"}]
    objects = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]
    for more, rows in (
        ({}, objects),
        ({"format": "objects"}, objects),
        ({"format": "arrays"}, [[1, "Ann"], [2, "Bob"]]),
    ):
        answer = await query(client, sql, **more)
        assert answer.pop("elapsedMs") > 0
        assert answer == {"columns": columns, "rows": rows, "rowCount": 2, "truncated": False}
    refused = await refusal(client, "portal_query", portalUri=PORTAL, sql=sql, format="csv")
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "format")


async def test_bytes_that_are_no_text_are_replaced(client: Client) -> None:
    found = await query(client, "SELECT unhex('61FF62') AS a, [unhex('FF')] AS b, map(unhex('FF'), 1) AS c")
    assert found["rows"] == [{"a": "a\ufffdb", "b": ["\ufffd"], "c": {"\ufffd": 1}}]
    digest = await query(client, "SELECT RIPEMD160('x')", format="arrays")
    assert "\ufffd" in digest["rows"][0][0]


async def test_arrays_take_fewer_tokens_so_more_rows_fit(client: Client) -> None:
    sql = "SELECT number AS a_long_name_of_a_column, number AS another_one FROM numbers(10000)"
    objects, arrays = await query(client, sql), await query(client, sql, format="arrays")
    assert arrays["rowCount"] > 2 * objects["rowCount"]
    assert [list(row) for row in arrays["rows"][:2]] == [[0, 0], [1, 1]]


@pytest.mark.parametrize("row_format", ["objects", "arrays"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT number FROM numbers(100000)",
        "SELECT generateUUIDv4() AS id, now64(3) AS at FROM numbers(5000)",
        "SELECT repeat('some words of a text ', 20) AS t FROM numbers(5000)",
        "SELECT number % 10 AS a, number % 7 AS b, [1, 2, 3] AS c, rand() / 3 AS d FROM numbers(100000)",
    ],
)
async def test_an_answer_stays_within_its_tokens_and_says_how_to_get_the_rest(
    client: Client, sql: str, row_format: str
) -> None:
    answer = await query(client, sql, format=row_format)
    assert answer["truncated"] is True
    assert answer["rowCount"] == len(answer["rows"]) > 10
    assert MAX_TOKENS * 0.9 < count_tokens([answer["columns"], answer["rows"]]) < MAX_TOKENS * 1.05
    assert len(json.dumps(answer)) < 4 * MAX_TOKENS * 1.5
    for way in ("LIMIT", f"OFFSET {answer['rowCount']}", "GROUP BY", "portal_export"):
        assert way in answer["notice"]


async def test_the_rest_is_there_at_the_offset_that_the_notice_names(client: Client) -> None:
    first = await query(client, "SELECT number FROM numbers(100000) ORDER BY number")
    second = await query(
        client, f"SELECT number FROM numbers(100000) ORDER BY number LIMIT 10 OFFSET {first['rowCount']}"
    )
    assert second["rows"][0] == {"number": first["rowCount"]}


async def test_a_single_row_may_be_longer_and_one_that_is_far_too_long_is_left_out(client: Client) -> None:
    whole = await query(client, "SELECT repeat('a few words ', 4000) AS t")
    assert (whole["rowCount"], whole["truncated"]) == (1, False)
    cut = await query(client, "SELECT repeat('a few words ', 9000) AS t")
    assert (cut["rows"], cut["truncated"]) == ([], True)
    assert "substring" in cut["notice"]


# Errors


@pytest.mark.parametrize(
    ("sql", "code", "nearest", "words"),
    [
        ("SELECT * FROM peple", "unknown_table", "people", "Did you mean 'people'?"),
        ("SELECT * FROM PEOPLE", "unknown_table", "people", "Did you mean 'people'?"),
        ("SELECT 1 IN zzz", "unknown_table", None, "It has: orders, people."),
        ("WITH totals AS (SELECT 1 AS x) SELECT * FROM total", "unknown_table", "totals", "'totals'"),
        ("SELECT * FROM secret_tabl", "unknown_table", None, "It has: orders, people."),
        ("SELECT * FROM other.secret_table", "unknown_table", None, "It has: orders, people."),
        ("SELECT * FROM system.tables", "unknown_table", None, "It has: orders, people."),
        ("SELECT nam FROM people", "unknown_column", "name", "Did you mean name?"),
        ("SELECT p.nmae FROM people AS p", "unknown_column", "p.name", "Did you mean p.name?"),
        ("SELECT people.naem FROM people", "unknown_column", "people.name", "'people.naem'"),
        ("SELECT Salary FROM people", "unknown_column", "salary", "Did you mean salary?"),
        ("SELECT zzz FROM people", "unknown_column", None, "The columns are: id, name, born, joined, salary."),
        ("SELECT secret_colum FROM people", "unknown_column", None, "The columns are: id"),
        ("SELECT mcp_write FROM people", "unknown_column", None, "The columns are: id, name, born, joined, salary."),
        ("SELECT p.mcp_write FROM people AS p", "unknown_column", None, "The columns are: id, name"),
        ('SELECT * FROM people WHERE name = "Ann"', "unknown_column", None, "A text stands in single quotes: 'Ann'."),
        ("SELECT id FROM people ORDER BY nmae", "unknown_column", "name", "Did you mean name?"),
        ("SELECT lenght(name) FROM people", "unknown_function", "length", "Did you mean length?"),
        ("SELECT TO_CHAR(born) FROM people", "unknown_function", "formatDateTime", "formatDateTime"),
        ("SELECT qqqqzzzz(1)", "unknown_function", None, "There is no function 'qqqqzzzz'."),
        ("SELECT * FROM nubmers(3)", "unknown_function", "numbers", "There is no function 'nubmers'."),
        ("SELECT nmae FROM people", "unknown_column", "name", "Did you mean name?"),
        ("SELECT * FROM people WHERE toDate(born) > name", "type_mismatch", None, "toDate(x)"),
        ("SELECT * FROM people WHERE toDate(born) = 'yesterday'", "type_mismatch", None, "'yesterday' is not a valid"),
        ("SELECT * FROM people WHERE joined > 'soon'", "type_mismatch", None, "'soon' is not a time."),
        ("SELECT * FROM people WHERE toDate(born) > 20260101", "type_mismatch", None, "toDate('2026-01-31')"),
        ("SELECT toYear(name) FROM people", "type_mismatch", None, "toDate(x)"),
        ("SELECT sum(name) FROM people", "type_mismatch", None, "toFloat64(x)"),
        ("SELECT name + 1 FROM people", "type_mismatch", None, "toInt64(x)"),
        ("SELECT * FROM people WHERE id = 'x'", "type_mismatch", None, "The text 'x' does not fit Int64."),
        ("SELECT length(id) FROM people", "type_mismatch", None, "toString(x)"),
        ("SELECT toInt64('x')", "type_mismatch", None, "toInt64"),
        ("SELECT 1 FROM", "invalid", None, "This cannot be read as SQL: syntax error at position 14"),
        ("SELEC 1", "invalid", None, "syntax error"),
        ("DROP TABLE people", "read_only_query", None, "SELECT"),
        ("UPDATE people SET", "read_only_query", None, "SELECT"),
        ("insert into people", "read_only_query", None, "SELECT"),
        ("SELECT 1; SELECT 2", "read_only_query", None, "one SELECT"),
        ("SELECT 1 SETTINGS readonly = 0", "read_only_query", None, "SETTINGS"),
        ("DESCRIBE people", "read_only_query", None, "portal_view lists tables and columns."),
    ],
)
async def test_an_error_of_a_query_has_its_code_and_a_suggestion(
    client: Client, sql: str, code: str, nearest: str | None, words: str
) -> None:
    refused = await refusal(client, "portal_query", portalUri=PORTAL, sql=sql)
    assert refused["error"] == code, refused
    expected = {"field": "sql"} | ({"nearest": [nearest]} if nearest else {})
    assert refused["data"] == expected, refused
    assert refused["message"].startswith("sql: ")
    assert words in refused["message"], refused
    for leak in ("DB::", "__table", "scope", "executing", "portal.people", "/", "secret_column", "mem://tests/other"):
        assert leak not in refused["message"].replace(sql, "")


async def test_a_suggested_name_works(client: Client) -> None:
    refused = await refusal(client, "portal_query", portalUri=PORTAL, sql="SELECT p.nmae FROM people AS p")
    assert (await query(client, f"SELECT {refused['data']['nearest']} FROM people AS p"))["rowCount"] == 2


@pytest.mark.parametrize("name", ["x" * 60_000, "`" + "\\`" * 2000 + "`", "é" * 5000, "a.b.c.d.e"])
async def test_a_hostile_name_is_refused_in_a_short_message(client: Client, name: str) -> None:
    for sql in (f"SELECT {name} FROM people", f"SELECT * FROM {name}", f"SELECT {name}(1)"):
        refused = await refusal(client, "portal_query", portalUri=PORTAL, sql=sql)
        assert refused["error"].startswith(("unknown", "invalid", "read_only", "too_large"))
        assert len(refused["message"]) < 800


async def test_an_export_names_the_unknown_column_of_its_query(client: Client) -> None:
    for sql, code, nearest in (
        ("SELECT nam FROM people", "unknown_column", "name"),
        ("SELECT * FROM peple", "unknown_table", "people"),
    ):
        more = {"destination": "x.csv", "format": "csv", "query": sql}
        refused = await refusal(client, "portal_export", portalUri=PORTAL, **more)
        assert (refused["error"], refused["data"]) == (code, {"field": "query", "nearest": [nearest]})
