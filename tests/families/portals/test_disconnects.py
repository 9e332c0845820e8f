"""Callers who leave before the answer: what the engine does for them stops, and nothing stays of it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from memory_mcp.app import App
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.portals import storage
from memory_mcp.server.protocol import McpServer
from tests.conftest import connected
from tests.events import eventually
from tests.families.portals.calls import CALLER, PORTAL, put, query_operation
from tests.families.portals.test_processes import start

ENDLESS = "SELECT sum(sipHash64(number)) AS s FROM numbers(1000000000000)"
SOON = 30.0  # seconds, on a busy machine; by itself a query ends after a minute


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "portal_seconds": 60, "export_bytes": 100_000}


@pytest.fixture(scope="module", autouse=True)
def filled(app: App) -> None:
    put(app, "t", [{"n": 1}])


@pytest.fixture
def engine(data_dir: Path) -> Iterator[EngineConnections]:
    """Another server's."""
    opened = EngineConnections(data_dir / "portals" / "tests" / "shared", {"max_execution_time": 5})
    yield opened
    opened.close()


def running(engine: EngineConnections) -> int:
    [row] = engine.rows(
        "SELECT toInt32(count()) AS c FROM system.processes "
        "WHERE query LIKE '%1000000000000%' AND query NOT LIKE '%LIKE%'"
    )
    return int(row["c"])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("portal_query", {"sql": ENDLESS}),
        ("portal_export", {"query": ENDLESS, "destination": "endless.csv", "format": "csv"}),
    ],
)
async def test_a_cancelled_call_stops_in_the_engine(
    app: App, data_dir: Path, engine: EngineConnections, era: str, tool: str, more: dict[str, Any]
) -> None:
    async with connected(McpServer(app), mode=era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, tool, {"portalUri": PORTAL, **more})
        await anyio.to_thread.run_sync(eventually, lambda: running(engine) == 1)
        tasks.cancel_scope.cancel()
    await anyio.to_thread.run_sync(eventually, lambda: running(engine) == 0)
    staging = data_dir / "portals" / "tests" / "shared" / "staging"
    await anyio.to_thread.run_sync(eventually, lambda: not list(staging.iterdir()))
    assert not (data_dir / "exports" / "endless.csv").exists()


def test_statements_of_a_killed_server_stop(tmp_path: Path) -> None:
    server = start(tmp_path, "--families", "portals", "--portal-seconds", "60")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    engine = EngineConnections(tmp_path / "portals" / "tests" / "shared", {"max_execution_time": 5})
    for arguments in ({"sql": ENDLESS}, {"query": ENDLESS, "destination": "x.csv", "format": "csv"}):
        tool = "portal_query" if "sql" in arguments else "portal_export"
        server.post("tools/call", {"name": tool, "arguments": {"portalUri": PORTAL, **arguments}})
    eventually(lambda: running(engine) == 2)
    server.kill()
    eventually(lambda: running(engine) == 0)
    engine.close()


def test_many_exports_do_not_block_reads_and_the_rest_are_refused(app: App, engine: EngineConnections) -> None:
    cancelled, refusals = threading.Event(), []

    def export(number: int) -> None:
        try:
            app.portals.exports.export_file(
                CALLER, PORTAL, f"{number}.csv", "csv", None, ENDLESS, lambda *progress: None, cancelled
            )
        except AppError as exc:
            refusals.append((cancelled.is_set(), exc.code, exc.message))

    exports = [threading.Thread(target=export, args=(number,)) for number in range(40)]
    for one in exports:
        one.start()
    eventually(lambda: len(refusals) == 40 - app.settings.user_transfers and running(engine) == 2)
    assert {(error, "Try again" in message) for _, error, message in refusals} == {("unavailable", True)}
    assert query_operation(app, "SELECT n FROM t WHERE n = 1 LIMIT 1") == [{"n": 1}]
    assert app.portals.view(CALLER, PORTAL).tables
    put(app, "t", [{"n": 2}])
    cancelled.set()
    for one in exports:
        one.join(SOON)
    eventually(lambda: running(engine) == 0)
    assert len(refusals) == 40


