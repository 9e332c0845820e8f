"""Names and descriptions of portals: written, shown, exported and imported."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.families.portals.processes import command, files_with
from tests.processes import environment
from tests.wire import Stdio

PORTAL = "mem://tests/named"
LABELS = {"portalName": "Orders — 2026 ☂", "portalDescription": "What was ordered, and when."}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Stdio]:
    env = environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="10", MEMORY_MCP_EMBEDDER="none")
    server = Stdio.start(data_dir, "--families", "portals", env=env)
    yield server
    server.close()


def write(server: Stdio, portal: str, *numbers: int, **labels: str) -> dict[str, Any]:
    data = [{"n": number} for number in numbers]
    return server.call("portal_write", portalUri=portal, table="t", data=data, **labels)


def shown(server: Stdio, portal: str) -> tuple[str, str]:
    """By portal_view, which must say what everything else says."""
    unnamed = {"name": portal.rpartition("/")[2], "description": ""}
    view = unnamed | server.call("portal_view", portalUri=portal)
    about = unnamed | server.read(portal)
    assert (about["name"], about["description"]) == (view["name"], view["description"])
    sql = "SELECT key, value FROM _mcp_metadata WHERE key LIKE 'mcp.portal.%'"
    rows = server.call("portal_query", portalUri=portal, sql=sql)["rows"]
    metadata = {row["key"]: row["value"] for row in rows}
    assert (metadata["mcp.portal.name"], metadata["mcp.portal.description"]) == (view["name"], view["description"])
    return view["name"], view["description"]


def listed(server: Stdio, portal: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = server.ask("resources/list")["result"]["resources"]
    return next(one for one in resources if one["uri"] == portal)


def test_a_portal_has_the_written_name(server: Stdio, data_dir: Path) -> None:
    write(server, PORTAL, 1, 2, **LABELS)
    assert shown(server, PORTAL) == tuple(LABELS.values())
    resource = listed(server, PORTAL)
    assert (resource["name"], resource["title"], resource["description"]) == ("tests/named", *LABELS.values())
    write(server, PORTAL, 3)
    server.call("portal_write", portalUri=PORTAL, table="other", data=[{"x": "a"}])
    assert shown(server, PORTAL) == tuple(LABELS.values())
    portals = json.loads(command("portal", "list", "--json", data_dir=data_dir).stdout)["portals"]
    found = next(one for one in portals if one["uri"] == PORTAL)
    assert (found["name"], found["description"], found["rows"]) == (*LABELS.values(), 4)


def test_a_portal_can_be_called_something_else_without_records(server: Stdio, data_dir: Path) -> None:
    portal = "mem://tests/renamed"
    write(server, portal, 1, portalName="zqwvkxjhyfpb", portalDescription="first")
    assert write(server, portal, portalName="Second")["written"] == 0
    assert shown(server, portal) == ("Second", "first")
    assert files_with(data_dir, "zqwvkxjhyfpb") == []
    write(server, portal, portalName="", portalDescription="")
    assert shown(server, portal) == ("renamed", "")
    assert "title" not in listed(server, portal)
    assert listed(server, portal)["description"] == "Tables: t"


def test_a_new_portal_may_have_a_name_and_nothing_else(server: Stdio) -> None:
    portal = "mem://tests/empty"
    answer = write(server, portal, **LABELS)
    assert answer == {"portalUri": portal, "table": "t", "written": 0}
    assert shown(server, portal) == tuple(LABELS.values())
    assert server.call("portal_view", portalUri=portal)["tables"] == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"data": []}, "data"),
        ({"data": [], "portalName": "a\nb"}, "portalName"),
        ({"data": [], "portalName": "a\u202eb"}, "portalName"),
        ({"data": [], "portalName": "x" * 121}, "portalName"),
        ({"data": [], "portalDescription": "x" * 1001}, "portalDescription"),
    ],
)
def test_unreadable_labels_are_refused(server: Stdio, arguments: dict[str, Any], field: str) -> None:
    refused = server.call("portal_write", portalUri="mem://tests/none", table="t", **arguments)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", field)
    assert all(one["uri"] != "mem://tests/none" for one in server.ask("resources/list")["result"]["resources"])


def test_a_refused_record_names_nothing(server: Stdio) -> None:
    portal = "mem://tests/refused"
    write(server, portal, 1)
    refused = server.call("portal_write", portalUri=portal, table="t", data=[{"n": "no number"}], portalName="Not this")
    assert refused["error"] == "invalid"
    assert shown(server, portal) == ("refused", "")


def test_a_file_brings_its_name_to_a_portal_without_one(server: Stdio, data_dir: Path) -> None:
    source = "mem://tests/source"
    write(server, source, 1, **LABELS)
    server.call("portal_export", portalUri=source, destination="source.db", format="db")
    (data_dir / "imports").mkdir(exist_ok=True)
    shutil.copy(data_dir / "exports" / "source.db", data_dir / "imports" / "source.db")
    write(server, "mem://tests/own", portalName="Own")
    for portal in ("mem://tests/new", "mem://tests/own"):
        answer = server.call("portal_import", portalUri=portal, source="source.db", format="db")
        assert answer["imported"] == 1
    assert shown(server, "mem://tests/new") == tuple(LABELS.values())
    assert shown(server, "mem://tests/own") == ("Own", "")
    unnamed = "mem://tests/unnamed"
    write(server, unnamed, 1)
    server.call("portal_export", portalUri=unnamed, destination="unnamed.db", format="db")
    shutil.copy(data_dir / "exports" / "unnamed.db", data_dir / "imports" / "unnamed.db")
    server.call("portal_import", portalUri="mem://tests/third", source="unnamed.db", format="db")
    assert shown(server, "mem://tests/third") == ("third", "")


def test_a_restored_portal_keeps_its_name(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    server = Stdio.start(data_dir, "--families", "portals")
    write(server, PORTAL, 5, **LABELS)
    server.close()
    backup = tmp_path / "all.backup"
    done = command("backup", str(backup), data_dir=data_dir)
    assert done.returncode == 0, done.stderr
    restored = tmp_path / "restored"
    assert command("restore", str(backup), data_dir=restored).returncode == 0
    portals = json.loads(command("portal", "list", "--json", data_dir=restored).stdout)["portals"]
    found = next(one for one in portals if one["uri"] == PORTAL)
    assert (found["name"], found["description"]) == tuple(LABELS.values())


def test_a_call_that_writes_records_and_a_name_is_one_write(server: Stdio) -> None:
    portal = "mem://tests/counted"
    write(server, portal, 1, **LABELS)
    write(server, portal, portalName="Other")
    assert server.call("portal_view", portalUri=portal)["stats"]["usage"]["writes"] == 2
