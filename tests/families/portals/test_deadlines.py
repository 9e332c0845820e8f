"""Limits of time that hold whatever the engine does: inside of one block, stopped, or with its caller gone."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.engines.chdb import client as engine_client
from memory_mcp.engines.chdb import process as engine_process
from memory_mcp.errors import Invalid
from tests.events import eventually
from tests.families.portals.calls import CALLER, PORTAL, put, query_operation
from tests.families.portals.test_processes import engine_pid, start
from tests.wire import Stdio

# One block of 2000 rows, each of which takes the engine seconds: it looks at no limit meanwhile.
STUCK = "SELECT sum(editDistance(materialize(repeat('a', 60000)), repeat('b', 60000))) AS s FROM numbers(2000)"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "portal_seconds": 2, "export_seconds": 1}


@pytest.fixture
def pid(app: App, data_dir: Path) -> int:
    put(app, "t", [{"n": 0}])
    return engine_pid(data_dir / "portals" / "tests" / "shared")


@pytest.fixture(scope="module")
def two(data_dir: Path) -> Iterator[tuple[Stdio, Stdio]]:
    servers = (
        start(data_dir, "--families", "portals", "--portal-seconds", "2"),
        start(data_dir, "--families", "portals", "--portal-seconds", "60"),
    )
    yield servers
    for server in servers:
        server.close()


def is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def test_a_query_that_does_not_stop_is_answered_and_the_calls_of_others_go_on(
    two: tuple[Stdio, Stdio], pid: int, app: App
) -> None:
    guilty, other = two
    before = len(query_operation(app, "SELECT n FROM t"))
    answers: list[dict[str, Any]] = []
    request_id = guilty.post("tools/call", {"name": "portal_query", "arguments": {"portalUri": PORTAL, "sql": STUCK}})

    def wait_for_answer() -> None:
        while not answers:
            answers.extend(message for message in [guilty.receive()] if message.get("id") == request_id)

    waiting = threading.Thread(target=wait_for_answer)
    waiting.start()
    written = 0
    while waiting.is_alive() or not is_gone(pid) or written < 5:  # some before, some while, some after the engine ends
        written += 1
        other.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": written}])
        assert other.call("portal_query", portalUri=PORTAL, sql=f"SELECT n FROM t WHERE n = {written} LIMIT 1")["rows"]
    waiting.join()
    refused = answers[0]["result"]["structuredContent"]
    assert (refused["error"], refused["data"]) == ("timeout", {"field": "sql"})
    [row] = other.call("portal_query", portalUri=PORTAL, sql="SELECT count() AS c, uniqExact(n) AS u FROM t")["rows"]
    assert row == {"c": before + written, "u": written + 1}


def test_the_engine_ends_when_the_caller_of_a_query_that_does_not_stop_has_left(
    two: tuple[Stdio, Stdio], pid: int
) -> None:
    server = two[1]  # which lets a query take a minute
    request_id = server.post("tools/call", {"name": "portal_query", "arguments": {"portalUri": PORTAL, "sql": STUCK}})
    server.call("portal_view", portalUri=PORTAL)  # the engine has begun with the query by now, or is about to
    server.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
    eventually(lambda: is_gone(pid))
    assert server.call("portal_query", portalUri=PORTAL, sql="SELECT 1 AS a")["rows"] == [{"a": 1}]


def test_a_text_that_takes_the_parser_for_ever_ends_too(two: tuple[Stdio, Stdio], pid: int) -> None:
    sql = "SELECT " + "[(" * 32_000
    answer = two[0].ask("tools/call", {"name": "portal_query", "arguments": {"portalUri": PORTAL, "sql": sql}})
    assert answer["result"]["structuredContent"]["error"] == "timeout"
    eventually(lambda: is_gone(pid))
    assert two[1].call("portal_query", portalUri=PORTAL, sql="SELECT 1 AS a")["rows"] == [{"a": 1}]


def test_exports_have_a_limit_too(app: App, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "MAX_COUNT_S", 0)
    with pytest.raises(Invalid) as caught:
        app.portals.exports.export_file(CALLER, PORTAL, "x.csv", "csv", None, STUCK, lambda *progress: None)
    assert (caught.value.code, caught.value.data) == ("timeout", {"field": "query"})
    eventually(lambda: is_gone(pid))
    staging = Path(str(app.settings.data_dir), "portals", "tests", "shared", "staging")
    assert not list(staging.iterdir())
    assert not (app.settings.data_dir / "exports" / "x.csv").exists()


def test_a_stopped_engine_holds_no_call(app: App, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query ends at its limit; a write, whose limit is an hour, is sent to the next engine."""
    monkeypatch.setattr(engine_client, "KILL_GRACE_S", 0)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Invalid) as caught:
        query_operation(app, "SELECT 1 AS a")
    assert caught.value.code == "timeout"
    eventually(lambda: is_gone(pid))
    before = query_operation(app, "SELECT count() AS c FROM t")[0]["c"]

    monkeypatch.setattr(engine_client, "PROBE_INTERVAL_S", 0.2)
    monkeypatch.setattr(engine_process, "HELLO_TIMEOUT_S", 1)
    stopped = engine_pid(app.settings.data_dir / "portals" / "tests" / "shared")
    os.kill(stopped, signal.SIGSTOP)
    put(app, "t", [{"n": -1}])
    assert is_gone(stopped)
    monkeypatch.undo()
    assert query_operation(app, "SELECT count() AS c FROM t") == [{"c": before + 1}]
