"""An engine that computes without a pause has a low priority, and one that answers small queries does not."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from memory_mcp.engines.chdb import priority
from memory_mcp.engines.chdb.process import RecentStarts
from memory_mcp.system.operating_system import MAX_NICENESS
from tests.events import eventually
from tests.families.portals.test_processes import engine_pid
from tests.wire import Stdio, http_server

PORTAL = "mem://fair/share"
LONG = "SELECT sum(sipHash64(number)) AS s FROM numbers(40000000000)"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="niceness of each thread, and /proc")


def niceness(pid: int) -> set[int]:
    """Of all threads of a process, above that of this one."""
    own, found = os.getpriority(os.PRIO_PROCESS, 0), set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # it has just ended
            found.add(os.getpriority(os.PRIO_PROCESS, int(task.name)) - own)
    return found


def test_a_long_query_lowers_the_priority_of_its_engine(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "portals", "--portal-seconds", "60")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    pid = engine_pid(tmp_path / "portals" / "fair" / "share")
    assert os.getsid(pid) == os.getsid(server.process.pid)  # or Linux gives it as much as all of the server's session
    assert os.getpgid(pid) == pid  # Ctrl-C in the server's terminal does not reach it
    for _ in range(20):
        server.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")
    eventually(lambda: niceness(pid) == {0})
    request_id = server.post("tools/call", {"name": "portal_query", "arguments": {"portalUri": PORTAL, "sql": LONG}})
    eventually(lambda: niceness(pid) == {priority.BUSY_NICENESS})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})
    if os.geteuid() == 0:  # who else may raise a priority again
        eventually(lambda: niceness(pid) == {0})
    server.close()


def policies(pid: int) -> set[int]:
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            found.add(os.sched_getscheduler(int(task.name)))
    return found


def test_over_http_a_busy_engine_gets_only_processors_that_no_other_wants(tmp_path: Path) -> None:
    with http_server(tmp_path, "--families", "portals", "--portal-seconds", "60") as server:
        server.modern_call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
        (folder,) = tmp_path.glob("**/portals/fair/share")
        pid = engine_pid(folder)
        assert policies(pid) == {os.SCHED_OTHER}
        with ThreadPoolExecutor() as threads:
            threads.submit(server.modern_call, "portal_query", portalUri=PORTAL, sql=LONG)
            eventually(lambda: policies(pid) == {os.SCHED_IDLE})
            server.process.kill()  # which would send the query to another engine
            os.kill(pid, signal.SIGKILL)


def test_many_starts_in_a_minute_lower_the_priority_of_the_next(tmp_path: Path) -> None:
    starts = RecentStarts()
    given = [starts.record(tmp_path / "one") for _ in range(20)]
    assert given[: starts.MAX_FREE_STARTS] == [0] * starts.MAX_FREE_STARTS
    assert given == sorted(given)
    assert given[-1] == MAX_NICENESS
    assert starts.record(tmp_path / "another") == 0
