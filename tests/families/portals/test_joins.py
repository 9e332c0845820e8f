"""--portal-joins: queries over several portals of one namespace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.errors import Invalid
from memory_mcp.families.portals import cross_portal_query
from memory_mcp.families.portals.folders import Engines, PortalFolder
from tests.families.portals.calls import put, query_operation

EVENTS, PEOPLE, ELSEWHERE = "mem://team/events", "mem://team/people-2", "mem://else/people-2"
JOINED = "SELECT what, name FROM events JOIN `people-2`.people ON who = people.id ORDER BY what"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "portal_joins": True}


@pytest.fixture(scope="module", autouse=True)
def portals(app: App) -> None:
    put(app, "events", [{"what": "met", "who": 1}, {"what": "ran", "who": 2}], EVENTS)
    put(app, "people", [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}], PEOPLE)
    put(app, "people", [{"id": 1, "name": "TOPSECRET"}], ELSEWHERE)


def test_a_query_reads_other_portals_of_its_namespace_as_they_are_now(app: App, data_dir: Path) -> None:
    assert query_operation(app, JOINED, portal=EVENTS) == [
        {"what": "met", "name": "Ann"},
        {"what": "ran", "name": "Bob"},
    ]
    put(app, "people", [{"id": 3, "name": "Cid"}], PEOPLE)
    for sql in (
        "SELECT count() AS c FROM `people-2`.people",
        "SELECT count(`people-2`.people.name) AS c FROM `people-2`.people",
        "SELECT count() AS c FROM (SELECT * FROM `people-2`.people) AS p",
        "SELECT count() AS c FROM `people-2`.people AS p WHERE p.id IN (SELECT id FROM `people-2`.people)",
        "WITH all AS (SELECT * FROM `people-2`.people) SELECT count() AS c FROM all",
    ):
        assert query_operation(app, sql, portal=EVENTS) == [{"c": 3}], sql
    for portal in ("events", "people-2"):
        assert list((data_dir / "portals" / "team" / portal / "staging").iterdir()) == []


def test_a_portal_with_the_name_of_a_table_does_not_hide_it(app: App) -> None:
    put(app, "people", [{"id": 9, "name": "own"}], EVENTS)
    put(app, "people", [{"id": 1, "name": "other"}], "mem://team/people")
    assert query_operation(app, "SELECT people.name AS name FROM people", portal=EVENTS) == [{"name": "own"}]
    assert query_operation(app, "SELECT people.people.name AS name FROM people.people", portal=EVENTS) == [
        {"name": "other"}
    ]


def test_other_namespaces_and_unknown_portals_stay_closed(app: App) -> None:
    for sql in (
        "SELECT * FROM `else/people-2`.people",
        "SELECT * FROM `else`.people",
        "SELECT * FROM unknown.people",
        "SELECT * FROM system.one WHERE 'people-2' != ''",
        "SELECT * FROM `people-2`.secrets",
        "SELECT * FROM file('/etc/passwd') JOIN `people-2`.people ON 1 = 1",
    ):
        with pytest.raises(Invalid) as caught:
            query_operation(app, sql, portal=EVENTS)
        assert caught.value.code == ("read_only_query" if "file(" in sql else "unknown_table"), sql
    [row] = query_operation(app, "SELECT count() AS c FROM people", portal=ELSEWHERE)
    assert row == {"c": 1}
    with pytest.raises(Invalid):
        query_operation(app, "SELECT * FROM events.events", portal=ELSEWHERE)


def test_a_portal_is_attached_only_if_its_whole_name_is_in_the_query(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    put(app, "t", [{"n": 1}], "mem://words/own")
    for portal in ("a", "nt", "t-1", "own.er"):
        put(app, "t", [{"n": 1}], f"mem://words/{portal}")
    attached: list[str] = []
    real = cross_portal_query.attach

    def seen(engines: Engines, to: PortalFolder, others: Sequence[PortalFolder]) -> Any:
        attached[:] = [other.address.portal for other in others]
        return real(engines, to, others)

    monkeypatch.setattr(cross_portal_query, "attach", seen)
    for sql, names in (
        ("SELECT count() AS c FROM t", []),
        ("SELECT count() AS c FROM a.t", ["a"]),
        ("SELECT count() AS c FROM `t-1`.t", ["t-1"]),
        ("SELECT count() AS c FROM `own.er`.t", ["own.er"]),
    ):
        assert query_operation(app, sql, portal="mem://words/own") == [{"c": 1}]
        assert attached == names


def test_they_are_off_unless_switched_on(app: App, data_dir: Path) -> None:
    with open_app(settings.load({"data_dir": data_dir, "families": "portals"}, environ={}).settings) as plain:
        with pytest.raises(Invalid) as caught:
            query_operation(plain, JOINED, portal=EVENTS)
        assert caught.value.code == "unknown_table"
