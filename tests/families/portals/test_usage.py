"""How often a portal is used is counted beside the calls, which do not wait for it."""

import json
from pathlib import Path

from memory_mcp.engines.files.lock import FileLock
from memory_mcp.families.portals import usage
from memory_mcp.families.portals.model import Usage
from tests.events import eventually
from tests.families.portals.calls import PORTAL
from tests.wire import Stdio


def stored(folder: Path) -> Usage:
    return Usage(**json.loads((folder / usage.FILE).read_text()))


def test_no_call_waits_for_the_file_with_the_counts(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "portals")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    (folder,) = tmp_path.glob("portals/*/*")
    eventually(lambda: (folder / usage.FILE).exists())
    with FileLock(folder / usage.LOCK).acquire():
        server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 2}])
        server.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")
        assert (stored(folder).writes, stored(folder).reads) == (1, 0)
    shown = server.call("portal_view", portalUri=PORTAL)["stats"]["usage"]
    assert (shown["writes"], shown["reads"]) == (2, 1)
    assert shown["lastRead"] > shown["lastWrite"]
    server.close()


def test_counts_are_written_soon_and_when_the_server_ends(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "portals")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    (folder,) = tmp_path.glob("portals/*/*")
    eventually(lambda: (folder / usage.FILE).exists() and stored(folder).writes == 1)
    server.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")
    server.close()
    assert stored(folder).reads == 1


def test_a_portal_made_again_starts_at_zero(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "portals")
    for _ in range(2):
        server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    server.call("portal_delete", portalUri=PORTAL, confirm=True)
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    assert server.call("portal_view", portalUri=PORTAL)["stats"]["usage"]["writes"] == 1
    server.close()
