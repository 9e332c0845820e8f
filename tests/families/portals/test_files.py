# ruff: noqa: E501
"""portal_import and portal_export: formats, places, files that are damaged, foreign or hostile, addresses."""

import errno
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from mcp import Client
from typer.testing import CliRunner

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.cli.main import cli
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.engines.isolation.landlock import version as landlock_version
from memory_mcp.errors import AppError, Conflict, Invalid, NotFound, Unavailable
from memory_mcp.families.portals import allowed_folders, downloads, storage
from memory_mcp.families.portals.model import ColumnChoices, Exported, FileFormat, Record
from tests.exhaustive import sample
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import (
    CALLER,
    PORTAL,
    metadata,
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

SOME_UUID = "01234567-89ab-cdef-0123-456789abcdef"
RECORDS: list[Record] = [
    {
        **{
            "id": 1,
            "whole": 2**53,
            "number": 1.5,
            "truth": True,
            "text": 'it\'s "quoted",\n\tand\\more; é🎉',
            "uuid": SOME_UUID,
        },
        **{"moment": "2026-01-31T10:00:00.123Z", "texts": ["a,b", "c'd", ""], "wholes": [1, 2]},
    },
    {
        **{"id": 2, "whole": None, "number": None, "truth": None, "text": None, "uuid": None},
        **{"moment": None, "texts": [], "wholes": []},
    },
    {
        **{"id": 3, "whole": -5, "number": 0.1, "truth": False, "text": "007", "uuid": SOME_UUID},
        **{"moment": "1999-12-31T23:59:59.999Z", "texts": ["x"], "wholes": [-1]},
    },
]


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "import_bytes": 2_000_000}


@pytest.fixture(scope="module")
def imports(data_dir: Path) -> Path:
    (data_dir / "imports").mkdir(exist_ok=True)
    return data_dir / "imports"


@pytest.fixture(scope="module", autouse=True)
def exported_db(app: App, imports: Path) -> bytes:
    """A portal of its own, as one file, where imports find it. The shared portal is there, too, whichever test is first."""
    put(app, "always", [{"n": 1}])
    portal = "mem://tests/source"
    put(app, "things", [{**one, "object": {"a.b": one["id"], "c": {"d": [1, "x"]}}} for one in RECORDS], portal)
    put(app, "messages", [{"role": "user", "content": "hello"}], portal)
    put(app, "messages", [{"role": "user", "content": "DELETED-SECRET"}], portal)
    app.portals.delete(CALLER, portal, "messages", {"content": "DELETED-SECRET"}, confirm=False)
    made = app.portals.exports.export_file(CALLER, portal, "source.db", "db", None, None, lambda *progress: None)
    content = _made(app, made).read_bytes()
    (imports / "source.db").write_bytes(content)
    return content


async def bring_in(client: Client, source: str, format_: str, **more: Any) -> dict[str, Any]:
    given = {"portalUri": PORTAL, "onConflict": "append", **more}
    answer = await call(client, "portal_import", source=source, format=format_, **given)
    assert set(answer) == {"portalUri", "table", "imported"}
    return answer


# Formats


@pytest.mark.parametrize(
    ("format_", "ending"), [("json", "json"), ("json", "jsonl"), ("csv", "csv"), ("parquet", "parquet")]
)
async def test_an_exported_table_is_imported_unchanged(
    client: Client, imports: Path, table: str, format_: str, ending: str
) -> None:
    await write(client, table, *RECORDS)
    name = f"{table}.{ending}"
    made = await call(client, "portal_export", portalUri=PORTAL, destination=name, format=format_, table=table)
    assert made["destination"] == name
    content = (imports.parent / "exports" / name).read_bytes()
    assert made == {
        **{"destination": made["destination"], "format": format_, "tables": [table], "rows": 3},
        **{"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
    }
    (imports / name).write_bytes(content)

    answer = await bring_in(client, name, format_, table=f"{table}_back")
    assert answer == {"portalUri": PORTAL, "table": f"{table}_back", "imported": 3}
    assert await types(client, f"{table}_back") == await types(client, table)
    everything = "SELECT * FROM {} ORDER BY id"
    assert await query(client, everything.format(f"{table}_back")) == await query(client, everything.format(table))
    assert await query(client, everything.format(table)) == RECORDS


def _made(app: App, exported: Exported) -> Path:
    return app.settings.data_dir / "exports" / exported.destination


def test_json_is_an_array_or_a_record_a_line(app: App) -> None:
    put(app, "shapes", [{"n": 1}, {"n": 2}])
    for name, lines in (("shapes.json", False), ("shapes.jsonl", True), ("shapes.ndjson", True)):
        made = _export(app, name, "json", query="SELECT n FROM shapes ORDER BY n")
        text = _made(app, made).read_text()
        found = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
        assert found == [{"n": 1}, {"n": 2}]
        assert (made.tables, made.rows) == ([], 2)


def _export(
    app: App, destination: str, format_: FileFormat, *, query: str | None = None, table: str | None = None
) -> Any:
    return app.portals.exports.export_file(CALLER, PORTAL, destination, format_, table, query, lambda *progress: None)


def test_an_export_takes_a_query_with_comments_and_semicolon(app: App) -> None:
    queries = ("SELECT 1 AS a -- one", "SELECT 1 AS a;", "SELECT 1 AS a, 1 AS b, 2 AS c ORDER BY a LIMIT 1")
    for number, query_ in enumerate(queries):
        assert _export(app, f"commented-{number}.csv", "csv", query=query_).rows == 1


@pytest.mark.parametrize("destination", ["http://x/y", "~/x.csv", "file:///tmp/x.csv", f"{'x' * 300}.csv"])
def test_a_destination_is_a_name_of_a_file(app: App, destination: str) -> None:
    with pytest.raises(Invalid, match=r"^destination: "):
        _export(app, destination, "csv", query="SELECT 1 AS a")


def test_a_mapping_is_refused_where_it_means_nothing(app: App) -> None:
    with pytest.raises(Invalid, match=r"^mapping: a db file"):
        _import(app, "source.db", "db", portal="mem://tests/mapped", a="b")


def test_an_export_takes_the_place_of_no_other_file(app: App) -> None:
    made = _made(app, _export(app, "once.csv", "csv", query="SELECT 1 AS a"))
    before = made.read_bytes()
    with pytest.raises(Conflict):
        _export(app, "once.csv", "csv", query="SELECT 2 AS a")
    assert made.read_bytes() == before


async def test_an_export_says_what_it_cannot_do(client: Client, table: str) -> None:
    await write(client, table, {"n": 1})
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"format": "json", "table": "nothing"}, "not_found", "table"),
        ({"format": "json", "table": table, "query": "SELECT 1"}, "invalid", "query"),
        ({"format": "db", "table": table}, "invalid", "format"),
        ({"format": "csv", "query": "SELECT nothing"}, "unknown_column", "query"),
        ({"format": "csv", "query": "DROP TABLE x"}, "read_only_query", "query"),
        ({"format": "csv", "query": "SELECT {a:Int64}"}, "invalid", "query"),
        ({"format": "csv", "query": f"SELECT {'+'.join('1' * 5000)}"}, "too_large", "query"),
    ]
    for more, error, field in cases:
        refused = await refusal(client, "portal_export", portalUri=PORTAL, destination="refused.x", **more)
        assert (refused["error"], refused["data"]["field"]) == (error, field)


def test_values_are_read_by_the_rule_for_records(app: App, imports: Path, table: str) -> None:
    content = [
        {
            "a": None,
            "list": [],
            "nested": [[1], [2]],
            "object": {"x": 1},
            "objects": [{"y": 2}],
            "at": "2026-01-31T10:00:00Z",
        },
        {"a": None, "list": [], "nested": [], "object": {"x": "z"}, "objects": [], "at": None},
    ]
    (imports / "odd.json").write_text(json.dumps(content))
    assert _import(app, "odd.json", "json", table=table).imported == 2
    found = query_operation(app, f"SELECT * FROM {table}")
    assert [row["object"] for row in found] == [{"x": 1}, {"x": "z"}]
    assert found[0]["at"] == "2026-01-31T10:00:00.000Z"
    assert [row["a"] for row in found] == [None, None]


