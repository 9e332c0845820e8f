"""Columns get a wider type when later values need one, and any key of a record becomes a column."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.address import Address, column_name
from memory_mcp.families.portals.model import NewColumn
from memory_mcp.families.portals.wider_types import wider_type, wider_type_for_file
from tests.clickhouse import FILES_ONLY
from tests.exhaustive import sample
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import CALLER, PORTAL, metadata, put, query, tables, types, values, write
from tests.families.portals.test_processes import engine_pid, start
from tests.wire import Stdio

pytestmark = pytest.mark.anyio
MOMENT = "DateTime64(3, 'UTC')"


@pytest.fixture(scope="module", autouse=True)
def shared_portal(app: App) -> None:
    put(app, "shared", [{"n": 1}])


async def written(client: Client, table: str, *records: dict[str, Any], portal: str = PORTAL) -> str:
    """The notice of a write that must succeed."""
    answer = await call(client, "portal_write", portalUri=portal, table=table, data=list(records))
    assert answer["written"] == len(records)
    return str(answer.get("notice", ""))


async def refused(client: Client, table: str, *records: dict[str, Any]) -> dict[str, Any]:
    answer = await refusal(client, "portal_write", portalUri=PORTAL, table=table, data=list(records))
    assert answer["error"] == "invalid"
    assert answer["data"]["field"] == "data"
    return answer


# Types


@pytest.mark.parametrize(
    ("first", "then", "type_", "found"),
    [
        ([1, 2], 1.5, "Nullable(Float64)", [1, 2, 1.5]),
        ([1, None], 0.25, "Nullable(Float64)", [1, None, 0.25]),
        ([1], 2**63, "Nullable(Int128)", [1, str(2**63)]),
        ([2**63], -1, "Nullable(Int128)", [str(2**63), -1]),
        (["2026-01-31"], "1969-01-01", "Nullable(Date32)", ["2026-01-31", "1969-01-01"]),
        (
            ["2026-01-31"],
            "2026-01-31T10:00:00+02:00",
            f"Nullable({MOMENT})",
            ["2026-01-31T00:00:00.000Z", "2026-01-31T08:00:00.000Z"],
        ),
        (
            ["1800-01-31"],
            "2026-01-31 10:00",
            f"Nullable({MOMENT})",
            ["1800-01-31T00:00:00.000Z", "2026-01-31T10:00:00.000Z"],
        ),
        ([[1], []], [1.5, 2], "Array(Float64)", [[1], [], [1.5, 2]]),
        ([[1]], [2**70], "Array(Int128)", [[1], [str(2**70)]]),
    ],
)
async def test_a_column_gets_the_type_that_all_its_values_have(
    client: Client, table: str, first: list[Any], then: Any, type_: str, found: list[Any]
) -> None:
    await write(client, table, *({"n": n, "v": value} for n, value in enumerate(first)))
    before, former = await metadata(client), (await types(client, table))["v"]
    shown = await tables(client)

    notice = await written(client, table, {"n": len(first), "v": then, "new": "x"})

    plain = [kind.removeprefix("Nullable(").removesuffix(")" if "Nullable" in kind else "") for kind in (type_, former)]
    assert notice == f"The column 'v' is now {plain[0]}; it was {plain[1]}."
    assert await types(client, table) == {"n": "Nullable(Int64)", "v": type_, "new": "Nullable(String)"}
    assert await values(client, f"SELECT v FROM {table} ORDER BY n") == found
    after = await metadata(client)
    assert int(after["mcp.schema_version"]) == int(before["mcp.schema_version"]) + 1
    assert f"`v` {type_}" in after[f"mcp.schema.{table}"]
    assert await written(client, table, {"n": 9, "v": then}) == ""
    more = {"where": {"n": 0}}
    assert (await call(client, "portal_delete", portalUri=PORTAL, table=table, **more))["deleted"] == 1
    assert await tables(client) == shown


async def test_several_columns_are_widened_in_one_call(client: Client, table: str) -> None:
    await write(client, table, {"id": 1, "a": 1, "b": "2026-01-31", "c": "x"})
    notice = await written(client, table, {"id": 2, "a": 0.5, "b": "2026-01-31T10:00:00Z"})
    assert "'a' is now Float64; it was Int64." in notice
    assert f"'b' is now {MOMENT}; it was Date." in notice
    assert [row["a"] for row in await query(client, f"SELECT * FROM {table} ORDER BY id")] == [1, 0.5]


async def test_nothing_is_widened_if_one_record_does_not_fit(client: Client, table: str) -> None:
    await write(client, table, {"a": 1, "b": True, "d": "2026-01-31"})
    before = await types(client, table)
    for bad, column, type_ in (
        ({"b": "x"}, "b", "Bool"),
        ({"a": "x"}, "a", "Int64"),
        ({"d": "soon"}, "d", "Date"),
        ({"d": "2026-02-30"}, "d", "Date"),
        ({"d": 5}, "d", "Date"),
    ):
        answer = await refused(client, table, {"a": 1.5, "new": 1}, bad)
        assert (answer["data"]["column"], answer["data"]["record"], answer["data"]["type"]) == (column, 1, type_)
        assert f"{column!r} of record 1 is {json.dumps(bad[column])}, which does not fit {type_}." in answer["message"]
        assert await types(client, table) == before
    assert await values(client, f"SELECT count() FROM {table}") == [1]


async def test_a_number_that_fractions_would_round_is_not_widened(client: Client, table: str) -> None:
    await write(client, table, {"n": 2**53 + 1, "l": [2**53 + 1]}, {"n": 2**60, "l": []})
    for record in ({"n": 1.5}, {"l": [1.5]}):
        assert "beyond 2^53" in (await refused(client, table, record))["message"]
    await refused(client, table, {"n": 2**53 + 3}, {"n": 1.5})
    assert await values(client, f"SELECT n FROM {table} ORDER BY n") == [str(2**53 + 1), str(2**60)]
    await call(client, "portal_delete", portalUri=PORTAL, table=table, where={"n": str(2**53 + 1)})
    await written(client, table, {"n": 1.5})
    assert await values(client, f"SELECT n FROM {table} ORDER BY n") == [1.5, float(2**60)]


async def test_the_key_of_a_table_and_texts_are_not_widened(client: Client, table: str) -> None:
    await write(client, table, {"id": 1, "text": "a", "none": None})
    for record in ({"id": 1.5}, {"id": 2, "text": 5}, {"id": 2, "none": 5}, {"id": 2, "text": True}):
        await refused(client, table, record)
    assert await types(client, table) == {"id": "Int64", "text": "Nullable(String)", "none": "Nullable(String)"}


async def test_a_notice_names_times_that_are_cut_to_milliseconds(client: Client, table: str) -> None:
    assert await written(client, table, {"at": "2026-01-31T10:00:00.123000Z"}) == ""
    notice = await written(client, table, {"at": "2026-01-31T10:00:00.123456"})
    assert notice == "Times in 'at' are stored to the millisecond."
    assert await values(client, f"SELECT DISTINCT at FROM {table}") == ["2026-01-31T10:00:00.123Z"]


async def test_a_notice_names_them_in_a_column_of_dates_too(client: Client, table: str) -> None:
    await written(client, table, {"at": "2026-01-30"})
    notice = await written(client, table, {"at": "2026-01-31T10:00:00.123456Z"})
    assert notice == (
        "The column 'at' is now DateTime64(3, 'UTC'); it was Date. Times in 'at' are stored to the millisecond."
    )


async def test_dates_work_in_queries_and_conditions(client: Client, table: str) -> None:
    days = ["2026-01-31", "2026-02-01", "1850-01-01", "9999-12-31", "0001-01-01"]
    await write(client, table, *({"day": day} for day in days))
    assert await values(client, f"SELECT day FROM {table} WHERE day >= '2026-02-01' ORDER BY day") == [
        "2026-02-01",
        "9999-12-31",
    ]
    found = await values(client, f"SELECT toYear(day) AS y FROM {table} WHERE day = {{d:Date}}", d="2026-01-31")
    assert found == [2026]
    where = {"day": {"lt": "1900-01-01"}}
    assert (await call(client, "portal_delete", portalUri=PORTAL, table=table, where=where))["deleted"] == 2
    assert sorted(await values(client, f"SELECT day FROM {table}")) == ["2026-01-31", "2026-02-01", "9999-12-31"]


async def test_a_list_of_several_kinds_comes_out_as_it_went_in(client: Client, table: str) -> None:
    lists: list[list[Any]] = [[1, "a", True, 1.5, None], [2**53 - 1, 0.5], ["2026-01-31", 5], [{"a": 1}, 2, [3]]]
    await write(client, table, *({"n": n, "l": one} for n, one in enumerate(lists)))
    assert await values(client, f"SELECT l FROM {table} ORDER BY n") == lists


def test_columns_that_cannot_be_widened() -> None:
    for kind, found in (
        *(("Nullable(String)", [5]), ("Nullable(Bool)", [1]), ("Nullable(Float64)", [2**53 + 1]), ("UUID", ["x"])),
        *(("Int64", [True]), ("Int64", [[1]]), ("Int64", [2**127]), ("Int64", [1.5, 2**53 + 1]), ("Date", ["x"])),
        *(("Array(Int64)", [["x"]]), ("Array(Int64)", [1]), ("Array(Int64)", [[1.5, None]]), ("Date", [5])),
        *(("Array(Date)", [["2026-01-31T10:00:00Z"]]), ("Decimal(9, 2)", [1.5]), ("JSON", [1])),
    ):
        assert wider_type(kind, found) is None, (kind, found)
    assert wider_type("Nullable(Int8)", [300, None]) == "Nullable(Int64)"
    assert wider_type("UInt32", [0.5]) == "Float64"
    assert wider_type("UInt32", [-1]) == "Int64"
    assert wider_type("UInt64", [-1]) == "Int128"
    assert wider_type("UInt128", [-1]) is None


# A portal of an older server


async def test_columns_of_an_older_server_stay_texts_and_take_dates(client: Client, app: App, table: str) -> None:
    portal = f"mem://tests/{table}"
    await write(client, "other", {"n": 1}, portal=portal)
    folder, _ = app.portals.described(CALLER, Address("tests", table))
    engine = app.portals._registry.engine(folder)
    columns = [NewColumn("day", "Nullable(String)"), NewColumn("n", "Nullable(Int64)")]
    storage.create_table(engine, "old", columns)
    storage.insert(engine, "old", [{"day": "2026-01-31", "n": 1}])
    folder.invalidate_description()

    for day in ("2026-02-01", "soon", "2026-02-01T10:00:00Z"):
        assert await written(client, "old", {"day": day, "n": 2}, portal=portal) == ""
    assert "'n' is now Float64" in await written(client, "old", {"day": "1900", "n": 2.5}, portal=portal)
    assert await types(client, "old", portal=portal) == {"day": "Nullable(String)", "n": "Nullable(Float64)"}
    found = await values(client, "SELECT day FROM old ORDER BY n, day", portal=portal)
    assert found == ["2026-01-31", "2026-02-01", "2026-02-01T10:00:00Z", "soon", "1900"]


# Names of columns


ODD = [
    *(
        "a b",
        "1a",
        "a-b",
        "a`b",
        "a'b",
        'a"b',
        "é ü",
        "select",
        "*",
        "a/b",
        "a%b",
        "{x:String}",
        "🎉",
        "--",
        "a;b",
        " x",
    ),
    *("true", "null", "$", "#", "a,b", "a(b)", "sum(n)", "a''b", "``", "%s", "?", "<b>", "file"),
]


async def test_any_key_is_a_column_of_that_name(client: Client, table: str) -> None:
    record = {name: number for number, name in enumerate(ODD)}
    assert await written(client, table, record) == ""
    assert await query(client, f"SELECT * FROM {table}") == [record]
    for name, number in record.items():
        quoted = "`" + name.replace("`", "``") + "`"
        assert await values(client, f"SELECT {quoted} FROM {table} WHERE {table}.{quoted} = {number}") == [number]
    assert await written(client, table, record) == ""
    where = {name: record[name] for name in ODD[:10]}
    assert (await call(client, "portal_delete", portalUri=PORTAL, table=table, where=where))["deleted"] == 2


@pytest.mark.parametrize("format_", ["json", "csv", "parquet", "db"])
@FILES_ONLY
async def test_odd_names_survive_a_file(client: Client, data_dir: Path, table: str, format_: str) -> None:
    is_whole = format_ == "db"
    portal, other = (f"mem://tests/{table}", f"mem://tests/{table}-2") if is_whole else (PORTAL, PORTAL)
    name, copy = f"{table}_odd", f"{table}_odd" if is_whole else f"{table}_copy"
    record = {"id": 1, **{name: name for name in ODD}, "day": "2026-01-31", "old": "1850-01-01"}
    await write(client, name, record, portal=portal)
    file = f"{table}.{format_}"
    source, target = ({}, {}) if is_whole else ({"table": name}, {"table": copy})
    await call(client, "portal_export", portalUri=portal, destination=file, format=format_, **source)
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "exports" / file).rename(data_dir / "imports" / file)
    await call(client, "portal_import", portalUri=other, source=file, format=format_, **target)
    assert await query(client, f"SELECT * FROM {copy}", portal=other) == [record]
    found = await types(client, copy, portal=other)
    assert found["day"] == ("Nullable(Date32)" if format_ == "parquet" else "Nullable(Date)")
    assert found["old"] == "Nullable(Date32)"


async def test_a_key_that_no_column_can_have_goes_to_another_one_and_the_answer_says_so(
    client: Client, table: str
) -> None:
    long = "x" * 3000
    record = {"": 1, "user.name": 2, "a\0b": 3, "c\\d": 4, "_row_exists": 5, long: 6}
    columns = ["unnamed", "user_name", "a_b", "c_d", "row_exists", column_name(long)]
    for _ in range(2):
        notice = await written(client, table, record)
        assert "The field 'user.name' is the column 'user_name'." in notice
        assert len(notice) < 1000
    assert list(await types(client, table)) == columns
    for number, name in enumerate(columns, 1):
        assert await values(client, f"SELECT {name} FROM {table}") == [number, number]


async def test_two_keys_never_share_a_column(client: Client, table: str) -> None:
    for record in ({"a.b": 1, "a_b": 2}, {"a\0b": 1, "a\1b": 2}, {"": 1, " ": 2}):
        message = (await refused(client, table, record))["message"]
        assert "would both be the column" in message
    assert await types(client, table) == {}
    await written(client, table, {"x" * 200 + "1": 1, "x" * 200 + "2": 2})
    assert len(await types(client, table)) == 2


async def test_ten_thousand_columns_fit_and_more_are_refused(client: Client, table: str) -> None:
    await written(client, table, {f"c{number}": number for number in range(10_000)})
    assert await values(client, f"SELECT c9999 FROM {table}") == [9999]
    answer = await refusal(client, "portal_write", portalUri=PORTAL, table=table, data=[{"one_more": 1}])
    assert (answer["error"], "10000 columns" in answer["message"]) == ("too_large", True)
    await call(client, "portal_delete", portalUri=PORTAL, table=table, confirm=True)


def test_a_column_has_a_name_that_can_be_queried() -> None:
    assert [column_name(key) for key in ("a", "a b", "", " ", "a.b", "x\n", "_block_number")] == [
        *("a", "a b", "unnamed", "unnamed", "a_b", "x_", "block_number"),
    ]
    assert column_name("AggregateFunction(x)") == "Aggregate_Function(x)"
    long = column_name("y" * 500)
    assert len(long) == 128
    assert column_name(long) == long != column_name("y" * 501)


# Files


FILES = {  # a table with n, d and w, and what widens its columns
    "json": '[{"n": 2, "w": 3}, {"n": 2.5, "d": "2026-02-01T10:00:00Z", "w": 9223372036854775808, "a.b": 1}]',
    "csv": "n,d,w,a.b\n2,\\N,3,\\N\n2.5,2026-02-01 10:00:00,9223372036854775808,1\n",
}


@pytest.mark.parametrize("format_", [*FILES, "parquet", "zip"])
@FILES_ONLY
async def test_an_import_widens_columns_as_a_write_does(app: App, client: Client, table: str, format_: str) -> None:
    imports = app.settings.data_dir / "imports"
    imports.mkdir(exist_ok=True)
    await write(client, table, {"n": 1, "d": "2026-01-31", "w": 1})
    shown = await tables(client)
    name = f"{table}.{format_}"
    if format_ in FILES:
        (imports / name).write_text(FILES[format_])
    elif format_ == "zip":
        with ZipFile(imports / name, "w") as archive:
            archive.writestr(f"{table}.csv", FILES["csv"])
    else:
        moment = "toDateTime64('2026-02-01 10:00:00', 3, 'UTC')"
        sql = (
            f"SELECT if(k = 1, 2, 2.5) AS n, if(k = 1, NULL, {moment}) AS d, if(k = 1, 3, 9223372036854775808) AS w "
            f"FROM (SELECT arrayJoin([1, 2]) AS k FROM {table})"
        )
        made = app.portals.exports.export_file(CALLER, PORTAL, name, "parquet", None, sql, print)
        (imports / name).write_bytes((app.settings.data_dir / "exports" / made.destination).read_bytes())

    real = "csv" if format_ == "zip" else format_
    answer = await call(client, "portal_import", portalUri=PORTAL, source=name, format=real)
    assert answer["imported"] == 2
    for notice in ("'n' is now Float64; it was Int64.", f"'d' is now {MOMENT}; it was Date.", "'w' is now Int128;"):
        assert f"The column {notice}" in answer["notice"]
    assert ("The field 'a.b' is the column 'a_b'." in answer["notice"]) is (format_ != "parquet")
    assert await values(client, f"SELECT n FROM {table} ORDER BY n") == [1, 2, 2.5]
    assert await values(client, f"SELECT d FROM {table} ORDER BY n") == [
        *("2026-01-31T00:00:00.000Z", None, "2026-02-01T10:00:00.000Z"),
    ]
    assert await values(client, f"SELECT w FROM {table} ORDER BY n") == [1, 3, str(2**63)]
    assert await tables(client) == shown


@pytest.mark.parametrize(
    ("format_", "content"),
    [
        ("json", '[{"n": 2.5, "d": "2026-02-01"}, {"n": 3, "d": "soon"}]'),
        ("json", '[{"n": 9007199254740993}, {"n": 2.5}]'),
        ("csv", "n,d\n2.5,2026-02-01\n3,soon\n"),
        ("csv", "n\n9007199254740993\n2.5\n"),
    ],
)
@FILES_ONLY  # imports
async def test_an_import_that_is_refused_widens_nothing(
    app: App, client: Client, table: str, format_: str, content: str
) -> None:
    await write(client, table, {"n": 1, "d": "2026-01-31"})
    (app.settings.data_dir / "imports").mkdir(exist_ok=True)
    (app.settings.data_dir / "imports" / f"{table}.{format_}").write_text(content)
    before = await types(client, table)
    answer = await refusal(client, "portal_import", portalUri=PORTAL, source=f"{table}.{format_}", format=format_)
    assert (answer["error"], answer["data"]["field"]) == ("invalid", "source")
    assert await types(client, table) == before
    assert await values(client, f"SELECT count() FROM {table}") == [1]


def test_the_wider_type_for_a_column_of_a_file() -> None:
    for kind, seen, wider in (
        ("Nullable(Int64)", "Nullable(Float64)", "Nullable(Float64)"),
        ("UInt8", "Int64", "Int64"),
        ("UInt64", "Int64", "Int128"),
        ("Int64", "UInt64", "Int128"),
        ("Date", "Nullable(Date32)", "Date32"),
        ("Date", "Nullable(DateTime64(9))", MOMENT),
        ("String", "Int64", None),
        ("Int64", "String", None),
        ("Date", "Date", None),
    ):
        assert wider_type_for_file(kind, seen) == wider, (kind, seen)


# Several servers, and processes that are killed


def test_servers_that_widen_a_column_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    servers = [start(tmp_path, "--families", "portals") for _ in range(2)]
    shared = "mem://tests/shared"
    servers[0].call("portal_write", portalUri=shared, table="t", data=[{"n": 1, "d": "2026-01-31"}])
    answers: list[dict[str, Any]] = []

    def widen(server: Stdio, number: int) -> None:
        record = {"n": number + 0.5, "d": f"2026-01-31T10:00:0{number}Z"}
        answers.append(server.call("portal_write", portalUri=shared, table="t", data=[record]))

    threads = [threading.Thread(target=widen, args=(server, n)) for n, server in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("notice" in answer for answer in answers) == [False, True]
    for server in servers:
        found = server.call("portal_query", portalUri=shared, sql="SELECT n, toString(d) AS d FROM t ORDER BY n")
        assert [row["n"] for row in found["rows"]] == [0.5, 1, 1.5]
        shown = server.call("portal_view", portalUri=shared)["tables"]
        assert [(one["name"], one["rows"]) for one in shown] == [("t", 3)]
        server.close()


DYING = """
import os, sys
from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.families.portals import journal, storage
from tests.families.portals.calls import CALLER
data_dir, moment = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), 9)

