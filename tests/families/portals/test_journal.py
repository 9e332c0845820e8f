"""Who wrote to which table. With `MEMORY_TEST_ENGINES=postgres` in rows of PostgreSQL, of portals on a ClickHouse
server, whose rows are never undone. `test_row_undo` has the undo of rows in files."""

import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller, Scope
from memory_mcp.families.portals.journal_items import WHY_NO_UNDO
from memory_mcp.families.write_review import ReviewQuery
from memory_mcp.services.write_journal import WriteQuery
from tests.clickhouse import clickhouse_over_chdb
from tests.maintenance.sample_data import opened
from tests.postgres import database_url as database_url

ALL = frozenset({"portals", "notes", "recall"})
ALICE = Caller(LOCAL_USER, ALL_SCOPES, ALL, client="alice", session_id="s1")
MALLORY = Caller(LOCAL_USER, ALL_SCOPES, ALL, client="mallory", key_id="k1", key_name="laptop", session_id="s2")
CONFINED = Caller(
    LOCAL_USER, frozenset({Scope.READ, Scope.WRITE}), ALL, namespace="work", is_confined=True, client="bob"
)
URI = "mem://work/log"
EVENTS = f"{URI}/events"


@pytest.fixture(scope="module")
def clickhouse(portals_url: str | None) -> Iterator[str]:
    """Where portals are beside a PostgreSQL, which has none."""
    if portals_url:
        yield portals_url
        return
    with clickhouse_over_chdb() as url:
        yield url


@pytest.fixture
def app(tmp_path: Path, database_url: str | None, request: pytest.FixtureRequest) -> Iterator[App]:
    engines: dict[str, str] = {}
    if database_url:
        server = request.getfixturevalue("clickhouse")
        engines = {"database_url": database_url, "portals_url": f"{server.rstrip('/')}/t_{uuid4().hex[:8]}"}
    with opened(tmp_path / "data", families="notes,recall,portals", **engines) as one:
        yield one


@pytest.fixture
def app_in_files(tmp_path: Path) -> Iterator[App]:
    """For what only files have, such as imports."""
    with opened(tmp_path / "data") as one:
        yield one


def listed(app: App, caller: Caller = ALICE, query: WriteQuery | None = None) -> list[tuple[str, str, str, int | None]]:
    """(client, action, title, rows), the oldest first."""
    page = app.write_review.writes(caller, ReviewQuery(query or WriteQuery(), frozenset({"portals"})), 100)
    assert page.incomplete == {}
    return [(one.record.writer.client, one.record.action, one.title, one.record.rows) for one in reversed(page.writes)]


def origin(app: App, table: str = "events") -> str | None:
    return next(one.origin for one in app.portals.view(ALICE, URI).tables if one.name == table)


def import_csv(app: App, caller: Caller, uri: str, text: str, on_conflict: str | None = None) -> None:
    folder = app.settings.data_dir / "imports"
    folder.mkdir(exist_ok=True)
    (folder / "events.csv").write_text(text)
    app.portals.imports.import_file(caller, uri, "events.csv", "csv", None, lambda *_: None, on_conflict=on_conflict)  # type: ignore[arg-type]


def test_every_kind_of_write_is_recorded_with_its_rows(app: App) -> None:
    portals = app.portals
    portals.write(ALICE, URI, "events", [{"what": "a"}, {"what": "b"}])
    portals.write(MALLORY, URI, "events", [{"what": "c"}])
    portals.write(ALICE, URI, "events", [{"what": "d", "why": "new column"}])
    portals.write(ALICE, URI, "events", [{"what": "e", "n": 1}])
    portals.write(ALICE, URI, "events", [{"n": 1.5}])  # which widens a column
    portals.delete(MALLORY, URI, "events", {"what": "a"}, confirm=False)
    portals.delete(MALLORY, URI, "events", {"what": "nothing"}, confirm=False)  # which changes nothing
    portals.write(ALICE, URI, "events", [], "The log")
    portals.delete(MALLORY, URI, "events", None, confirm=True)
    portals.write(ALICE, URI, "others", [{"x": 1}])
    portals.delete(MALLORY, URI, None, None, confirm=True)
    assert listed(app) == [
        ("alice", "created", "work/log/events", 2),
        ("mallory", "updated", "work/log/events", 1),
        ("alice", "updated", "work/log/events", 1),
        ("alice", "updated", "work/log/events", 1),
        ("alice", "updated", "work/log/events", 1),
        ("mallory", "updated", "work/log/events", -1),
        ("alice", "updated", "work/log", None),
        ("mallory", "deleted", "work/log/events", -5),
        ("alice", "created", "work/log/others", 1),
        ("mallory", "deleted", "work/log", -1),
    ]
    records = app.write_review.writes(ALICE, ReviewQuery(WriteQuery(session_id="s2")), 100).writes
    assert {(one.record.writer.key_id, one.record.writer.key_name) for one in records} == {("k1", "laptop")}
    assert {one.ref for one in records} == {None}  # nothing of it is left
    assert listed(app, query=WriteQuery(key="laptop")) == [one for one in listed(app) if one[0] == "mallory"]


def test_imports_are_recorded_with_the_tables_that_they_replace(app_in_files: App) -> None:
    app = app_in_files
    app.portals.write(MALLORY, URI, "events", [{"what": "a"}, {"what": "b"}])
    import_csv(app, ALICE, URI, "what\nf\n")
    import_csv(app, ALICE, URI, "what\ng\nh\n", "replace")
    assert listed(app) == [
        ("mallory", "created", "work/log/events", 2),
        ("alice", "updated", "work/log/events", 1),
        ("alice", "deleted", "work/log/events", -3),
        ("alice", "created", "work/log/events", 2),
    ]
    assert origin(app) == "alice"


