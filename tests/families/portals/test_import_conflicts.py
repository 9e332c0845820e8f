"""portal_import into a portal that has the file's tables: onConflict, and that all tables come or none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import CALLER, put, query, tables, types
from tests.processes import environment
from tests.wire import Stdio

pytestmark = pytest.mark.anyio

FILE_TABLES = {"a": [{"n": 1, "more": "x"}], "b": [{"n": 2, "more": "y"}]}


@pytest.fixture(scope="module", autouse=True)
def file(app: App, data_dir: Path) -> None:
    """both.db in imports/, with the tables a and b."""
    for name, records in FILE_TABLES.items():
        put(app, name, records, "mem://tests/source")
    app.portals.exports.export_file(CALLER, "mem://tests/source", "both.db", "db", None, None, lambda *progress: None)
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / "both.db").write_bytes((data_dir / "exports" / "both.db").read_bytes())


@pytest.fixture
def portal(app: App) -> str:
    """With the tables b, which the file has too, and own. All tests share it: an engine takes a second to start."""
    uri = "mem://tests/target"
    put(app, "own", [{"n": 8}], uri)
    for table in app.portals.view(CALLER, uri).tables:
        app.portals.delete(CALLER, uri, table.name, None, confirm=True)
    put(app, "b", [{"n": 7}], uri)
    put(app, "own", [{"n": 8}], uri)
    return uri


async def rows(client: Client, portal: str, name: str) -> list[dict[str, Any]]:
    return await query(client, f"SELECT * FROM {name} ORDER BY n", portal=portal)


async def test_existing_tables_refuse_a_db_file_unless_on_conflict_is_given(client: Client, portal: str) -> None:
    before = await call(client, "portal_view", portalUri=portal)
    given: dict[str, Any]
    for given in ({}, {"onConflict": "refuse"}, {"onConflict": None}):
        refused = await refusal(client, "portal_import", portalUri=portal, source="both.db", format="db", **given)
        assert (refused["error"], refused["data"]) == ("conflict", {"field": "onConflict", "tables": ["b"]})
        assert all(word in refused["message"] for word in ("'b'", "append", "replace", "nothing was changed"))
        assert (await call(client, "portal_view", portalUri=portal))["tables"] == before["tables"]
    answer = await call(client, "portal_import", portalUri=portal, source="both.db", format="db", table="a")
    assert answer == {"portalUri": portal, "table": "a", "imported": 1}
    assert await tables(client, portal=portal) == {"a", "b", "own"}


async def test_append_adds_rows_and_columns(client: Client, portal: str) -> None:
    given = {"portalUri": portal, "source": "both.db", "format": "db", "onConflict": "append"}
    for imported in (2, 2):
        assert (await call(client, "portal_import", **given))["imported"] == imported
    assert await rows(client, portal, "a") == FILE_TABLES["a"] * 2
    assert await rows(client, portal, "b") == FILE_TABLES["b"] * 2 + [{"n": 7, "more": None}]
    assert await rows(client, portal, "own") == [{"n": 8}]
    statement = await query(client, "SELECT value FROM _mcp_metadata WHERE key = 'mcp.schema.b'", portal=portal)
    assert "`more`" in statement[0]["value"]


async def test_appending_values_that_do_not_fit_changes_no_table(client: Client, app: App, portal: str) -> None:
    given = {"portalUri": portal, "source": "both.db", "format": "db", "onConflict": "append"}
    for there, message in (({"n": "a text"}, "'n' of 'b'"), ({"id": 1, "n": 7}, "needs an 'id'")):
        app.portals.delete(CALLER, portal, "b", None, confirm=True)
        put(app, "b", [there], portal)
        refused = await refusal(client, "portal_import", **given)
        assert (refused["error"], refused["data"]["field"], message in refused["message"]) == (
            "invalid",
            "source",
            True,
        )
        assert await tables(client, portal=portal) == {"b", "own"}
        assert await rows(client, portal, "b") == [there]


async def test_replace_puts_the_files_tables_in_place_of_those_there(client: Client, portal: str) -> None:
    given = {"portalUri": portal, "source": "both.db", "format": "db", "onConflict": "replace"}
    for _ in range(2):
        assert (await call(client, "portal_import", **given))["imported"] == 2
        assert await rows(client, portal, "a") == FILE_TABLES["a"]
        assert await rows(client, portal, "b") == FILE_TABLES["b"]
        assert await rows(client, portal, "own") == [{"n": 8}]


@pytest.mark.parametrize("name", ["b.json", "b.csv"])
async def test_records_are_appended_by_default(client: Client, data_dir: Path, portal: str, name: str) -> None:
    content = {"b.json": '[{"n": 5, "text": "t"}]', "b.csv": "n,text\n5,t\n"}[name]
    (data_dir / "imports" / name).write_text(content)
    given = {"portalUri": portal, "source": name, "format": name.partition(".")[2]}
    refused = await refusal(client, "portal_import", **given, onConflict="refuse")
    assert (refused["error"], refused["data"]["tables"]) == ("conflict", ["b"])
    await call(client, "portal_import", **given)
    assert await rows(client, portal, "b") == [{"n": 5, "text": "t"}, {"n": 7, "text": None}]
    assert (await call(client, "portal_import", **given, onConflict="replace"))["imported"] == 1
    assert await rows(client, portal, "b") == [{"n": 5, "text": "t"}]
    assert await types(client, "b", portal=portal) == {"n": "Nullable(Int64)", "text": "Nullable(String)"}
    (data_dir / "imports" / name).write_text("{" if name == "b.json" else "n,,x\n1,2,3\n")
    assert (await refusal(client, "portal_import", **given, onConflict="replace"))["error"] == "invalid"
    assert await rows(client, portal, "b") == [{"n": 5, "text": "t"}]


DYING = """
import os, sys
from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.families.portals import journal, storage
from tests.families.portals.calls import CALLER
data_dir, portal, moment = sys.argv[1:]
real, placed = storage.rename_staged, []

