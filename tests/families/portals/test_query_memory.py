"""The queries, exports and imports of one user together use limited memory, over all of their portals."""

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from tests.events import TIMEOUT_S, eventually
from tests.families.portals.test_disconnects import ENDLESS, running
from tests.processes import run
from tests.wire import Http, http_server

BUSY, FREE = "mem://tests/busy", "mem://tests/free"
FLAGS = ("--families", "portals", "--portal-memory", "100000000", "--portal-user-memory", "150000000")
END = "KILL QUERY WHERE query LIKE '%1000000000000%' AND query NOT LIKE '%LIKE%' SYNC"


def query(user: Http, _: int) -> int:
    return int(user.modern_call("portal_query", portalUri=FREE, sql="SELECT n FROM t")["rowCount"])


def export(user: Http, number: int) -> int:
    arguments: dict[str, Any] = {"destination": f"{number}.csv", "format": "csv", "table": "t"}
    return int(user.modern_call("portal_export", portalUri=FREE, **arguments)["rows"])


def import_(user: Http, number: int) -> int:
    data = base64.b64encode(b"n\n1\n").decode()
    source = user.modern_call("portal_upload", name=f"{number}.csv", data=data)["source"]
    arguments: dict[str, Any] = {"source": source, "format": "csv", "table": f"i{number}"}
    return int(user.modern_call("portal_import", portalUri=FREE, **arguments)["imported"])


@pytest.mark.parametrize("work", [query, export, import_])
def test_a_call_waits_while_others_of_its_user_may_use_all_of_the_memory(
    tmp_path: Path, work: Callable[[Http, int], int]
) -> None:
    with http_server(tmp_path, *FLAGS, "--portal-seconds", "3600") as server, ThreadPoolExecutor(2) as threads:
        cli = ("--data-dir", tmp_path, "--json")
        run("users", "add", "ann", *cli, check=True)
        made = run("keys", "create", "--user", "ann", "--name", "k", *cli, check=True)
        neighbor = replace(server, key=json.loads(made.stdout)["key"])
        for user, portal in ((server, BUSY), (server, FREE), (neighbor, FREE)):
            user.modern_call("portal_write", portalUri=portal, table="t", data=[{"n": 1}])
        engine = EngineConnections(tmp_path / "portals" / "tests" / "busy", {"max_execution_time": 60})
        endless = {"name": "portal_query", "arguments": {"portalUri": BUSY, "sql": ENDLESS}}
        first = threads.submit(server.modern, "tools/call", endless)
        try:
            eventually(lambda: running(engine) == 1)
            second = threads.submit(work, server, 0)
            assert [work(neighbor, number) for number in range(5)] == [1] * 5
            assert not second.done()
        finally:
            engine.run(END)
        assert second.result(TIMEOUT_S) == 1
        assert "result" in first.result(TIMEOUT_S)
        engine.close()


class HasWaited(Exception):
    pass


def test_a_large_statement_that_waits_does_not_hold_up_small_ones() -> None:
    def has_waited() -> None:
        raise HasWaited

    hold = partial(MemoryBudget(100).hold, timeout_s=TIMEOUT_S, check_interval_s=0.0, check_continue=has_waited)
    with hold(60):
        with pytest.raises(HasWaited), hold(75):
            pass
        with hold(40), pytest.raises(HasWaited), hold(1):
            pass
    with hold(1000):  # one always fits
        pass