def _import(app: App, name: str, cancelled: threading.Event, format_: Any, table: str | None = None) -> None:
    app.portals.imports.import_file(
        CALLER, PORTAL, name, format_, table, lambda *progress: None, cancelled, on_conflict="append"
    )


@pytest.mark.parametrize("table", ["t", "fresh"])
def test_of_a_cancelled_import_nothing_stays(
    app: App, data_dir: Path, engine: EngineConnections, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / "x.csv").write_text("n,more\n1,2\n")
    before = _shape(app)
    cancelled = threading.Event()

    def load_slowly(engine: EngineConnections, table: str, *_: Any) -> None:
        threading.Timer(
            0.5, cancelled.set
        ).start()  # a timer: a change locks the portal, so no query can look meanwhile
        engine.run(
            f"INSERT INTO {table} (n) SELECT toInt64(sum(sipHash64(a.number, b.number))) "
            "FROM numbers(300000) AS a CROSS JOIN numbers(300000) AS b"
        )

    monkeypatch.setattr(storage, "load_file", load_slowly)
    with pytest.raises(Unavailable):
        _import(app, "x.csv", cancelled, "csv", table)
    assert _shape(app) == before
    assert _tables(engine) == ["_mcp_metadata", *(name for name, _, _ in before)]


def _shape(app: App) -> list[tuple[str, int, Any]]:
    return [(table.name, table.rows, table.columns) for table in app.portals.view(CALLER, PORTAL).tables]


def _tables(engine: EngineConnections) -> list[str]:
    rows = engine.rows("SELECT name FROM system.tables WHERE database IN ('portal', 'restored') ORDER BY name")
    return [row["name"] for row in rows]


@pytest.mark.parametrize("step", ["restore", "is_whole", "copy_rows"])
def test_of_a_cancelled_portal_file_nothing_stays(
    app: App, data_dir: Path, engine: EngineConnections, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = f"{step}.db"
    app.portals.exports.export_file(CALLER, PORTAL, made, "db", None, None, lambda *progress: None)
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / made).write_bytes((data_dir / "exports" / made).read_bytes())
    before = _shape(app)
    cancelled, real = threading.Event(), getattr(storage, step)

    def leave(*arguments: Any) -> Any:
        done = real(*arguments)
        cancelled.set()
        return done

    monkeypatch.setattr(storage, step, leave)
    with pytest.raises(Unavailable):
        _import(app, made, cancelled, "db")
    assert _shape(app) == before
    assert _tables(engine) == ["_mcp_metadata", *(name for name, _, _ in before)]


def test_a_portal_file_over_the_limit_is_too_large_and_leaves_nothing(
    app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal = "mem://tests/large"
    put(app, "small", [{"n": 1}], portal)
    assert (
        app.portals.exports.export_file(CALLER, portal, "small.db", "db", None, None, lambda *progress: None).rows == 1
    )
    # Noise, that no compression makes small.
    put(app, "noise", [{"text": "".join(map(chr, _noise(60_000)))}], portal)
    for looks_small in (False, True):
        if looks_small:
            monkeypatch.setattr(storage, "tables", _as_if_empty(storage.tables))
        with pytest.raises(Invalid) as caught:
            app.portals.exports.export_file(CALLER, portal, "large.db", "db", None, None, lambda *progress: None)
        assert (caught.value.code, caught.value.data["field"]) == ("too_large", "format")
        assert not (data_dir / "exports" / "large.db").exists()
        assert not list((data_dir / "portals" / "tests" / "large" / "staging").iterdir())


def _noise(count: int) -> Iterator[int]:
    value = 1
    for _ in range(count):
        value = value * 48271 % (2**31 - 1)
        yield 0x4E00 + value % 0x5000


def _as_if_empty(real: Callable[[EngineConnections], Sequence[Any]]) -> Callable[[EngineConnections], Sequence[Any]]:
    return lambda engine: [replace(table, bytes=0) for table in real(engine)]