def rename_staged(line, *staged):
    if placed:
        os._exit(9)
    real(line, *staged)
    placed.append(staged)

if moment == "in the last step":
    storage.rename_staged = rename_staged
else:
    journal.write = lambda folder, tables: os._exit(9)
chosen = {"data_dir": data_dir, "families": "portals", "embedder": "none"}
with open_app(settings.load(chosen, environ={}).settings) as app:
    app.portals.imports.import_file(
        CALLER, portal, "both.db", "db", None, lambda *progress: None, None, "replace"
    )
"""


@pytest.mark.parametrize(("moment", "is_new"), [("before the last step", False), ("in the last step", True)])
def test_a_server_that_dies_leaves_the_old_tables_or_the_new(
    data_dir: Path, portal: str, moment: str, is_new: bool
) -> None:
    died = subprocess.run([sys.executable, "-c", DYING, str(data_dir), portal, moment], check=False)
    assert died.returncode == 9
    server = Stdio.start(
        data_dir, "--families", "portals", "--embedder", "none", env=environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="1")
    )
    found = server.call("portal_query", portalUri=portal, sql="SELECT n FROM b")["rows"]
    assert found == ([{"n": 2}] if is_new else [{"n": 7}])
    shown = server.call("portal_view", portalUri=portal)["tables"]
    assert {one["name"]: one["rows"] for one in shown} == ({"a": 1} if is_new else {}) | {"b": 1, "own": 1}
    kept = "SELECT value FROM _mcp_metadata WHERE key = 'mcp.schema.b'"
    assert ("`more`" in server.call("portal_query", portalUri=portal, sql=kept)["rows"][0]["value"]) is is_new
    again = server.call("portal_import", portalUri=portal, source="both.db", format="db", onConflict="replace")
    assert again["imported"] == 2
    server.close()
    assert not (data_dir / "portals" / "tests" / portal.rpartition("/")[2] / "import.json").exists()
