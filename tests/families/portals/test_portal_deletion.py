"""Whole portals are deleted: for every server, from the disk, and so that the name can be used again."""

import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.families.portals.processes import ENV, command, engine_handle, files_with
from tests.wire import Stdio

PORTAL = "mem://tests/one"


def start(data_dir: Path, *flags: str) -> Stdio:
    return Stdio.start(data_dir, "--families", "portals,recall", *flags, env=ENV)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def servers(data_dir: Path) -> Iterator[tuple[Stdio, Stdio]]:
    """Two on one data directory."""
    two = start(data_dir), start(data_dir)
    yield two
    for server in two:
        for uri in listed(server):
            server.call("portal_delete", portalUri=uri, confirm=True)  # and its engine ends
        server.close()


def write(server: Stdio, *texts: str, portal: str = PORTAL) -> None:
    server.call("portal_write", portalUri=portal, table="t", data=[{"text": text} for text in texts])


def listed(server: Stdio) -> list[str]:
    resources = server.ask("resources/list")["result"]["resources"]
    return [one["uri"] for one in resources if one["uri"].startswith("mem://")]


def test_a_deleted_portal_is_gone_for_every_server(servers: tuple[Stdio, Stdio], data_dir: Path) -> None:
    one, other = servers
    write(one, "quokkazqwvxkj", "b")
    write(one, "c", portal="mem://tests/two")
    assert other.call("recall_memories", query="quokkazqwvxkj")["hits"] != []
    assert other.call("portal_query", portalUri=PORTAL, sql="SELECT count() AS c FROM t")["rows"] == [{"c": 2}]
    handle = engine_handle(data_dir / "portals" / "tests" / "one")

    assert one.call("portal_delete", portalUri=PORTAL, confirm=True) == {
        "portalUri": PORTAL,
        "deleted": 2,
        "portal": True,
    }
    assert select.select([handle], [], [], 0)[0]  # its engine has ended
    os.close(handle)
    assert [path.name for path in (data_dir / "portals" / "tests").iterdir()] == ["two"]
    assert files_with(data_dir, "quokkazqwvxkj") == []
    for server in servers:
        assert listed(server) == ["mem://tests/two"]
        assert server.call("recall_memories", query="quokkazqwvxkj")["hits"] == []
        refused = server.call("portal_query", portalUri=PORTAL, sql="SELECT 1")
        assert (refused["error"], "no portal" in refused["message"]) == ("not_found", True)
        assert server.call("portal_delete", portalUri=PORTAL, confirm=True)["error"] == "not_found"
    assert not (data_dir / "portals" / "tests" / "one").exists()

    write(other, "again")
    for server in servers:
        rows = server.call("portal_query", portalUri=PORTAL, sql="SELECT text FROM t")["rows"]
        assert rows == [{"text": "again"}]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({}, "confirm"), ({"confirm": False}, "confirm"), ({"where": {"text": "a"}, "confirm": True}, "table")],
)
def test_a_portal_is_deleted_only_with_confirm(
    servers: tuple[Stdio, Stdio], arguments: dict[str, Any], field: str
) -> None:
    write(servers[0], "a", portal="mem://tests/kept")
    refused = servers[0].call("portal_delete", portalUri="mem://tests/kept", **arguments)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", field)
    assert "mem://tests/kept" in listed(servers[1])


def test_deleting_a_portal_needs_its_scope(servers: tuple[Stdio, Stdio], data_dir: Path) -> None:
    write(servers[0], "a", portal="mem://tests/kept")
    reader = start(data_dir, "--scopes", "read_memory,write_memory")
    assert reader.call("portal_delete", portalUri="mem://tests/kept", confirm=True)["error"] == "scope_required"
    reader.close()
    assert "mem://tests/kept" in listed(servers[0])


def test_the_next_start_finishes_an_interrupted_deletion(tmp_path: Path) -> None:
    server = start(tmp_path)
    write(server, "a")
    write(server, "b", portal="mem://other/two")
    folder = tmp_path / "portals" / "tests" / "one"
    folder.rename(folder.with_name(".deleted-0123"))  # as far as a server came that was killed
    assert listed(server) == ["mem://other/two"]
    server.kill()
    again = start(tmp_path)
    assert listed(again) == ["mem://other/two"]
    assert list((tmp_path / "portals" / "tests").iterdir()) == []
    again.call("portal_delete", portalUri="mem://other/two", confirm=True)
    again.close()


def test_a_server_that_is_killed_while_it_deletes_leaves_the_portal_or_nothing(tmp_path: Path) -> None:
    server = start(tmp_path)
    write(server, *map(str, range(1000)))
    server.post("tools/call", {"name": "portal_delete", "arguments": {"portalUri": PORTAL, "confirm": True}})
    server.kill()
    again = start(tmp_path)
    if listed(again):
        rows = again.call("portal_query", portalUri=PORTAL, sql="SELECT count() AS c FROM t")["rows"]
        assert rows == [{"c": 1000}]
        again.call("portal_delete", portalUri=PORTAL, confirm=True)
    assert list(tmp_path.glob("portals/*/*")) == []
    again.close()


def test_the_command_line_lists_and_deletes(servers: tuple[Stdio, Stdio], data_dir: Path) -> None:
    write(servers[0], "a", "b", portal="mem://cli/one")
    shown = command("portal", "list", data_dir=data_dir)
    assert "mem://cli/one" in shown.stdout
    refused = command("portal", "delete", "mem://cli/one", data_dir=data_dir)
    assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
    done = command("portal", "delete", "mem://cli/one", "--yes", data_dir=data_dir)
    assert (done.returncode, done.stdout) == (0, "Deleted mem://cli/one with 2 rows.\n")
    assert "mem://cli/one" not in listed(servers[0])
    assert servers[0].call("portal_view", portalUri="mem://cli/one")["error"] == "not_found"
    assert command("portal", "delete", "mem://cli/one", "--yes", data_dir=data_dir).returncode == 1
    assert command("portal", "delete", "one", data_dir=data_dir).stderr.startswith("memory-mcp: URI: give mem://")