place = {
    "before the copy is widened": (storage, "modify_columns"),
    "before the records are written": (storage, "insert"),
    "before the last step": (journal, "write"),
    "in the last step": (storage, "rename_staged"),
    "at the end of the last step": (journal, "remove"),
    "before an import's rows are there": (storage, "move_rows"),
    "in the last step of an import": (storage, "rename_staged"),
}[moment]
chosen = {"data_dir": data_dir, "families": "portals", "embedder": "none"}
with open_app(settings.load(chosen, environ={}).settings) as app:
    setattr(*place, die)
    if "import" in moment:
        app.portals.imports.import_file(CALLER, "mem://tests/shared", "t.csv", "csv", None, print)
    app.portals.write(CALLER, "mem://tests/shared", "t", [{"n": 1.5, "new": "x"}])
"""


@pytest.mark.parametrize(
    ("moment", "is_done"),
    sample(
        [
            ("before the copy is widened", False),
            ("before the records are written", False),
            ("before the last step", False),
            ("in the last step", True),
            ("at the end of the last step", True),
            ("before an import's rows are there", False),
            ("in the last step of an import", True),
        ],
        every=3,
    ),
)
def test_a_server_that_is_killed_has_widened_all_or_nothing(tmp_path: Path, moment: str, is_done: bool) -> None:
    server = start(tmp_path, "--families", "portals")
    shared = "mem://tests/shared"
    server.call("portal_write", portalUri=shared, table="t", data=[{"n": number} for number in range(5)])
    (tmp_path / "imports").mkdir(exist_ok=True)
    (tmp_path / "imports" / "t.csv").write_text("n,new\n1.5,x\n")
    died = subprocess.run([sys.executable, "-c", DYING, str(tmp_path), moment], check=False)
    assert died.returncode == -signal.SIGKILL

    found = server.call("portal_query", portalUri=shared, sql="SELECT n FROM t ORDER BY n")
    assert found["columns"][0]["type"] == ("Nullable(Float64)" if is_done else "Nullable(Int64)")
    assert [row["n"] for row in found["rows"]] == [0, 1, *([1.5] if is_done else []), 2, 3, 4]
    again = server.call("portal_write", portalUri=shared, table="t", data=[{"n": 2.5}])
    assert ("notice" in again) is not is_done
    shown = server.call("portal_view", portalUri=shared)["tables"]
    assert [(one["name"], one["rows"]) for one in shown] == [("t", 7 if is_done else 6)]
    hidden = server.call("portal_export", portalUri=shared, destination="all.db", format="db")
    assert hidden["tables"] == ["t"]
    server.close()
    assert not (tmp_path / "portals" / "tests" / "shared" / "import.json").exists()


@FILES_ONLY
def test_an_engine_that_is_killed_while_a_column_is_widened_loses_nothing(
    app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_dir / "portals" / "tests" / "killed"
    app.portals.write(CALLER, "mem://tests/killed", "t", [{"n": number} for number in range(1000)])
    real = storage.insert

    def kill_and_insert(*arguments: Any) -> None:
        os.kill(engine_pid(folder), signal.SIGKILL)
        real(*arguments)

    monkeypatch.setattr(storage, "insert", kill_and_insert)
    written = app.portals.write(CALLER, "mem://tests/killed", "t", [{"n": 0.5}])
    assert written.notice is not None
    found = app.portals.query(CALLER, "mem://tests/killed", "SELECT count() AS c, sum(n) AS s FROM t", {}).rows
    assert found == [{"c": 1001, "s": 499_500.5}]
