"""The queries of one user together use limited memory, over all of their portals."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from memory_mcp.engines.chdb.client import EngineConnections
from tests.events import TIMEOUT_S, eventually
from tests.families.portals.test_disconnects import ENDLESS, running
from tests.processes import run
from tests.wire import Http, http_server

BUSY, FREE = "mem://tests/busy", "mem://tests/free"
FLAGS = ("--families", "portals", "--portal-memory", "100000000", "--portal-user-memory", "150000000")
END = "KILL QUERY WHERE query LIKE '%1000000000000%' AND query NOT LIKE '%LIKE%' SYNC"


def count(user: Http) -> int:
    return int(user.modern_call("portal_query", portalUri=FREE, sql="SELECT n FROM t")["rowCount"])


def test_a_query_waits_while_those_of_its_user_may_use_all_of_the_memory(tmp_path: Path) -> None:
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
            second = threads.submit(count, server)
            assert [count(neighbor) for _ in range(5)] == [1] * 5
            assert not second.done()
        finally:
            engine.run(END)
        assert second.result(TIMEOUT_S) == 1
        assert "result" in first.result(TIMEOUT_S)
        engine.close()
