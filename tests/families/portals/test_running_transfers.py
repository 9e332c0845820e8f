"""One user has a share of the imports and exports that a server runs at once, and of what they write."""

import base64
import json
import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory_mcp.engines.chdb.paced_file import CHUNK_BYTES, MAX_BURST_BYTES
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.limits import TransferLimits
from memory_mcp.families.portals.transfer_folders import RunningTransfers
from tests.events import TIMEOUT_S, eventually
from tests.processes import run
from tests.wire import Http, http_server

PORTAL = "mem://tests/large"
RATE = 1_000_000  # the slowest that can be chosen
MANY_BYTES = 40_000_000  # of noise, in the portal: at that rate, they take longer than this test


def test_one_user_does_not_take_all_transfers() -> None:
    running = RunningTransfers("exports", TransferLimits(total=3, per_user=2))
    with ExitStack() as eve, ExitStack() as ann:
        eve.enter_context(running.begin("eve"))
        eve.enter_context(running.begin("eve"))
        with pytest.raises(Unavailable, match="2 exports of yours are running") as refused, running.begin("eve"):
            pass
        assert refused.value.data["retry_after"] > 0
        ann.enter_context(running.begin("ann"))
        with pytest.raises(Unavailable, match="3 exports are running"), running.begin("bob"):
            pass
        eve.close()
        ann.enter_context(running.begin("ann"))
    with running.begin("eve"), running.begin("eve"):
        pass


@contextmanager
def server_with_a_large_portal(data_dir: Path) -> Iterator[tuple[Http, Http]]:
    """A server of two users, as each of them reaches it. The second has the portal."""
    flags = ("--families", "portals", "--embedder", "none", "--user-transfers", "2", "--export-rate", str(RATE))
    with http_server(data_dir, *flags) as server:
        cli = (*("--data-dir", data_dir), "--json")
        run("users", "add", "eve", *cli, check=True)
        made = run("keys", "create", "--user", "eve", "--name", "k", *cli, check=True)
        eve = replace(server, key=json.loads(made.stdout)["key"])
        for one in (server, eve):
            one.modern_call("portal_write", portalUri=PORTAL, table="t", data=[{"text": "x"}])
        [folder] = (data_dir / "users").iterdir()
        (folder / "imports").mkdir(exist_ok=True)
        noise = base64.b64encode(random.Random(1).randbytes(MANY_BYTES)).decode()
        lines = (noise[at : at + 100_000] for at in range(0, len(noise), 100_000))
        (folder / "imports" / "noise.csv").write_text("\n".join(["text", *lines]))
        eve.modern_call("portal_import", portalUri=PORTAL, source="noise.csv", format="csv", table="t")
        yield server, eve


def test_exports_of_one_user_are_few_and_written_at_a_rate_which_delays_no_write(tmp_path: Path) -> None:
    """A table, and the whole portal as a db file. With the server killed, the calls under way end."""
    with ThreadPoolExecutor() as threads, server_with_a_large_portal(tmp_path) as (ann, eve):

        def export(what: dict[str, Any]) -> dict[str, Any]:
            with httpx.Client(base_url=eve.url, timeout=TIMEOUT_S) as client:
                arguments = {"portalUri": PORTAL, **what}
                return replace(eve, client=client).modern(
                    "tools/call", {"name": "portal_export", "arguments": arguments}
                )

        def begin(**what: Any) -> Future[dict[str, Any]]:
            return threads.submit(export, what)

        [staging] = tmp_path.glob("users/*/portals/tests/large/staging")
        endless = "SELECT randomPrintableASCII(1000) AS t FROM numbers(1000000)"
        as_csv = begin(destination="a.csv", format="csv", query=endless)
        eventually(lambda: sum(path.stat().st_size for path in staging.glob("*.csv")) >= MAX_BURST_BYTES)
        as_db = begin(destination="b.db", format="db")
        eventually(lambda: any(path.stat().st_size for path in staging.glob("*.tar")))

        refused = begin(destination="c.csv", format="csv", query="SELECT 1").result()["result"]["structuredContent"]
        assert (refused["error"], refused["data"]) == ("unavailable", {"retry_after": 5})
        query: dict[str, Any] = {"portalUri": PORTAL, "destination": "mine.csv", "format": "csv", "query": "SELECT 1"}
        assert ann.modern_call("portal_export", **query)["rows"] == 1
        assert eve.modern_call("portal_write", portalUri=PORTAL, table="t", data=[{"text": "x"}])["written"] == 1

        assert not as_csv.done()
        assert not as_db.done()
        [csv], [db] = staging.glob("*.csv"), staging.glob("*.tar")
        assert csv.stat().st_size < 2 * MAX_BURST_BYTES + CHUNK_BYTES
        assert db.stat().st_size < MANY_BYTES / 2