def _import(
    app: App, source: str, format_: FileFormat, *, table: str | None = None, portal: str = PORTAL, **mapping: str
) -> Any:
    return app.portals.imports.import_file(
        *(CALLER, portal, source, format_, table, lambda *progress: None),
        on_conflict="append",
        choices=ColumnChoices(mapping),
    )


async def test_a_file_names_its_table_and_a_mapping_its_columns(client: Client, imports: Path, table: str) -> None:
    (imports / f"{table}.csv").write_text("uid,who\n1,Ann\n2,Bob\n")
    answer = await bring_in(client, f"{table}.csv", "csv", mapping={"uid": "id", "who": "name"})
    assert answer["table"] == table
    assert await query(client, f"SELECT * FROM {table} ORDER BY id") == [
        {"id": 1, "name": "Ann"},
        {"id": 2, "name": "Bob"},
    ]
    assert f"mcp.schema.{table}" in await metadata(client)

    for mapping, message in (
        ({"unknown": "x"}, "'unknown'"),
        ({"uid": "who"}, "two columns"),
        ({"uid": "a.b"}, "'a.b' cannot be the name of a column. Use 'a_b'."),
    ):
        refused = await refusal(
            client, "portal_import", portalUri=PORTAL, source=f"{table}.csv", format="csv", mapping=mapping
        )
        assert refused["error"] == "invalid"
        assert message in refused["message"]
    (imports / "2026-01.csv").write_text("a\n1\n")
    refused = await refusal(client, "portal_import", portalUri=PORTAL, source="2026-01.csv", format="csv")
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "table")


async def test_an_import_is_all_or_nothing(client: Client, imports: Path, data_dir: Path, table: str) -> None:
    await write(client, table, {"n": 1})
    before = await metadata(client)
    for name, content, format_ in (
        ("bad.json", '[{"n": 1}, {"n": "x", "new": 1}]', "json"),
        ("wide.json", '[{"n": 1}, {"n": 170141183460469231731687303715884105728}]', "json"),
        ("wide.csv", "n\n1\n170141183460469231731687303715884105728\n", "csv"),
        ("torn.json", '[{"n": 1}, {"n":', "json"),
        ("bad.csv", "n,new\n1,2\nx,3\n", "csv"),
        ("no.parquet", "not parquet", "parquet"),
        ("empty.json", "", "json"),
    ):
        (imports / name).write_text(content)
        refused = await refusal(client, "portal_import", portalUri=PORTAL, source=name, format=format_, table=table)
        assert (refused["error"], refused["data"]["field"]) == ("invalid", "source"), name
        assert str(data_dir) not in refused["message"]
        assert "staging" not in refused["message"]
        fresh = (
            await refusal(
                client, "portal_import", portalUri="mem://tests/fresh", source=name, format=format_, table="messages"
            )
            if name.startswith("torn")
            else {"error": "invalid"}
        )
        assert fresh["error"] == "invalid"
    assert await query(client, f"SELECT * FROM {table}") == [{"n": 1}]
    assert await types(client, table) == {"n": "Nullable(Int64)"}
    assert await metadata(client) == before
    assert (await refusal(client, "portal_view", portalUri="mem://tests/fresh"))["error"] == "not_found"
    assert list((data_dir / "portals" / "tests" / "shared" / "staging").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("latin.csv", b"s\nok\n\xfcber\n", "invalid", "line 3 is not UTF-8"),
        ("latin.json", b'{"s": "ok"}\n{"s": "\xfcber"}', "invalid", "line 2 is not UTF-8"),
        ("torn.csv", "s\nü".encode()[:-1], "invalid", "line 2 is not UTF-8"),
        ("wide.json", '{"s": "ü"}'.encode("utf-16"), "invalid", "line 1 is not UTF-8"),
        ("late.csv", b"s\n" + b"x\n" * 900_000 + b"\xff\n", "invalid", "line 900002 is not UTF-8"),
        ("unnamed.csv", b"a,,b\n1,2,3\n", "invalid", "column 2 has no name"),
        ("trailing.csv", b"a,b,\n1,2,3\n", "invalid", "column 3 has no name"),
        ("long.csv", b"n,s\n1,a\n2," + b"x" * 1_048_577 + b"\n", "too_large", "'s' of record 2 is over 1 MiB"),
        ("long.json", b'{"s": ["a", "' + b"x" * 1_048_577 + b'"]}', "too_large", "'s' of record 1 is over 1 MiB"),
    ],
)
async def test_values_that_records_may_not_have_are_refused_in_files_too(
    client: Client, imports: Path, table: str, name: str, content: bytes, error: str, message: str
) -> None:
    await write(client, "there", {"n": 1})
    (imports / name).write_bytes(content)
    format_ = name.partition(".")[2]
    refused = await refusal(client, "portal_import", portalUri=PORTAL, source=name, format=format_, table=table)
    assert (refused["error"], refused["data"]) == (error, {"field": "source"})
    assert message in refused["message"]
    assert table not in await tables(client)


async def test_a_text_of_a_mebibyte_fits_in_a_file_too(client: Client, imports: Path, table: str) -> None:
    (imports / "fits.csv").write_bytes(b"\xef\xbb\xbfs\n" + b"x" * 1_048_576 + b"\n")
    await bring_in(client, "fits.csv", "csv", table=table)
    assert await query(client, f"SELECT length(s) AS l FROM {table}") == [{"l": 1_048_576}]


@pytest.mark.parametrize(
    "columns",
    [
        "unhex('ff') AS s",
        "['text', unhex('ff')] AS s",
        ", ".join(["unhex('ff') AS s", *(f"'text' AS a{number}" for number in range(40))]),
        ", ".join([*(f"'text' AS a{number}" for number in range(40)), "unhex('ff') AS s"]),
    ],
    ids=["text", "list", "first of many", "last of many"],
)
def test_bytes_in_a_parquet_file_are_refused(app: App, imports: Path, table: str, columns: str) -> None:
    put(app, table, [{"n": 1}])
    made = _made(app, _export(app, f"{table}.parquet", "parquet", query=f"SELECT {columns}"))
    (imports / made.name).write_bytes(made.read_bytes())
    with pytest.raises(Invalid, match="'s' holds bytes that are not UTF-8"):
        _import(app, made.name, "parquet", table=f"{table}_back")


async def test_dates_are_dates_and_times_are_times_whatever_the_format(
    client: Client, imports: Path, table: str
) -> None:
    records: list[Record] = [
        {"day": "2026-01-31", "at": "2026-01-31T10:00:00.000Z"},
        {"day": "2026-02-01", "at": "2026-02-01T10:00:00.000Z"},
    ]
    await write(client, table, *records)
    expected = {"day": "Nullable(Date)", "at": "Nullable(DateTime64(3, 'UTC'))"}
    assert await types(client, table) == expected
    rows = "".join(f"{record['day']},{record['at']}\n" for record in records)
    for name, content in (("days.csv", f"day,at\n{rows}"), ("days.json", json.dumps(records))):
        (imports / name).write_text(content)
        target = f"{table}_{name.partition('.')[2]}"
        await bring_in(client, name, name.partition(".")[2], table=target)
        assert await types(client, target) == expected
        assert await query(client, f"SELECT * FROM {target} ORDER BY day") == records


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["2026-01-31", "2026-02-01"], "Nullable(Date)"),
        (["2026-01-31", ""], "Nullable(Date)"),
        (["1850-01-31", "2026-02-01"], "Nullable(Date32)"),
        (["2026-02-30", "2026-02-01"], "Nullable(String)"),
        (["2026/01/31", "2026/02/01"], "Nullable(String)"),
        (["2026-01-31", "soon"], "Nullable(String)"),
    ],
)
async def test_a_column_of_dates_in_a_csv_file(
    client: Client, imports: Path, table: str, texts: list[str], type_: str
) -> None:
    (imports / f"{table}.csv").write_text("n,day\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    await bring_in(client, f"{table}.csv", "csv")
    assert (await types(client, table))["day"] == type_
    assert await values(client, f"SELECT day FROM {table} ORDER BY n") == [text or None for text in texts]


@pytest.mark.parametrize("bad", ["2026-02-30", "soon", "2026-02-30T10:00:00Z", "20260131"])
@pytest.mark.parametrize("format_", ["csv", "json"])
async def test_a_text_that_is_no_date_is_refused_in_a_file(
    client: Client, imports: Path, table: str, format_: str, bad: str
) -> None:
    await write(client, table, {"day": "2026-01-31"})
    content = f"day\n2026-02-01\n{bad}\n" if format_ == "csv" else json.dumps([{"day": "2026-02-01"}, {"day": bad}])
    (imports / f"{table}.{format_}").write_text(content)
    arguments = {"source": f"{table}.{format_}", "format": format_}
    refused = await refusal(client, "portal_import", portalUri=PORTAL, **arguments)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "source"), refused
    assert await values(client, f"SELECT day FROM {table}") == ["2026-01-31"]


