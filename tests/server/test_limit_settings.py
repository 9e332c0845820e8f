"""Limits that an operator can set, where they have their effect."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.changes import Changes
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.limits import ImportLimits
from memory_mcp.server import http_server as limited_server
from memory_mcp.server.connections import LimitedConfig
from memory_mcp.server.import_jobs import ImportJobs
from memory_mcp.server.rest.downloads import Downloads
from memory_mcp.server.thread_pools import Workers
from tests.events import TIMEOUT_S, eventually
from tests.families.portals.test_disconnects import ENDLESS, running
from tests.families.portals.test_query_memory import END
from tests.processes import run
from tests.wire import Http, http_server

PORTAL = "mem://tests/limits"
FLAGS = ("--families", "portals", "--portal-seconds", "3600", "--portal-queries", "1", "--portal-queue-seconds", "1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("limits"), *FLAGS, "--server-transfers", "1") as started:
        started.modern_call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
        yield started


@pytest.fixture
def neighbor(server: Http) -> Http:
    cli = ("--data-dir", server.data_dir, "--json")
    run("users", "add", "ann", *cli, check=True)
    made = run("keys", "create", "--user", "ann", "--name", "k", *cli, check=True)
    return replace(server, key=json.loads(made.stdout)["key"])


def refusal(user: Http, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = user.modern("tools/call", {"name": tool, "arguments": arguments})["result"]
    assert answer["isError"]
    content: dict[str, Any] = answer["structuredContent"]
    return content


def test_queries_of_a_portal_and_transfers_of_all_users(server: Http, neighbor: Http) -> None:
    neighbor.modern_call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    engine = EngineConnections(server.data_dir / "portals" / "tests" / "limits", {"max_execution_time": 60})
    query = {"portalUri": PORTAL, "sql": ENDLESS}
    export = {"portalUri": PORTAL, "destination": "x.csv", "format": "csv"}
    with ThreadPoolExecutor(2) as threads:
        try:
            threads.submit(refusal, server, "portal_query", **query)
            eventually(lambda: running(engine) == 1)
            refused = refusal(server, "portal_query", portalUri=PORTAL, sql="SELECT n FROM t")
            assert refused["error"] == "unavailable"
            assert refused["message"].startswith("Too many of your queries")
            threads.submit(refusal, server, "portal_export", query=ENDLESS, **export)
            eventually(lambda: running(engine) == 2)
            refused = refusal(neighbor, "portal_export", table="t", **export)
            assert refused["message"].startswith("1 exports are running.")
        finally:
            engine.run(END)
    engine.close()


class Connection:
    def evict(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("refused", [0, 2])
def test_refused_connections_that_stay_open(refused: int, tmp_path: Path) -> None:
    given = {"transport": "http", "data_dir": tmp_path, "refused_connections": refused}
    config = limited_server.config(None, settings.load(given, environ={}).settings)
    assert isinstance(config, LimitedConfig)
    assert [config.connections.linger(Connection()) for _ in range(3)] == [True] * refused + [False] * (3 - refused)


def test_imports_in_the_browser_of_all_users() -> None:
    async def start_two() -> None:
        jobs, workers, ended = ImportJobs(Changes(), 1), Workers("reading", 4), threading.Event()

        def wait(*_: object) -> dict[str, Any]:
            ended.wait(TIMEOUT_S)
            return {}

        try:
            jobs.start("eve", "check", "a", workers, wait)
            with pytest.raises(Unavailable, match="Other people are importing"):
                jobs.start("ann", "check", "b", workers, wait)
        finally:
            ended.set()
        await asyncio.gather(*jobs._tasks)
        assert jobs.start("ann", "check", "b", workers, wait).state == "running"
        await asyncio.gather(*jobs._tasks)

    asyncio.run(start_two())


def test_downloads_of_all_users() -> None:
    downloads = Downloads(2)
    with downloads.slot("eve"), downloads.slot("bob"), pytest.raises(Unavailable), downloads.slot("ann"):
        pass
    with downloads.slot("ann"):
        pass


def test_how_much_larger_imported_records_may_be_than_their_file() -> None:
    def allowed(expansion: int) -> int:
        limits = ImportLimits(
            file_bytes=10**9, rows=1, expanded_bytes=10**11, expansion=expansion, memory_bytes=1, seconds=60
        )
        return limits.begin().engine_limits(10**9)["max_bytes_to_read"]

    assert [allowed(expansion) for expansion in (1, 5, 1000)] == [10**9, 5 * 10**9, 10**11]