def test_a_refused_write_is_not_recorded(app: App) -> None:
    app.portals.write(ALICE, URI, "events", [{"id": 1}])
    with pytest.raises(Exception, match="data"):
        app.portals.write(MALLORY, URI, "events", [{"id": "no number"}])
    assert [one[0] for one in listed(app)] == ["alice"]


def test_the_origin_of_a_table_is_everyone_who_wrote_to_it_since_it_was_created(app: App) -> None:
    portals = app.portals
    portals.write(ALICE, URI, "events", [{"what": "a"}])
    portals.write(MALLORY, URI, "events", [{"what": "b"}])
    portals.write(MALLORY, URI, "others", [{"what": "b"}])
    assert (origin(app), origin(app, "others")) == ("mallory with key laptop; alice", "mallory with key laptop")
    portals.write(ALICE, URI, "events", [{"what": "c"}])
    assert origin(app) == "alice; mallory with key laptop"
    assert portals.journal.origins(ALICE, [URI, EVENTS, "mem://work/none", "ui://memory/viewer", "stores:x/y"]) == {
        URI: "alice; mallory with key laptop",
        EVENTS: "alice; mallory with key laptop",
    }
    portals.delete(MALLORY, URI, "events", None, confirm=True)
    portals.write(ALICE, URI, "events", [{"what": "d"}])
    assert origin(app) == "alice"
    portals.write(MALLORY, URI, "events", [{"what": "e"}])
    portals.delete(ALICE, URI, None, None, confirm=True)
    portals.write(ALICE, URI, "events", [{"what": "f"}])
    assert origin(app) == "alice"
    assert [one.origin for one in app.portals.view(ALICE, URI).tables] == ["alice"]


def test_many_writers_are_counted(app: App) -> None:
    for number in range(12):
        app.portals.write(Caller(LOCAL_USER, ALL_SCOPES, ALL, client=f"c{number:02}"), URI, "events", [{"n": number}])
    names = "; ".join(f"c{number:02}" for number in range(11, 1, -1))
    assert origin(app) == f"{names}; 2 more"


def test_rows_on_a_clickhouse_server_are_never_undone_and_the_preview_says_why(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("clickhouse")
    with opened(tmp_path / "data", portals_url=f"{server.rstrip('/')}/t_{uuid4().hex[:8]}") as app:
        app.portals.write(MALLORY, URI, "events", [{"what": "a"}])
        app.portals.write(MALLORY, URI, "events", [{"what": "b"}])
        query = ReviewQuery(WriteQuery(client="mallory"))
        for report in (app.write_review.preview(ALICE, query), app.write_review.undo(ALICE, query)):
            assert report.is_empty
            assert [(one.title, one.undo.writes, one.undo.why) for one in report.items] == [
                ("work/log/events", 2, WHY_NO_UNDO)
            ]
        assert app.portals.query(ALICE, URI, "SELECT count() AS n FROM events", {}).rows == [{"n": 2}]


def test_a_confined_caller_sees_the_writes_of_its_namespace_only(app: App) -> None:
    app.portals.write(CONFINED, URI, "events", [{"what": "a"}])
    app.portals.write(ALICE, "mem://home/log", "events", [{"what": "b"}])
    app.portals.write(ALICE, "mem://workshop/log", "events", [{"what": "b"}])
    assert listed(app, CONFINED) == [("bob", "created", "work/log/events", 1)]
    groups = app.write_review.groups(CONFINED, ReviewQuery()).groups
    assert [(one.group.client, one.group.count) for one in groups] == [("bob", 1)]
    assert [one.title for one in app.write_review.preview(CONFINED, ReviewQuery()).items] == ["work/log/events"]
    assert app.portals.journal.origins(CONFINED, ["mem://home/log", "mem://home/log/events"]) == {}


def test_each_user_has_a_journal_of_their_own_that_goes_with_them(app: App) -> None:
    ann = Caller("ann", ALL_SCOPES, ALL, client="anns")
    app.portals.write(ann, URI, "events", [{"what": "a"}])
    app.portals.write(ALICE, URI, "events", [{"what": "a"}])
    assert [one[0] for one in listed(app, ann)] == ["anns"]
    assert [one[0] for one in listed(app)] == ["alice"]
    file = app.settings.data_dir / "users" / "ann" / "portal_writes.db"
    assert file.exists() == (app.postgres is None)


def test_a_journal_that_cannot_be_written_loses_no_write_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data_dir = tmp_path / "data"
    with opened(data_dir) as app:
        app.portals.write(ALICE, URI, "events", [{"what": "a"}])
    (data_dir / "portal_writes.db").write_bytes(b"x" * 8192)
    with opened(data_dir) as app, caplog.at_level(logging.WARNING):
        written = app.portals.write(MALLORY, URI, "events", [{"what": "b"}])
        assert (written.written, app.portals.view(ALICE, URI).tables[0].rows) == (1, 2)
        assert origin(app) is None
    (message,) = (one.getMessage() for one in caplog.records if "journal of portals" in one.getMessage())
    assert "work/log/events updated, 1 rows, by 'mallory with key laptop'" in message


def test_no_file_is_created_by_looking(app: App) -> None:
    assert listed(app) == []
    assert app.portals.journal.origins(ALICE, [EVENTS]) == {}
    assert not (app.settings.data_dir / "portal_writes.db").exists()