async def test_progress_is_reported(client: Client, imports: Path, table: str) -> None:
    (imports / f"{table}.json").write_text('{"n": 1}')
    reports: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    await client.call_tool(
        "portal_import", {"portalUri": PORTAL, "source": f"{table}.json", "format": "json"}, progress_callback=hear
    )
    assert [(done, total) for done, total, _ in reports] == [(1, 3), (2, 3), (3, 3)]
    reports.clear()
    await client.call_tool(
        "portal_export",
        {"portalUri": PORTAL, "destination": f"{table}.csv", "format": "csv", "table": table},
        progress_callback=hear,
    )
    assert [(done, total) for done, total, _ in reports] == [(1, 2), (2, 2)]


# Places


async def test_only_files_in_the_allowed_folders_are_read(client: Client, imports: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text('{"secret": 1}')
    (imports / "link.json").unlink(missing_ok=True)
    (imports / "link.json").symlink_to(tmp_path / "outside.json")
    (imports / "folder").mkdir(exist_ok=True)
    (imports / "away").unlink(missing_ok=True)
    (imports / "away").symlink_to(tmp_path)
    for source in (
        *("../server.db", "..", "folder/../../server.db", "/etc/passwd", str(tmp_path / "outside.json")),
        *("link.json", "away/outside.json", "folder", "missing.json", "folder/missing.json", "\0", "~/x.json"),
        *(str(imports.parent / "server.db"), f"{imports}/../server.db", "/dev/stdin", "/proc/self/environ"),
    ):
        refused = await refusal(client, "portal_import", portalUri=PORTAL, source=source, format="json", table="stolen")
        assert refused["error"] in ("invalid", "not_found"), source
        assert refused["data"]["field"] == "source"
        assert str(imports.parent) not in refused["message"].replace(source, "")
    assert "stolen" not in await tables(client)


async def test_only_files_in_the_allowed_folders_are_written(
    client: Client, data_dir: Path, table: str, tmp_path: Path
) -> None:
    await write(client, table, {"n": 1})
    exports = data_dir / "exports"
    exports.mkdir(exist_ok=True)
    (exports / "away").unlink(missing_ok=True)
    (exports / "away").symlink_to(tmp_path)
    (tmp_path / "kept.csv").write_text("kept")
    (exports / "link.csv").unlink(missing_ok=True)
    (exports / "link.csv").symlink_to(tmp_path / "kept.csv")
    for destination in (
        "../x.csv",
        "/etc/x.csv",
        "link.csv",
        str(tmp_path / "x.csv"),
        "away/x.csv",
        "..",
        "a/../../x.csv",
        str(exports),
        "x" * 300,
        "x" * 300 + "/x.csv",
    ):
        refused = await refusal(
            client, "portal_export", portalUri=PORTAL, destination=destination, format="csv", table=table
        )
        assert refused["error"] in ("invalid", "not_found"), destination
        assert refused["data"]["field"] == "destination"
    assert (tmp_path / "kept.csv").read_text() == "kept"
    name = f"a/b/{table}.csv"
    nested = await call(client, "portal_export", portalUri=PORTAL, destination=name, format="csv", table=table)
    assert nested["destination"] == name
    assert (exports / name).is_file()
    (exports / name).unlink()
    for given in (f"./a//b/{table}.csv", str(exports / f"b{table}.csv")):
        again = await call(client, "portal_export", portalUri=PORTAL, destination=given, format="csv", table=table)
        assert again["destination"] == str(Path(given))
    assert sorted(os.walk(tmp_path)) == [(str(tmp_path), [], ["kept.csv"])]
    assert not (data_dir / "x.csv").exists()


def test_more_folders_can_be_allowed_and_any_folder_can_hold_the_data(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "in.json").write_text('{"n": 1}')
    chosen = {"data_dir": tmp_path / "o'brien's \"data\" \\ é", "families": "portals"}
    with open_app(
        settings.load({**chosen, "import_dirs": str(more), "export_dirs": str(more)}, environ={}).settings
    ) as app:
        assert _import(app, str(more / "in.json"), "json", table="t").imported == 1
        made = _export(app, str(more / "out.db"), "db")
        assert Path(made.destination) == more / "out.db"
        assert _export(app, "out.csv", "csv", table="t").rows == 1
        assert _import(app, str(more / "out.db"), "db", portal="mem://tests/copy").imported == 1


def test_a_relative_source_is_looked_for_in_every_allowed_folder(tmp_path: Path) -> None:
    data, folders = tmp_path / "data", [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        (folder / "deep").mkdir(parents=True)
        (folder / f"only{number}.json").write_text(json.dumps({"n": number}))
        (folder / "deep" / "both.json").write_text(json.dumps({"n": number}))
    (tmp_path / "secret.json").write_text('{"n": 9}')
    (folders[0] / "away.json").symlink_to(tmp_path / "secret.json")
    (folders[1] / "away.json").write_text('{"n": 1}')
    (folders[1] / "out.json").symlink_to(tmp_path / "secret.json")
    env = environment(MEMORY_MCP_IMPORT_DIRS=",".join(map(str, folders)), MEMORY_MCP_EMBEDDER="none")
    server = Stdio.start(data, "--families", "portals", env=env)
    for source, found in (("only1.json", 1), ("only0.json", 0), ("deep/both.json", 0), ("away.json", 1)):
        given = {"portalUri": PORTAL, "source": source, "format": "json", "table": "t", "onConflict": "replace"}
        assert server.call("portal_import", **given)["imported"] == 1
        assert server.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")["rows"] == [{"n": found}]
    for source, error in (("none.json", "not_found"), ("out.json", "not_found"), ("../secret.json", "invalid")):
        given = {"portalUri": PORTAL, "source": source, "format": "json", "table": "t"}
        refused = server.ask("tools/call", {"name": "portal_import", "arguments": given})["result"]
        answer = refused["structuredContent"]
        assert (answer["error"], answer["data"]) == (error, {"field": "source"})
        assert str(tmp_path) not in answer["message"]
    server.close()


def test_a_file_over_the_limit_is_too_large(app: App, imports: Path) -> None:
    (imports / "large.json").write_text('{"text": "' + "x" * 2_000_000 + '"}')
    with pytest.raises(Invalid) as caught:
        _import(app, "large.json", "json", table="large")
    assert caught.value.code == "too_large"


# Whole portals


async def test_an_exported_portal_is_imported_unchanged(client: Client, table: str) -> None:
    portal = f"mem://tests/{table}"
    answer = await bring_in(client, "source.db", "db", portalUri=portal)
    assert answer == {"portalUri": portal, "table": "messages, things", "imported": 4}

    for name in ("messages", "things"):
        everything = f"SELECT * FROM {name} ORDER BY id"
        assert await types(client, name, portal=portal) == await types(client, name, portal="mem://tests/source")
        assert await query(client, everything, portal=portal) == await query(
            client, everything, portal="mem://tests/source"
        )
    about = await metadata(client, portal=portal)
    assert about["mcp.portal.id"] == f"tests/{table}"
    assert {"mcp.schema.messages", "mcp.schema.things"} <= set(about)
    again = await bring_in(client, "source.db", "db", portalUri=portal, table="messages")
    assert (again["table"], again["imported"]) == ("messages", 1)
    assert len(await query(client, "SELECT * FROM messages", portal=portal)) == 2
    missing = await refusal(client, "portal_import", portalUri=portal, source="source.db", format="db", table="none")
    assert missing["error"] == "not_found"


def test_a_portal_file_lists_its_contents_and_has_no_deleted_rows(exported_db: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(exported_db)
    manifest = archive.manifest(path)
    assert manifest["format"] == "memory-mcp-portal/1"
    assert manifest["tables"] == {"messages": 1, "things": 3}
    assert manifest["metadata"]["mcp.portal.id"] == "tests/source"
    assert len(manifest["metadata"]["mcp.checksum"]) == 64
    assert manifest["metadata"]["mcp.schema.messages"].startswith("CREATE TABLE")
    assert b"DELETED-SECRET" not in exported_db
    assert b"hello" in exported_db


def test_plain_chdb_opens_a_file_as_the_docs_show(exported_db: bytes, tmp_path: Path) -> None:
    docs = (Path(__file__).parents[3] / "docs" / "portals.md").read_text(encoding="utf-8")
    shown = docs.partition("```python\n")[2].partition("```")[0]
    assert "/tmp/conversation.tar" in shown  # noqa: S108  # the docs' words
    (tmp_path / "conversation.db").write_bytes(exported_db)
    script = shown.replace("/tmp", str(tmp_path))  # noqa: S108
    done = subprocess.run(
        [sys.executable, "-c", script + "\nprint(there.query('SELECT value FROM portal._mcp_metadata'))"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
    assert "tests/source" in done.stdout


def test_the_command_line_shows_the_contents_of_a_file(exported_db: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(exported_db)
    done = CliRunner().invoke(cli, ["portal", "open", str(path), "--json"], catch_exceptions=False)
    assert (done.exit_code, json.loads(done.stdout)["tables"]) == (0, {"messages": 1, "things": 3})
    plain = CliRunner().invoke(cli, ["portal", "open", str(path)], catch_exceptions=False)
    assert "things" in plain.stdout
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "y.db").write_bytes(exported_db)
    for name in (str(path), "y.db"):
        found = CliRunner().invoke(cli, ["portal", "open", name, "--data-dir", str(tmp_path)], catch_exceptions=False)
        assert "things" in found.stdout
    with pytest.raises(NotFound, match="there is no such file"):
        CliRunner().invoke(cli, ["portal", "open", str(tmp_path / "none.db")], catch_exceptions=False)
    path.write_bytes(exported_db[: len(exported_db) // 2])
    with pytest.raises(Invalid):
        CliRunner().invoke(cli, ["portal", "open", str(path)], catch_exceptions=False)
    for part in ("tables", "metadata"):
        parts = _parts(exported_db)
        manifest = json.loads(parts[archive.MANIFEST])
        del manifest[part]
        path.write_bytes(_packed({**parts, archive.MANIFEST: json.dumps(manifest).encode()}))
        with pytest.raises(Invalid):
            CliRunner().invoke(cli, ["portal", "open", str(path)], catch_exceptions=False)


async def test_tables_that_are_there_get_more_columns_or_the_file_is_refused_whole(
    app: App, client: Client, imports: Path, table: str
) -> None:
    portal = f"mem://tests/{table}"
    put(app, "aaa", [{"n": 1}], portal)
    put(app, "zzz", [{"n": 1, "extra": "x"}], portal)
    made = app.portals.exports.export_file(CALLER, portal, f"{table}.db", "db", None, None, lambda *progress: None)
    (imports / f"{table}.db").write_bytes(_made(app, made).read_bytes())

    into = f"mem://tests/{table}.into"
    put(app, "zzz", [{"n": "text"}], into)
    before = await call(client, "portal_view", portalUri=into)
    given = {"portalUri": into, "source": f"{table}.db", "format": "db", "onConflict": "append"}
    refused = await refusal(client, "portal_import", **given)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "source")
    assert await call(client, "portal_view", portalUri=into) == before

    other = f"mem://tests/{table}.other"
    put(app, "zzz", [{"n": 5}], other)
    assert (await bring_in(client, f"{table}.db", "db", portalUri=other))["imported"] == 2
    assert await query(client, "SELECT * FROM zzz ORDER BY n", portal=other) == [
        {"n": 1, "extra": "x"},
        {"n": 5, "extra": None},
    ]


def test_a_statement_sent_twice_has_one_effect(
    app: App, imports: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that dies between doing and answering gets the request again."""
    run = EngineConnections.run

    def twice(line: EngineConnections, sql: str, parameters: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
        run(line, sql, parameters, data)
        return run(line, sql, parameters, data)

    monkeypatch.setattr(EngineConnections, "run", twice)
    portal = f"mem://tests/{table}"
    (imports / "rows.json").write_text('[{"n": 1}, {"n": 2}]')
    for _ in range(2):
        assert _import(app, "rows.json", "json", portal=portal).imported == 2
        assert _import(app, "source.db", "db", portal=portal).imported == 4
        put(app, "rows", [{"n": 3}], portal)
    app.portals.delete(CALLER, portal, "rows", {"n": 1}, confirm=False)
    assert query_operation(app, "SELECT n FROM rows ORDER BY n", portal=portal) == [
        {"n": 2},
        {"n": 2},
        {"n": 3},
        {"n": 3},
    ]
    assert query_operation(app, "SELECT count() AS c FROM things", portal=portal) == [{"c": 6}]


def test_a_file_of_several_tables_comes_whole_or_not_at_all(
    app: App, imports: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal, into = f"mem://tests/{table}", f"mem://tests/{table}.into"
    for name in ("a_new", "b_there", "c_new", "d_there"):
        put(app, name, [{"n": 1, "more": "x"}], portal)
    made = app.portals.exports.export_file(CALLER, portal, f"{table}.db", "db", None, None, lambda *progress: None)
    (imports / f"{table}.db").write_bytes(_made(app, made).read_bytes())
    for name in ("b_there", "d_there"):
        put(app, name, [{"n": 5}], into)
    before = app.portals.view(CALLER, into).tables

    real, broken = storage.copy_rows, [Unavailable("gone")]

    def copy_rows(
        line: EngineConnections, database: str, name: str, target: str, columns: list[str], mark: int | None
    ) -> None:
        if name == "d_there" and broken:
            raise broken.pop()
        real(line, database, name, target, columns, mark)

    monkeypatch.setattr(storage, "copy_rows", copy_rows)
    with pytest.raises(Unavailable):
        _import(app, f"{table}.db", "db", portal=into)
    after = app.portals.view(CALLER, into).tables
    assert [(one.name, one.rows, one.columns) for one in after] == [(one.name, one.rows, one.columns) for one in before]
    assert _import(app, f"{table}.db", "db", portal=into).imported == 4
    assert {one.name: one.rows for one in app.portals.view(CALLER, into).tables} == {
        **{"a_new": 1, "b_there": 2, "c_new": 1, "d_there": 2}
    }


def test_messages_from_a_file_get_the_default_fields(app: App, imports: Path, table: str) -> None:
    portal = f"mem://tests/{table}"
    (imports / "messages.csv").write_text("role,content,mood\nuser,hello,good\n")
    assert _import(app, "messages.csv", "csv", portal=portal).imported == 1
    put(app, "messages", [{"role": "user", "content": "again"}], portal)
    found = query_operation(
        app, "SELECT uniqExact(id) AS ids, min(timestamp) > '2026-01-01' AS filled FROM messages", portal=portal
    )
    assert found == [{"ids": 2, "filled": 1}]


def test_an_export_is_its_owners_and_takes_no_folders_place(
    app: App, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(app, "owned", [{"n": 1}])
    made = _export(app, "deep/er/x.csv", "csv", query="SELECT 1 AS a")
    assert _made(app, made).stat().st_mode & 0o777 == 0o600
    assert (data_dir / "exports" / "deep" / "er").stat().st_mode & 0o777 == 0o700
    with pytest.raises(Invalid, match="is a folder"):
        _export(app, "deep/er", "csv", query="SELECT 1 AS a")

    def other_disk(*arguments: Any, **more: Any) -> None:
        raise OSError(errno.EXDEV, "another disk")

    (tmp_path / "made").write_text("new")
    (tmp_path / "out").mkdir()
    real = os.replace
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "replace", lambda *arguments, **more: real(*arguments, **more) if "src_dir_fd" in more else other_disk()
        )
        shown = allowed_folders.move_out([tmp_path / "out"], tmp_path / "made", "x")
    assert shown == "x"
    assert (tmp_path / "out" / "x").read_text() == "new"
    assert (tmp_path / "out" / "x").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]


def test_an_export_has_limits(tmp_path: Path) -> None:
    chosen = {"data_dir": tmp_path, "families": "portals", "export_bytes": 10_000, "portal_memory": 100_000_000}
    with open_app(settings.load(chosen, environ={}).settings) as app:
        put(app, "t", [{"n": 1}])
        for query_, words in (
            ("SELECT number FROM numbers(1000000)", "too much"),
            ("SELECT groupArray(number) FROM numbers(100000000)", "memory"),
        ):
            with pytest.raises(Invalid) as caught:
                _export(app, "large.csv", "csv", query=query_)
            assert caught.value.code == "too_large"
            assert words in caught.value.message
        for format_ in ("csv", "json", "parquet"):
            assert _export(app, f"none.{format_}", format_, query="SELECT n FROM t WHERE n > 1").rows == 0
        assert list((tmp_path / "portals" / "tests" / "shared" / "staging").iterdir()) == []


# Files that are not what they seem


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("half.json", b'[{"a":"\\ud800"}]'),
        ("packed.csv", gzip.compress(b"a,b\n1,2\n", mtime=0)),
        ("packed.json", gzip.compress(b"[]", mtime=0)),
    ],
)
async def test_an_unreadable_file_is_refused_and_named(
    client: Client, data_dir: Path, name: str, content: bytes
) -> None:
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / name).write_bytes(content)
    refused = await refusal(
        client, "portal_import", portalUri=PORTAL, source=name, format=name.rpartition(".")[2], table="unread"
    )
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "source")


async def test_codes_of_digits_in_a_csv_file_stay_texts(client: Client, data_dir: Path, table: str) -> None:
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / "codes.csv").write_text("zip,phone,n\n01234,+4912,5\n99999,+4913,-7\n", encoding="utf-8")
    await call(client, "portal_import", portalUri=PORTAL, source="codes.csv", format="csv", table=table)
    found = await call(client, "portal_query", portalUri=PORTAL, sql=f"SELECT * FROM {table} ORDER BY zip")
    assert found["rows"] == [
        {"zip": "01234", "phone": "+4912", "n": 5},
        {"zip": "99999", "phone": "+4913", "n": -7},
    ]


def test_the_list_of_tables_in_a_file_cannot_be_changed(app: App) -> None:
    put(app, "sealed", [{"id": 1}])
    made = _made(app, _export(app, "sealed.db", "db"))
    content = made.read_bytes()
    changed = content.replace(b'"sealed": 1', b'"sealed": 9')
    assert changed != content
    made.write_bytes(changed)
    with pytest.raises(archive.DamagedArchive):
        archive.manifest(made)


def _parts(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}  # type: ignore[union-attr]


def _packed(parts: dict[str, bytes], *more: tarfile.TarInfo, seal: bool = True) -> bytes:
    """A tar of these parts, with a manifest that says that all is well."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in parts.items():
            if name != archive.MANIFEST:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        for entry in more:
            tar.addfile(entry)
        if seal:
            manifest = json.loads(parts[archive.MANIFEST])
            manifest["sha256"] = {
                name: hashlib.sha256(content).hexdigest() for name, content in parts.items() if name != archive.MANIFEST
            }
            manifest.pop("seal", None)
            manifest["seal"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
            text = json.dumps(manifest).encode()
            entry = tarfile.TarInfo(archive.MANIFEST)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


MESSAGES = "metadata/portal/messages.sql"


def _with_statement(content: bytes, change: Callable[[str], str]) -> bytes:
    parts = _parts(content)
    old = parts[MESSAGES]
    parts[MESSAGES] = change(old.decode()).encode()
    assert parts[MESSAGES] != old
    return _packed(_with_size(parts, MESSAGES))


def _with_size(parts: dict[str, bytes], name: str) -> dict[str, bytes]:
    root = ElementTree.fromstring(parts[".backup"])  # noqa: S314  # our own
    for file in root.iter("file"):
        if file.findtext("name") == f"/{name}" or file.findtext("name") == name:
            size = file.find("size")
            assert size is not None
            size.text = str(len(parts[name]))
    return parts | {".backup": ElementTree.tostring(root)}


def _create(rest: str) -> Callable[[str], str]:
    return lambda old: rest


def _link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def _raw(name: str, kind: bytes, content: bytes, size: int | None = None, **more: Any) -> bytes:
    """An entry whose header says what it likes of its size."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, len(content) if size is None else size
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    if kind == tarfile.GNUTYPE_SPARSE:  # one piece of nothing at the end of a hole
        block[386:410] = tarfile.itn(more["hole"], 12, tarfile.GNU_FORMAT) + tarfile.itn(0, 12)  # type: ignore[attr-defined]
        block[483:495] = tarfile.itn(more["hole"], 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
        block[148:156] = b" " * 8
        block[148:155] = f"{sum(block):06o}\0".encode()
    return bytes(block) + content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _first(content: bytes, entry: bytes) -> bytes:
    """A file with one more entry in front, and zeros up to a whole record."""
    end = len(content.rstrip(b"\0"))
    made = entry + content[: end + -end % tarfile.BLOCKSIZE]
    return made + bytes(2 * tarfile.BLOCKSIZE + -(len(made) + 2 * tarfile.BLOCKSIZE) % tarfile.RECORDSIZE)


def _instead_of_manifest(content: bytes, entry: bytes) -> bytes:
    return _first(_packed(_parts(content), seal=False), entry)


def _pax(**fields: str) -> bytes:
    return tarfile.TarInfo.create_pax_global_header(fields)[tarfile.BLOCKSIZE :].rstrip(b"\0")


def _flipped(content: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        entry = next(entry for entry in tar if entry.name.endswith("data.packed"))
    place = entry.offset_data + entry.size // 2
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


def _remapped(content: bytes) -> bytes:
    """The list of contents says that a statement lies in a part that does not look like one."""
    parts = _parts(content)
    statement = b"CREATE VIEW portal.messages (`x` String) AS SELECT file('/etc/hostname') AS x"
    root = ElementTree.fromstring(parts[".backup"])  # noqa: S314  # our own
    for file in root.iter("file"):
        if (file.findtext("name") or "").endswith("messages.sql"):
            size = file.find("size")
            assert size is not None
            size.text = str(len(statement))
            ElementTree.SubElement(file, "data_file").text = "data/portal/harmless.bin"
    return _packed({**parts, ".backup": ElementTree.tostring(root), "data/portal/harmless.bin": statement})


HARMFUL = (
    "CREATE TABLE portal.messages (`id` UUID, `x` String DEFAULT file('/etc/passwd')) ENGINE = MergeTree ORDER BY id "
    "SETTINGS index_granularity = 8192"
)


def _listing(content: bytes, name: str, statement: str, *, first: bool = False) -> bytes:
    """One more entry in the list of contents, which lies in a part of its own."""
    parts = _parts(content)
    root = ElementTree.fromstring(parts[".backup"])  # noqa: S314  # our own
    contents = root.find("contents")
    assert contents is not None
    file = ElementTree.Element("file")
    for tag, text in (
        *(("name", name), ("size", str(len(statement))), ("checksum", hashlib.md5(name.encode()).hexdigest())),  # noqa: S324
        ("data_file", "data/portal/harmless.bin"),
    ):
        ElementTree.SubElement(file, tag).text = text
    contents.insert(0 if first else len(contents), file)
    return _packed({**parts, ".backup": ElementTree.tostring(root), "data/portal/harmless.bin": statement.encode()})


COLUMNS = "(`id` UUID, `timestamp` DateTime64(3, 'UTC'), `role` String, `content` String, `tool_calls` Array(String))"
MARK = "`_mcp_write` UInt64 MATERIALIZED 0"
BAD_FILES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "text": lambda content: b"hello",
    "truncated": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-12000],
    "something after it": lambda content: content + b"junk",
    "another file after it": lambda content: content + content,
    "zeros after it": lambda content: content + bytes(512),
    "without its last zeros": lambda content: content[:-512],
    "flipped byte": _flipped,
    "no manifest": lambda content: _packed(_parts(content), seal=False),
    "another manifest": lambda content: _packed({**_parts(content), archive.MANIFEST: b'{"format": "other"}'}),
    "no object": lambda content: _packed({**_parts(content)}, seal=False) + b"x",
    "part missing": lambda content: _packed(
        {name: part for name, part in _parts(content).items() if not name.endswith("data.packed")}
    ),
    "extra part": lambda content: _packed(_parts(content), tarfile.TarInfo("extra")),
    "symlink": lambda content: _packed(_parts(content), _link("data/x", "/etc/passwd", tarfile.SYMTYPE)),
    "hard link": lambda content: _packed(_parts(content), _link("data/x", "/etc/passwd", tarfile.LNKTYPE)),
    "device": lambda content: _packed(_parts(content), _link("data/x", "", tarfile.CHRTYPE)),
    "sparse manifest": lambda content: _instead_of_manifest(
        content, _raw(archive.MANIFEST, tarfile.GNUTYPE_SPARSE, b"", hole=1_500_000_000)
    ),
    "sparse part without end": lambda content: _first(content, _raw("data/x", tarfile.GNUTYPE_SPARSE, b"", hole=2**50)),
    "manifest beyond the end": lambda content: _instead_of_manifest(
        content, _raw(archive.MANIFEST, tarfile.REGTYPE, b"", size=1_500_000_000)
    ),
    "part beyond the end": lambda content: _first(content, _raw("data/x", tarfile.REGTYPE, b"", size=2**50)),
    "part of a negative size": lambda content: _first(content, _raw("data/x", tarfile.REGTYPE, b"", size=-512)),
    "sparse in a pax header": lambda content: _first(
        content,
        _raw("x", tarfile.XHDTYPE, _pax(**{"GNU.sparse.size": str(2**50), "path": "data/x"}))
        + _raw("data/x", tarfile.REGTYPE, b""),
    ),
    "size in a pax header": lambda content: _first(
        content, _raw("x", tarfile.XHDTYPE, _pax(size=str(2**50))) + _raw("data/x", tarfile.REGTYPE, b"")
    ),
    "small size in a pax header": lambda content: _first(
        content, _raw("x", tarfile.XHDTYPE, _pax(size="0")) + _raw("data/x", tarfile.REGTYPE, b"y" * 512)
    ),
    "pax header beyond the end": lambda content: _first(content, _raw("x", tarfile.XHDTYPE, b"", size=2**50)),
    "header for all parts": lambda content: _first(content, _raw("x", tarfile.XGLTYPE, _pax(path="data/y"))),
    "long name of GNU": lambda content: _first(
        content, _raw("x", tarfile.GNUTYPE_LONGNAME, b"data/y") + _raw("data/x", tarfile.REGTYPE, b"")
    ),
    "folder": lambda content: _first(content, _raw("data", tarfile.DIRTYPE, b"")),
    "fifo": lambda content: _first(content, _raw("data/x", tarfile.FIFOTYPE, b"")),
    "absolute name": lambda content: _packed({**_parts(content), "/evil": b"x"}),
    "name that leads out": lambda content: _packed({**_parts(content), "data/../../evil": b"x"}),
    "twice the same name": lambda content: _packed(_parts(content), tarfile.TarInfo(MESSAGES)),
    "another name for it": lambda content: _packed(
        {**_parts(content), "./" + MESSAGES: b"CREATE VIEW portal.v AS SELECT 1"}
    ),
    "not one statement": lambda content: _with_statement(content, _create("DROP DATABASE portal")),
    "view": lambda content: _with_statement(
        content, _create("CREATE VIEW portal.messages (`x` String) AS SELECT file('/etc/hostname') AS x")
    ),
    "materialized view": lambda content: _with_statement(
        content,
        _create(
            "CREATE MATERIALIZED VIEW portal.messages (`x` String) ENGINE = MergeTree ORDER BY x AS SELECT content AS x "
            "FROM portal.messages"
        ),
    ),
    "file engine": lambda content: _with_statement(
        content, _create(f"CREATE TABLE portal.messages {COLUMNS} ENGINE = File(LineAsString, '/etc/passwd')")
    ),
    "url engine": lambda content: _with_statement(
        content, _create(f"CREATE TABLE portal.messages {COLUMNS} ENGINE = URL('http://127.0.0.1/', 'LineAsString')")
    ),
    "as a table function": lambda content: _with_statement(
        content, _create("CREATE TABLE portal.messages AS file('/etc/passwd', 'LineAsString')")
    ),
    "default from a file": lambda content: _with_statement(
        content,
        _create(
            "CREATE TABLE portal.messages (`id` UUID, `x` String DEFAULT file('/etc/passwd')) ENGINE = MergeTree ORDER BY id"
        ),
    ),
    "alias from a dictionary": lambda content: _with_statement(
        content,
        _create(
            "CREATE TABLE portal.messages (`id` UUID, `x` String ALIAS dictGet('d', 'x', 1)) ENGINE = MergeTree ORDER BY id"
        ),
    ),
    "default from a query": lambda content: _with_statement(
        content,
        _create(
            "CREATE TABLE portal.messages (`id` UUID, `x` UInt8 DEFAULT (SELECT 1 FROM system.one)) "
            "ENGINE = MergeTree ORDER BY id"
        ),
    ),
    "disk of its own": lambda content: _with_statement(
        content, lambda old: old.replace("SETTINGS ", "SETTINGS disk = disk(type = 'local', path = '/x/'), ")
    ),
    "rows that go by themselves": lambda content: _with_statement(
        content, lambda old: old.replace("SETTINGS ", "TTL toDateTime(0) + INTERVAL 1 DAY SETTINGS ")
    ),
    "rows that replace others": lambda content: _with_statement(
        content, lambda old: old.replace("ENGINE = MergeTree", "ENGINE = ReplacingMergeTree")
    ),
    "a rule that refuses rows": lambda content: _with_statement(
        content, lambda old: old.replace("(`id`", "(CONSTRAINT never CHECK 0, `id`", 1)
    ),
    "a default that fails": lambda content: _with_statement(
        content, lambda old: old.replace("`role` String", "`role` String DEFAULT toString(throwIf(1))")
    ),
    "a column that computes": lambda content: _with_statement(
        content, lambda old: old.replace("`role` String", "`role` String MATERIALIZED toString(length(range(100)))")
    ),
    "a computed column of another name": lambda content: _with_statement(
        content, lambda old: old.replace("`role` String", "`role` String MATERIALIZED 'user'")
    ),
    "marks of rows that are computed": lambda content: _with_statement(
        content, lambda old: old.replace(MARK, "`_mcp_write` UInt64 MATERIALIZED length(range(100))")
    ),
    "marks of rows that are texts": lambda content: _with_statement(
        content, lambda old: old.replace(MARK, "`_mcp_write` String MATERIALIZED '0'")
    ),
    "marks of rows that anyone can write": lambda content: _with_statement(
        content, lambda old: old.replace(MARK, "`_mcp_write` UInt64 DEFAULT 0")
    ),
    "marks of rows that are another column": lambda content: _with_statement(
        content, lambda old: old.replace(MARK, "`_mcp_write` UInt64 ALIAS length(role)")
    ),
    "marks of rows that sort them": lambda content: _with_statement(
        content, lambda old: old.replace("ORDER BY id", "ORDER BY (id, _mcp_write)")
    ),
    "dictionary": lambda content: _with_statement(
        content,
        _create(
            "CREATE DICTIONARY portal.messages (`a` String) PRIMARY KEY a SOURCE(FILE(path '/etc/passwd' format 'CSV')) "
            "LAYOUT(FLAT()) LIFETIME(0)"
        ),
    ),
    "statement elsewhere": _remapped,
    "in a shard": lambda content: _listing(content, f"shards/1/replicas/1/{MESSAGES}", HARMFUL),
    "listed twice": lambda content: _listing(content, MESSAGES, HARMFUL, first=True),
    "listed by another name": lambda content: _listing(content, f"/{MESSAGES}", HARMFUL, first=True),
    "listed outside": lambda content: _listing(content, "data/../metadata/portal/x.sql", HARMFUL),
    "goes on from another": lambda content: _packed(
        {
            **_parts(content),
            ".backup": _parts(content)[".backup"].replace(
                b"</config>", b"<base_backup>File('/x')</base_backup></config>"
            ),
        }
    ),
    "contents with entities": lambda content: _packed(
        {**_parts(content), ".backup": b"<!DOCTYPE config [<!ENTITY a 'b'>]>" + _parts(content)[".backup"]}
    ),
}


@pytest.mark.parametrize("kind", sample(list(BAD_FILES), every=3))
def test_a_bad_file_is_refused_and_nothing_is_changed(app: App, imports: Path, exported_db: bytes, kind: str) -> None:
    bad = BAD_FILES[kind](exported_db)
    assert bad != exported_db
    (imports / "bad.db").write_bytes(bad)
    into = "mem://tests/victim"
    if not any(folder.address.portal_uri == into for folder in app.portals.all(CALLER)):
        put(app, "messages", [{"role": "user", "content": "mine"}], into)
    before = app.portals.view(CALLER, into)

    for portal in (into, "mem://tests/never"):
        with pytest.raises(AppError) as caught:
            _import(app, "bad.db", "db", portal=portal)
        assert caught.value.code == "invalid"
        assert caught.value.data["field"] == "source"
        assert "/etc" not in caught.value.message
        assert kind.startswith("marks of rows") == ("column '_mcp_write'" in caught.value.message)
    assert app.portals.view(CALLER, into) == before
    assert query_operation(app, "SELECT content FROM messages", portal=into) == [{"content": "mine"}]
    assert all(folder.address.portal != "never" for folder in app.portals.all(CALLER))


@pytest.mark.parametrize("kind", ["in a shard", "listed twice"])
def test_restored_tables_are_checked_too(
    app: App, imports: Path, exported_db: bytes, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second check, with the first one switched off."""
    monkeypatch.setattr(EngineConnections, "check_archive", lambda line, name: None)
    (imports / "bad.db").write_bytes(BAD_FILES[kind](exported_db))
    with pytest.raises(Invalid, match="metadata/portal/messages in this portal file") as caught:
        _import(app, "bad.db", "db", portal="mem://tests/walled")
    assert caught.value.data == {"field": "source"}
    assert all(folder.address.portal != "walled" for folder in app.portals.all(CALLER))


def _forge(line: EngineConnections, folder: Path, file: Path, tables: list[str]) -> None:
    """A portal file with these tables, which the engine of this folder has."""
    made = folder / "staging" / f"{file.stem}.tar"
    storage.back_up(line, str(made), is_paced=False)
    archive.seal(made, {"metadata": {}, "tables": dict.fromkeys(tables, 1)})
    shutil.copy(made, file)


STATES = [
    "AggregateFunction(rankCorr, UInt8, UInt8)",
    "Array(Tuple(a Int64, `b` AggregateFunction(rankCorr, UInt8, UInt8)))",
    "SimpleAggregateFunction(sum, UInt64)",
]


def test_a_file_with_states_of_aggregate_functions_is_refused(
    app: App, imports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is opened, and once more after that."""
    line = EngineConnections(tmp_path / "forged", {"max_execution_time": 5})
    for number, column in enumerate(STATES):
        line.run(f"CREATE TABLE t (n Int64, x {column}) ENGINE = MergeTree ORDER BY n")
        line.run("INSERT INTO t (n) VALUES (1)")
        _forge(line, tmp_path / "forged", imports / f"forged{number}.db", ["t"])
        line.run("DROP TABLE t")
    line.end_engine()
    for is_archive_checked in (True, False):
        if not is_archive_checked:
            monkeypatch.setattr(EngineConnections, "check_archive", lambda line, name: None)
        for number in range(len(STATES)):
            with pytest.raises(Invalid, match=r"has a column of the type '(Simple)?AggregateFunction'"):
                _import(app, f"forged{number}.db", "db", portal="mem://tests/forged")


HIDING = [
    ("Dynamic", "CAST(state, 'Dynamic')", "[dynamicType(x)]"),
    ("Array(Dynamic)", "[CAST(state, 'Dynamic'), [CAST(state, 'Dynamic')]]", "arrayMap(y -> dynamicType(y), x)"),
    ("Tuple(a Dynamic)", "tuple(CAST(state, 'Dynamic'))", "[dynamicType(x.a)]"),
    ("Map(String, Dynamic)", "map('a', CAST(state, 'Dynamic'))", "[dynamicType(x['a'])]"),
]
"""The type of a column, a value of it that has a state, and how to look at the types in it."""


def test_a_state_that_hides_in_a_column_of_any_type_becomes_a_text(app: App, imports: Path, tmp_path: Path) -> None:
    line = EngineConnections(tmp_path / "hiding", {"max_execution_time": 5})
    for number, (column, value, types_) in enumerate(HIDING):
        line.run(f"CREATE TABLE t{number} (n Int64, x {column}) ENGINE = MergeTree ORDER BY n")
        source = "(SELECT sumState(number) AS state FROM numbers(3))"
        line.run(f"INSERT INTO t{number} SELECT 1, {value} FROM {source}")
        assert "AggregateFunction" in str(line.rows(f"SELECT {types_} AS types FROM t{number}"))
    _forge(line, tmp_path / "hiding", imports / "hiding.db", [f"t{number}" for number in range(len(HIDING))])
    line.end_engine()
    portal = "mem://tests/hiding"

    for _ in range(2):  # as new tables, then into those that are there
        _import(app, "hiding.db", "db", portal=portal)
    [folder] = [one for one in app.portals.all(CALLER) if one.address.portal_uri == portal]
    for number, (_, _, types_) in enumerate(HIDING):
        found = app.portals._registry.engine(folder).rows(f"SELECT {types_} AS types FROM t{number}")
        assert len(found) == 2
        assert "AggregateFunction" not in str(found)


def test_values_of_any_type_come_back_from_a_file_as_they_were(app: App, imports: Path) -> None:
    objects = {"a.b": 1, "c": {"d": [1, "x", [{"e.f": [1, {"g": 2}]}]]}, "day": "2026-01-01", "wide": 2**64 - 1}
    record = {"lists": [1, [1, "a"], {"a.b": 1}, "2026-01-01", None, [{"a": [1, 2.5]}]], "objects": [objects]}
    portal, into = "mem://tests/free", f"mem://tests/free-{uuid4().hex[:8]}"
    put(app, "things", [{"object": objects, **record}], portal)
    made = app.portals.exports.export_file(CALLER, portal, "free.db", "db", None, None, lambda *progress: None)
    shutil.copy(_made(app, made), imports / "free.db")
    _import(app, "free.db", "db", portal=into)
    columns = "object, lists, objects"
    assert query_operation(app, f"SELECT {columns} FROM things", portal=into) == query_operation(
        app, f"SELECT {columns} FROM things", portal=portal
    )


def test_a_repacked_file_is_accepted(app: App, imports: Path, exported_db: bytes) -> None:
    """The hostile ones above are refused for what they hold, not for how these tests pack them."""
    (imports / "repacked.db").write_bytes(_packed(_parts(exported_db)))
    assert _import(app, "repacked.db", "db", portal="mem://tests/repacked").imported == 4


# Addresses


def test_addresses_are_refused_unless_switched_on(app: App) -> None:
    for source in (
        "https://example.com/x.json",
        "HTTP://example.com/x.json",
        "ftp://x/y",
        "file:///etc/passwd",
        "s3://b/k",
    ):
        with pytest.raises(Invalid) as caught:
            _import(app, source, "json", table="web")
        assert caught.value.data == {"field": "source"}


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "localhost", "0.0.0.0", "2130706433", "0x7f000001", "017700000001", "::1", "::"),
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "fe80::1", "fc00::1", "fe80::1%lo"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
        ),
        *("192.0.2.1", "198.18.0.1", "240.0.0.1", "unknown.invalid", "a" * 300),
        # Each way to write an IPv4 address into one of IPv6, with one of this machine, of its network, or of none.
        *("::127.0.0.1", "::10.0.0.1", "::8.8.8.8"),  # IPv4-compatible, given up long ago: none is public
        *("::ffff:0:127.0.0.1", "::ffff:0:192.168.0.1", "::ffff:0:8.8.8.8"),  # SIIT
        *("64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe"),  # NAT64
        *("64:ff9b:1::7f00:1", "64:ff9b:1::8.8.8.8", "64:ff9b:1:ffff::1"),  # NAT64 of a network's own
        *("2002:a00:1::", "2002:c0a8:101::1", "2002:a9fe:a9fe::"),  # 6to4
        *(
            "2001:0:7f00:1::",
            "2001:0:808:808::80ff:fffe",
            "2001:0:808:808:0:0:f5ff:fffe",
        ),  # Teredo: server, then client
        *("::ffff:100.64.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0"),
        # Addresses that no public host has.
        *("fec0::1", "2001:db8::1", "2001:2::1", "2001:10::1", "2001:20::1", "100::1", "3fff::1", "5f00::1"),
        *("4000::1", "8000::1", "::2", "fd00:ec2::254", "ff0e::1", "192.88.99.1", "192.0.0.8", "233.252.0.1"),
    ],
)
def test_an_address_of_this_machine_or_its_network_is_refused(host: str) -> None:
    with pytest.raises(Invalid):
        downloads._public_address(host, 80)


@pytest.mark.parametrize(
    "host", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8", "2a00:1450::1"]
)
def test_a_public_address_is_used_as_it_is(host: str) -> None:
    assert downloads._public_address(host, 443) == host


def test_a_host_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(2, 1, 6, "", ("8.8.8.8", 80)), (2, 1, 6, "", ("10.0.0.1", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **more: answers)
    with pytest.raises(Invalid):
        downloads._public_address("rebinding.example", 80)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://8.8.8.8/x", "http://", "http:///x", "http://[::1/x"])
def test_only_the_web_is_fetched_from(url: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        downloads.fetch(url, tmp_path / "x", 100)


class Local(socketserver.BaseRequestHandler):
    """A web server on this machine."""

    answers: ClassVar[dict[bytes, bytes]] = {}
    hosts: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        request = self.request.recv(4096)
        self.hosts.append(next(line for line in request.split(b"\r\n") if line.lower().startswith(b"host:")))
        self.request.sendall(self.answers[request.split()[1]])


@pytest.fixture
def local() -> Iterator[int]:
    Local.hosts.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Local) as server:
        port = server.server_address[1]
        Local.answers = {
            b"/file.json": b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + b'{"n": 1}',
            b"/away": f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/file.json\r\nContent-Length: 0\r\n\r\n".encode(),
            b"/inside": b"HTTP/1.1 302 Found\r\nLocation: /file.json\r\nContent-Length: 0\r\n\r\n",
            b"/round": b"HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\n\r\n",
            b"/packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
            + gzip.compress(b"1" * 10**6),
            b"/nowhere": b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
            b"/gone": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        }
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield port
        server.shutdown()


def test_a_server_on_this_machine_gets_no_request(local: int, tmp_path: Path) -> None:
    with open_app(
        settings.load({"data_dir": tmp_path, "families": "portals", "portal_urls": True}, environ={}).settings
    ) as app:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "user@127.0.0.1"):
            with pytest.raises(Invalid) as caught:
                _import(app, f"http://{host}:{local}/file.json", "json", table="web")
            assert caught.value.data == {"field": "source"}
        assert app.portals.all(CALLER) == []
    assert Local.hosts == []


def test_a_file_is_fetched_and_redirects_are_looked_at_again(
    local: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a name that is allowed to lead here; every other address still is not."""
    real = downloads._public_address
    monkeypatch.setattr(
        downloads, "_public_address", lambda host, port: "127.0.0.1" if host == "web.example" else real(host, port)
    )
    web, target = f"http://web.example:{local}", tmp_path / "x"
    downloads.fetch(f"{web}/file.json", target, 100)
    assert target.read_bytes() == b'{"n": 1}'
    downloads.fetch(f"{web}/inside", target, 100)
    with pytest.raises(Invalid, match="not public"):
        downloads.fetch(f"{web}/away", target, 100)
    with pytest.raises(Invalid, match="redirects too often"):
        downloads.fetch(f"{web}/round", target, 100)
    with pytest.raises(Unavailable):
        downloads.fetch(f"{web}/gone", target, 100)
    with pytest.raises(Invalid) as caught:
        downloads.fetch(f"{web}/file.json", target, 5)
    assert caught.value.code == "too_large"
    with pytest.raises(Invalid, match="compressed"):
        downloads.fetch(f"{web}/packed", target, 10_000)
    with pytest.raises(Unavailable):
        downloads.fetch(f"{web}/nowhere", target, 100)
    with monkeypatch.context() as patch:
        patch.setattr(downloads, "MAX_FETCH_S", -1.0)
        with pytest.raises(Unavailable, match="too slow"):
            downloads.fetch(f"{web}/file.json", target, 100)
    assert {host.split()[1] for host in Local.hosts} == {f"web.example:{local}".encode()}


CHILD_THAT_MAY_CONNECT_HERE = """
from memory_mcp.families.portals import downloads
downloads._public_address = lambda host, port: "127.0.0.1"
from memory_mcp.engines.isolation import child
child.main()
"""


@pytest.mark.skipif(not landlock_version(), reason="the kernel has no Landlock")
@pytest.mark.parametrize("network", [True, False])
def test_a_child_process_that_fetches_reaches_the_web_and_no_other_folder(
    local: int, tmp_path: Path, network: bool
) -> None:
    """With the limits of a real one; only the check of addresses is replaced, as no test may leave this machine."""
    (tmp_path / "staging").mkdir()
    limits: dict[str, Any] = {
        "seconds": 60,
        "memory_bytes": 2**29,
        "file_bytes": 100,
        "open_files": 64,
        "network": network,
    }
    limits |= {"readable": [], "writable": [str(tmp_path / "staging")], "parent": os.getpid()}
    requests = [
        {
            "module": downloads.__name__,
            "function": "fetch",
            "arguments": [f"http://web.example:{local}/file.json", str(tmp_path / name), 100],
        }
        for name in ("staging/x", "y")
    ]
    done = subprocess.run(
        [sys.executable, "-c", CHILD_THAT_MAY_CONNECT_HERE, json.dumps(limits)],
        input="".join(json.dumps(one) + "\n" for one in requests),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if network:
        assert answers[0] == {"result": None}
        assert "PermissionError" in answers[1]["bug"]
    else:
        assert "result" not in answers[0]
    assert (tmp_path / "staging" / "x").exists() is network
    assert not (tmp_path / "y").exists()
    assert len(Local.hosts) == 2 * network
