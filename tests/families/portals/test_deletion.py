"""What is deleted leaves the disk before the answer is given."""

import json
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.engines.chdb.client import EngineConnections
from tests.families.portals.processes import files_with
from tests.processes import environment
from tests.wire import Stdio

PORTAL = "mem://tests/deleted"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Stdio]:
    env = environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="10", MEMORY_MCP_EMBEDDER="none")
    server = Stdio.start(data_dir, "--families", "portals,recall", env=env)
    yield server
    server.close()


@pytest.fixture
def token() -> str:
    """A text that nothing compresses, and that is one word for a search."""
    return f"zq{secrets.token_hex(20)}"


def write(server: Stdio, table: str, *records: dict[str, Any]) -> None:
    server.call("portal_write", portalUri=PORTAL, table=table, data=list(records))


def find(server: Stdio, token: str) -> list[str]:
    return [hit["ref"] for hit in server.call("recall_memories", query=token)["hits"]]


def test_rows_that_match_are_gone_with_the_condition_that_named_them(server: Stdio, data_dir: Path, token: str) -> None:
    write(server, "people", {"id": "a", "name": token}, {"id": "b", "name": "other"}, {"id": "c", "name": None})
    write(server, "people", {"id": "d", "name": "later"})
    assert find(server, token) == [f"{PORTAL}/people"]
    before = files_with(data_dir, token)
    assert any(name.endswith("data.packed") for name in before)
    assert any(name.startswith("recall.db") for name in before)

    answer = server.call("portal_delete", portalUri=PORTAL, table="people", where={"name": token})
    assert answer["deleted"] == 1
    assert files_with(data_dir, token) == []
    rows = server.call("portal_query", portalUri=PORTAL, sql="SELECT id, name FROM people ORDER BY id")["rows"]
    assert rows == [{"id": "b", "name": "other"}, {"id": "c", "name": None}, {"id": "d", "name": "later"}]
    assert find(server, token) == []
    assert find(server, "later") == [f"{PORTAL}/people"]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"n": {"gte": 2}}, [1, None]),
        ({"n": None}, [1, 2, 3]),
        ({"n": [1, 3]}, [2, None]),
        ({"n": {"ne": 2}}, [2, None]),
        ({"text": {"like": "%b%"}, "n": 2}, [1, 3, None]),
        ({"n": 7}, [1, 2, 3, None]),
    ],
)
def test_rows_that_do_not_match_stay(server: Stdio, where: dict[str, Any], left: list[int | None]) -> None:
    table = f"t_{secrets.token_hex(4)}"
    write(server, table, {"n": 1, "text": "abc", "more": {"x": [1]}}, {"n": 2, "text": "b", "more": {}})
    write(server, table, {"n": 3, "text": None, "more": {"y": {"z": 1}}}, {"n": None, "text": "c", "more": {}})
    schema = next(one for one in server.read(PORTAL)["schema"]["tables"] if one["name"] == table)
    answer = server.call("portal_delete", portalUri=PORTAL, table=table, where=where)
    assert answer["deleted"] == 4 - len(left)
    rows = server.call("portal_query", portalUri=PORTAL, sql=f"SELECT n, more FROM {table} ORDER BY n")["rows"]
    assert [row["n"] for row in rows] == left
    assert all(row["more"] == {"y": {"z": 1}} for row in rows if row["n"] == 3)
    assert next(one for one in server.read(PORTAL)["schema"]["tables"] if one["name"] == table) == schema


def test_a_whole_table_is_gone(server: Stdio, data_dir: Path, token: str) -> None:
    write(server, token, {"id": "a", "name": token}, {"id": "b", "name": "other"})
    find(server, token)
    server.call("portal_delete", portalUri=PORTAL, table=token, where={"id": "b"})
    assert server.call("portal_delete", portalUri=PORTAL, table=token, confirm=True)["deleted"] == 1
    # The audit log and the journal of writes name the table.
    named = {f"{name}.db{log}" for name in ("server", "portal_writes") for log in ("", "-wal")}
    assert set(files_with(data_dir, token)) <= named


def test_the_audit_log_names_columns_and_counts(server: Stdio, data_dir: Path, token: str) -> None:
    write(server, "log", {"id": "a", "name": token})
    server.call("portal_delete", portalUri=PORTAL, table="log", where={"name": {"like": f"%{token}"}, "id": ["a", "b"]})
    with sqlite3.connect(data_dir / "server.db") as db:
        [(details,)] = db.execute("SELECT details FROM audit ORDER BY id DESC LIMIT 1").fetchall()
    db.close()
    assert json.loads(details) == {"portalUri": PORTAL, "table": "log", "deleted": 1, "columns": ["id", "name"]}


@pytest.mark.parametrize("prefix", ["_copy_", "_import_"])
def test_rows_are_deleted_from_leftovers_of_a_killed_server_too(
    server: Stdio, data_dir: Path, token: str, prefix: str
) -> None:
    """A deletion or import that was killed leaves a copy of the table. A later deletion and a later file are without
    what it holds."""
    write(server, "kept", {"id": "a", "name": token}, {"id": "b", "name": "other"})
    engine = EngineConnections(data_dir / "portals" / "tests" / "deleted", {"max_execution_time": 5})
    left = f"{prefix}{secrets.token_hex(4)}"
    engine.run(f"CREATE TABLE {left} AS kept")
    engine.run(f"INSERT INTO {left} SELECT * FROM kept")
    assert server.call("portal_delete", portalUri=PORTAL, table="kept", where={"id": "a"})["deleted"] == 1
    assert files_with(data_dir, token) == []

    engine.run(f"CREATE TABLE {left} AS kept")
    server.call("portal_export", portalUri=PORTAL, destination=f"{left}.db", format="db")
    assert left.encode() not in (data_dir / "exports" / f"{left}.db").read_bytes()
    server.call("portal_delete", portalUri=PORTAL, table="kept", confirm=True)
    engine.close()
