"""The rows of chosen writes are deleted, and put back, whatever else was written to the table."""

import os
from collections.abc import Iterator
from datetime import timedelta
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller, Scope
from memory_mcp.cli.common import new_session
from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.portal_engine import EngineInterrupted, PortalEngine
from memory_mcp.errors import Forbidden, Invalid, Unavailable
from memory_mcp.families.portals import row_undo, storage
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.model import ColumnChoices, FileFormat
from memory_mcp.families.portals.row_copies import FOLDER
from memory_mcp.families.portals.table_undo import IRREVERSIBLE, NO_FORMER_STATE, ROWS_GONE, UNMARKED
from memory_mcp.families.portals.undoable_rows import NO_MARKS, TABLE_GONE, UndoableRows
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.families.write_review import ReviewQuery, UndoReport
from memory_mcp.services.write_journal import WriteQuery
from memory_mcp.services.write_journal.model import COPY_LIFETIME
from memory_mcp.services.write_journal.undo import NO_COPY
from tests.maintenance.sample_data import opened

ALL = frozenset({"portals", "notes", "recall", "vault"})
ALICE = Caller(LOCAL_USER, ALL_SCOPES, ALL, client="alice")
MALLORY = Caller(LOCAL_USER, ALL_SCOPES, ALL, client="mallory")
HIS = ReviewQuery(WriteQuery(client="mallory"))
URI = "mem://work/log"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path / "data") as one:
        yield one


def write(app: App, caller: Caller, *values: Any, table: str = "events", **more: Any) -> None:
    app.portals.write(caller, URI, table, [{"what": value, **more} for value in values])


def values(app: App, table: str = "events", uri: str = URI) -> list[Any]:
    return [row["what"] for row in rows_of(app, f"SELECT what FROM {table} ORDER BY what", uri)]


def rows_of(app: App, sql: str, uri: str = URI) -> list[dict[str, Any]]:
    return [dict(row) for row in app.portals.query(ALICE, uri, sql, {}).rows]


def undo(app: App, query: ReviewQuery = HIS) -> UndoReport:
    """After its preview, which must say the same."""
    planned = app.write_review.preview(ALICE, query)
    done = app.write_review.undo(ALICE, query)
    assert [one.undo for one in planned.items] == [one.undo for one in done.items]
    assert (planned.rows_deleted, planned.rows_restored) == (done.rows_deleted, done.rows_restored)
    return done


def take_back(app: App, report: UndoReport) -> UndoReport:
    return undo(app, ReviewQuery(WriteQuery(undo_id=report.undo_id)))


def outcomes(report: UndoReport) -> list[tuple[str, str, int, int | None, str | None]]:
    return [(one.title, one.undo.outcome, one.undo.writes, one.undo.rows, one.undo.why) for one in report.items]


def left(report: UndoReport) -> list[tuple[int, str | None]]:
    """(writes, why) of those that are left alone; nothing else may have happened."""
    assert report.is_empty
    return [(one.undo.writes, one.undo.why) for one in report.items]


def engine_of(app: App) -> PortalEngine:
    folder = app.portals.all(ALICE)[0]
    return app.portals._engines.get(folder)


def copies(app: App) -> list[Path]:
    return sorted((app.settings.data_dir / "portals/work/log" / FOLDER).glob("*"))


def import_file(app: App, caller: Caller, name: str, format_: FileFormat, uri: str = URI, **more: Any) -> None:
    app.portals.imports.import_file(caller, uri, name, format_, None, lambda *_: None, **more)


def import_csv(app: App, caller: Caller, text: str, **more: Any) -> None:
    folder = app.settings.data_dir / "imports"
    folder.mkdir(exist_ok=True)
    (folder / "events.csv").write_text(text)
    import_file(app, caller, "events.csv", "csv", **more)


def test_rows_of_one_writer_go_and_those_of_others_stay(app: App) -> None:
    write(app, MALLORY, "a", "b")
    write(app, ALICE, "a", "c")
    write(app, MALLORY, "d")
    report = undo(app)
    assert outcomes(report) == [("work/log/events", "delete", 2, 3, None)]
    assert (report.deleted, report.restored, report.left, report.rows_deleted) == (0, 0, 0, 3)
    assert values(app) == ["a", "c"]
    assert app.portals.view(ALICE, URI).tables[0].rows == 2
    page = app.write_review.writes(ALICE, ReviewQuery(), 10).writes
    assert [(one.record.writer.client, one.record.rows, one.is_undone) for one in page] == [
        *[("alice", -1, False), ("alice", -2, False)],
        *[("mallory", 1, True), ("alice", 2, False), ("mallory", 2, True)],
    ]
    assert outcomes(undo(app)) == []


def test_an_undo_is_taken_back_and_that_too(app: App) -> None:
    write(app, MALLORY, "a", "b", more={"x": [1, "y", 2.5]}, at="2026-01-31", big=2**70)
    write(app, ALICE, "c")
    before = rows_of(app, "SELECT * FROM events ORDER BY what")
    first = undo(app)
    back = take_back(app, first)
    assert outcomes(back) == [("work/log/events", "restore", 1, 2, None)]
    assert rows_of(app, "SELECT * FROM events ORDER BY what") == before
    assert outcomes(take_back(app, back)) == [("work/log/events", "delete", 1, 2, None)]
    assert values(app) == ["c"]
    assert outcomes(take_back(app, first)) == []


def test_rows_come_back_to_a_table_that_has_other_columns_by_now(app: App) -> None:
    write(app, MALLORY, "a", n=1, day="2026-01-31", things=[1], deep={"x": {"y": 1}})
    undone = undo(app)
    write(app, ALICE, "b", n=1.5, day="1900-01-01", things=[2.5], deep={"z": "text"}, new=True)
    take_back(app, undone)
    row = {"n": 1, "day": "2026-01-31", "things": [1], "deep": {"x": {"y": 1}}, "new": None}
    assert rows_of(app, "SELECT * EXCEPT what FROM events WHERE what = 'a'") == [row]
    assert outcomes(undo(app)) == [("work/log/events", "delete", 1, 1, None)]
    assert values(app) == ["b"]


def test_rows_that_were_undone_stay_away_when_everything_since_is_undone(app: App) -> None:
    """Also when that undo was taken back and made again meanwhile."""
    write(app, ALICE, "a")
    write(app, MALLORY, "b")
    first = undo(app)
    assert outcomes(undo_newest(app, 2)) == []
    take_back(app, first)
    assert outcomes(undo_newest(app, 2)) == []
    assert values(app) == ["a", "b"]
    undo(app)
    assert outcomes(undo_newest(app, 4)) == []
    assert outcomes(undo_newest(app, 3)) == [("work/log/events", "restore", 1, 1, None)]
    assert values(app) == ["a", "b"]


def undo_newest(app: App, count: int) -> UndoReport:
    page = app.write_review.writes(ALICE, ReviewQuery(), count).writes
    return undo(app, ReviewQuery(ids=frozenset(one.id for one in page)))


def test_single_writes_of_a_group_come_back(app: App) -> None:
    for value in "abc":
        write(app, MALLORY, value)
    undone = undo(app)
    page = app.write_review.writes(ALICE, ReviewQuery(WriteQuery(undo_id=undone.undo_id)), 10).writes
    assert len(page) == 3
    undo(app, ReviewQuery(ids=frozenset({page[1].id})))
    assert len(values(app)) == 1
    assert outcomes(undo(app)) == [("work/log/events", "delete", 1, 1, None)]


def test_writes_that_add_columns_or_widen_them_keep_every_mark(app: App) -> None:
    app.portals.write(MALLORY, URI, "events", [{"what": "a", "n": 1}])
    app.portals.write(ALICE, URI, "events", [{"what": "b", "n": 2, "new": True}])
    app.portals.write(MALLORY, URI, "events", [{"what": "c", "n": 1.5}])  # which widens a column of a copy
    app.portals.write(ALICE, URI, "events", [{"what": "d", "n": 2**63}])
    assert outcomes(undo(app)) == [("work/log/events", "delete", 2, 2, None)]
    assert values(app) == ["b", "d"]


def test_rows_stay_marked_when_others_are_deleted_and_parts_are_merged(app: App) -> None:
    write(app, MALLORY, "a", "b", "c")
    write(app, ALICE, "d", "e")
    app.portals.delete(ALICE, URI, "events", {"what": "a"}, confirm=False)  # which rewrites the table
    engine_of(app).run("OPTIMIZE TABLE events FINAL")
    assert outcomes(undo(app)) == [("work/log/events", "delete", 1, 2, None)]
    assert values(app) == ["d", "e"]


def test_rows_that_are_deleted_by_now_are_named(app: App) -> None:
    write(app, MALLORY, "a")
    write(app, ALICE, "b")
    app.portals.delete(ALICE, URI, "events", {"what": "a"}, confirm=False)
    assert left(undo(app)) == [(1, ROWS_GONE)]
    app.portals.delete(ALICE, URI, "events", None, confirm=True)
    assert left(undo(app)) == [(1, TABLE_GONE)]
    write(app, ALICE, "a")
    assert left(undo(app)) == [(1, ROWS_GONE)], "the new table has the same name"
    app.portals.delete(ALICE, URI, None, None, confirm=True)
    assert left(undo(app)) == [(1, TABLE_GONE)]
    assert not copies(app)


def test_deletions_and_names_are_left_alone(app: App) -> None:
    write(app, ALICE, "a", "b")
    app.portals.delete(MALLORY, URI, "events", {"what": "a"}, confirm=False)
    app.portals.write(MALLORY, URI, "events", [], "Another name")
    assert sorted(left(undo(app))) == [(1, NO_FORMER_STATE), (1, NO_FORMER_STATE)]
    assert values(app) == ["b"]


def test_imports_into_new_and_existing_tables_are_undone(app: App) -> None:
    import_csv(app, MALLORY, "what\na\nb\n")
    write(app, ALICE, "c")
    import_csv(app, MALLORY, "what,n\nd,1\n")
    import_csv(app, MALLORY, "what,n\ne,1.5\n")  # which widens a column of a copy
    assert outcomes(undo(app)) == [("work/log/events", "delete", 3, 4, None)]
    assert values(app) == ["c"]


def test_an_import_that_replaced_a_table_is_undone_as_far_as_it_brought_rows(app: App) -> None:
    write(app, ALICE, "a", "b")
    import_csv(app, MALLORY, "what\nc\n", on_conflict="replace")
    assert outcomes(undo(app)) == [
        ("work/log/events", "delete", 1, 1, None),
        ("work/log/events", "left", 1, None, NO_FORMER_STATE),
    ]
    assert values(app) == []


def test_a_table_that_was_replaced_gets_no_rows_back(app: App) -> None:
    write(app, MALLORY, "a")
    write(app, ALICE, "b")
    undone = undo(app)
    import_csv(app, ALICE, "what\nc\n", on_conflict="replace")
    assert left(take_back(app, undone)) == [(1, NO_COPY)]
    assert not copies(app)


def export_db(app: App) -> None:
    app.portals.exports.export_file(ALICE, URI, "log.db", "db", None, None, lambda *_: None)
    (app.settings.data_dir / "imports").mkdir(exist_ok=True)
    (app.settings.data_dir / "exports/log.db").rename(app.settings.data_dir / "imports/log.db")


@pytest.mark.parametrize("there", [False, True])
def test_rows_of_a_portal_file_are_those_of_its_import(app: App, *, there: bool) -> None:
    """Also if they were written to a portal that this journal knows: a file may claim anything."""
    write(app, ALICE, "a", "b")
    write(app, MALLORY, "m")
    export_db(app)
    other = "mem://work/other"
    if there:
        app.portals.write(ALICE, other, "events", [{"what": "c"}])
    import_file(app, MALLORY, "log.db", "db", other, on_conflict="append")
    kept = ["c"] if there else []
    assert values(app, uri=other) == sorted([*kept, "a", "b", "m"])
    report = undo(app, ReviewQuery(WriteQuery(client="alice")))
    assert values(app, uri=other) == ["a", "b", "m"]
    assert values(app) == ["m"]
    take_back(app, report)
    undo(app)
    assert (values(app, uri=other), values(app)) == (kept, ["a", "b"])


def test_a_restored_portal_keeps_its_marks(app: App, tmp_path: Path) -> None:
    write(app, ALICE, "a")
    write(app, MALLORY, "b")
    folder = app.portals.all(ALICE)[0]
    app.portals.exports.back_up(folder, tmp_path / "log.db", is_paced=False)
    app.portals._registry.engines.remove(folder)
    folder.remove()
    app.portals.imports.restore_portal(folder, tmp_path / "log.db")
    assert values(app) == ["a", "b"]
    undo(app)
    assert values(app) == ["a"]


def as_of_a_former_version(app: App, table: str = "events") -> None:
    """The table as a version left it that marked no rows, and its records."""
    engine_of(app).run(f"ALTER TABLE {table} DROP COLUMN {MARK_COLUMN} SETTINGS mutations_sync = 2")
    with app.portals.journal._databases.database(LOCAL_USER).write() as tx:  # type: ignore[union-attr]
        tx.all("UPDATE portal_writes SET mark = NULL WHERE item = :item", {"item": f"work/log/{table}"})


@pytest.mark.parametrize("how", ["write", "import", "widen", "db"])
def test_writes_of_a_former_version_are_left_alone_and_new_ones_are_undone(app: App, how: str) -> None:
    write(app, MALLORY, "a", n=1)
    write(app, ALICE, "a", n=1)
    if how == "db":
        export_db(app)
    as_of_a_former_version(app)
    assert left(undo(app)) == [(1, UNMARKED)]
    if how == "write":
        write(app, MALLORY, "a", "m", n=1)
    elif how == "widen":
        write(app, MALLORY, "a", "m", n=1.5)
    elif how == "import":
        import_csv(app, MALLORY, "what,n\na,1\nm,2\n")
    else:
        import_file(app, MALLORY, "log.db", "db", on_conflict="append")
    assert outcomes(undo(app)) == [
        ("work/log/events", "delete", 1, 2, None),
        ("work/log/events", "left", 1, None, UNMARKED),
    ]
    assert values(app) == ["a", "a"]


def test_a_table_that_lost_its_marks_is_left_alone(app: App) -> None:
    write(app, MALLORY, "a")
    engine_of(app).run(f"ALTER TABLE events DROP COLUMN {MARK_COLUMN} SETTINGS mutations_sync = 2")
    assert left(undo(app)) == [(1, NO_MARKS)]


def test_no_client_can_choose_the_mark_of_a_row(app: App) -> None:
    app.portals.write(MALLORY, URI, "events", [{"what": "a", MARK_COLUMN: 5}])
    app.portals.write(MALLORY, URI, "events", [{"what": "b", MARK_COLUMN: 6}])
    import_csv(app, MALLORY, f"what,{MARK_COLUMN}\nc,7\n")
    assert [column.name for column in app.portals.view(ALICE, URI).tables[0].columns] == ["what", "mcp_write"]
    assert undo(app).rows_deleted == 3
    with pytest.raises(Invalid):
        import_csv(app, MALLORY, "what\nd\n", choices=ColumnChoices({"what": MARK_COLUMN}))


def test_the_mark_is_no_column_that_people_see(app: App) -> None:
    write(app, MALLORY, "a")
    write(app, MALLORY, "b", new=1)
    assert rows_of(app, "SELECT * FROM events ORDER BY what")[0].keys() == {"what", "new"}
    assert [column.name for column in app.portals.view(ALICE, URI).tables[0].columns] == ["what", "new"]
    about = storage.metadata(engine_of(app))
    assert MARK_COLUMN not in about["mcp.schema.events"]
    assert "`new` Nullable(Int64)\n)\nENGINE = MergeTree" in about["mcp.schema.events"]
    assert MARK_COLUMN not in (app.settings.data_dir / "portals/work/log/portal.json").read_text()


def test_a_natural_join_is_refused_as_it_would_compare_the_mark(app: App) -> None:
    write(app, ALICE, "a", n=1)
    write(app, ALICE, "a", table="others", m=2)
    with pytest.raises(Invalid, match=r"JOIN … USING"):
        rows_of(app, "SELECT * FROM events NATURAL JOIN others")
    assert rows_of(app, "SELECT * FROM events JOIN others USING (what)") == [{"what": "a", "n": 1, "m": 2}]


def with_a_column_of_that_name(app: App) -> None:
    """A table as a version before marks could make it."""
    write(app, ALICE, "a")
    engine = engine_of(app)
    engine.run(f"ALTER TABLE events DROP COLUMN {MARK_COLUMN} SETTINGS mutations_sync = 2")
    engine.run(f"ALTER TABLE events ADD COLUMN {MARK_COLUMN} Nullable(Int64)")
    app.portals.describe_again(app.portals.all(ALICE)[0])
    app.portals.write(MALLORY, URI, "events", [{"what": "b", MARK_COLUMN: 5}])


def own_column(app: App, uri: str = URI) -> list[Any]:
    return [row["m"] for row in rows_of(app, f"SELECT {MARK_COLUMN} AS m FROM events ORDER BY what, m", uri)]


def test_a_table_with_a_column_of_that_name_is_written_as_it_is(app: App) -> None:
    with_a_column_of_that_name(app)
    import_csv(app, MALLORY, "what\nc\n")
    assert own_column(app) == [None, 5, None]
    assert left(undo(app)) == [(2, NO_MARKS)]


def test_a_table_with_a_column_of_that_name_is_exported_and_imported(app: App) -> None:
    with_a_column_of_that_name(app)
    write(app, ALICE, "x", table="others")
    export_db(app)
    other, numbered = "mem://work/other", "mem://work/numbered"
    for conflict in ("refuse", "append", "replace"):
        import_file(app, MALLORY, "log.db", "db", other, on_conflict=conflict)
        assert own_column(app, other) == ([None, 5] if conflict != "append" else [None, None, 5, 5])
    undo(app)
    assert (own_column(app, other), values(app, "others", other)) == ([None, 5], [])

    app.portals.write(ALICE, numbered, "events", [{"what": "n"}])
    with pytest.raises(Invalid, match=f"'{MARK_COLUMN}' of its own.*onConflict replace"):
        import_file(app, MALLORY, "log.db", "db", numbered, on_conflict="append")
    assert values(app, uri=numbered) == ["n"]
    import_file(app, MALLORY, "log.db", "db", numbered, on_conflict="replace")
    assert own_column(app, numbered) == [None, 5]


def test_a_table_with_a_column_of_that_name_is_restored(app: App, tmp_path: Path) -> None:
    with_a_column_of_that_name(app)
    write(app, MALLORY, "x", table="others")
    folder = app.portals.all(ALICE)[0]
    app.portals.exports.back_up(folder, tmp_path / "log.db", is_paced=False)
    app.portals._registry.engines.remove(folder)
    folder.remove()
    app.portals.imports.restore_portal(folder, tmp_path / "log.db")
    assert own_column(app) == [None, 5]
    app.portals.write(MALLORY, URI, "events", [{"what": "c", MARK_COLUMN: 6}])
    assert own_column(app) == [None, 5, 6]
    assert not storage.has_marks(engine_of(app), "events")
    assert storage.has_marks(engine_of(app), "others")


def test_too_many_rows_for_a_copy_go_and_the_preview_says_so(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_undo, "MAX_COPY_BYTES", 10_000)
    write(app, MALLORY, "x" * 20_000)
    write(app, ALICE, "b")
    report = undo(app)
    assert outcomes(report) == [("work/log/events", "delete", 1, 1, IRREVERSIBLE)]
    assert left(take_back(app, report)) == [(1, NO_COPY)]
    assert values(app) == ["b"]


def test_copies_expire_and_have_a_limit(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = []
    for value in "abc":
        write(app, MALLORY, value * 1000)
        reports.append(undo(app))
    assert len(copies(app)) == 3
    by_age = sorted(copies(app), key=lambda path: path.stat().st_mtime_ns)
    old = by_age[0].stat().st_mtime - (COPY_LIFETIME + timedelta(days=1)).total_seconds()
    os.utime(by_age[0], (old, old))
    assert left(take_back(app, reports[0])) == [(1, NO_COPY)]
    app.portals.rows.delete_expired_copies()
    assert copies(app) == sorted(by_age[1:])
    monkeypatch.setattr("memory_mcp.families.portals.row_copies.MAX_COPY_BYTES", by_age[2].stat().st_size)
    app.portals.rows.delete_expired_copies()
    assert copies(app) == by_age[2:]
    assert take_back(app, reports[2]).rows_restored == 1
    assert left(take_back(app, reports[1])) == [(1, NO_COPY)]


def test_a_dropped_table_takes_its_copies_with_it(app: App) -> None:
    write(app, MALLORY, "a")
    write(app, MALLORY, "a", table="events_2")
    undone = undo(app)
    assert len(copies(app)) == 2
    app.portals.delete(ALICE, URI, "events", None, confirm=True)
    assert len(copies(app)) == 1
    assert {(one.title, one.undo.why) for one in take_back(app, undone).items} == {
        ("work/log/events", TABLE_GONE),
        ("work/log/events_2", None),
    }


def test_one_import_into_several_tables_is_undone_in_those_that_are_chosen(app: App) -> None:
    write(app, ALICE, "a")
    write(app, ALICE, "b", table="others")
    export_db(app)
    import_file(app, MALLORY, "log.db", "db", "mem://work/other")
    page = app.write_review.writes(ALICE, HIS, 10).writes
    (one,) = (write.id for write in page if write.title.endswith("others"))
    assert outcomes(undo(app, ReviewQuery(ids=frozenset({one})))) == [("work/other/others", "delete", 1, 1, None)]
    assert (values(app, "events", "mem://work/other"), values(app, "others", "mem://work/other")) == (["a"], [])


def test_an_undo_that_ended_before_its_record_is_finished_by_the_next(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the undo of an undo: rows are never there twice."""
    write(app, MALLORY, "a")
    write(app, ALICE, "b")
    journal = app.portals.journal
    undone = undo(app)
    with monkeypatch.context() as crash:
        crash.setattr(journal, "record_undo", lambda *_: None)
        app.write_review.undo(ALICE, ReviewQuery(WriteQuery(undo_id=undone.undo_id)))
    assert values(app) == ["a", "b"]
    app.write_review.undo(ALICE, ReviewQuery(WriteQuery(undo_id=undone.undo_id)))
    assert values(app) == ["a", "b"]
    with monkeypatch.context() as crash:
        crash.setattr(journal, "record_undo", lambda *_: None)
        undo(app)
    assert values(app) == ["b"]
    finished = undo(app)
    assert (finished.rows_deleted, values(app)) == (1, ["b"])
    assert (take_back(app, finished).rows_restored, values(app)) == (1, ["a", "b"])


def test_rows_that_a_person_deletes_after_an_undo_was_taken_back_stay_away(app: App) -> None:
    write(app, MALLORY, "a")
    take_back(app, undo(app))
    app.portals.delete(ALICE, URI, "events", {"what": "a"}, confirm=False)
    assert left(undo(app)) == [(1, ROWS_GONE)]


def test_an_engine_that_ends_meanwhile_neither_loses_nor_doubles_rows(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(app, MALLORY, "a")
    write(app, ALICE, "b")
    real, ends = type(engine_of(app)).run_once, list[str]()

    def run_once(engine: PortalEngine, sql: str, *more: Any, **given: Any) -> None:
        real(engine, sql, *more, **given)
        if "INSERT" in sql and len(ends) < 1:
            ends.append(sql)
            raise EngineInterrupted("ended")

    monkeypatch.setattr(type(engine_of(app)), "run_once", run_once)
    undone = undo(app)
    assert values(app) == ["b"]
    ends.clear()
    take_back(app, undone)
    assert ends
    assert values(app) == ["a", "b"]


@pytest.mark.parametrize("error", [Unavailable("The disk is full."), OSError(ENOSPC, "No space left on device")])
def test_a_copy_that_cannot_be_written_keeps_the_rows_and_leaves_no_part_of_it(
    app: App, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write(app, MALLORY, "a")
    app.vault.commit(MALLORY, new_session(MALLORY), NewMemory("vault", "key", "text"))

    def fail(engine: PortalEngine, table: str, marks: Any, path: Path) -> None:
        path.write_text("begun")
        raise error

    monkeypatch.setattr(storage, "copy_marked_rows", fail)
    report = app.write_review.undo(ALICE, HIS)
    (why,) = (one.undo.why for one in report.items if one.family == "portals")
    assert why
    assert str(error.args[-1]) in why
    assert (report.deleted, report.left, report.rows_deleted) == (1, 1, 0)
    assert values(app) == ["a"]
    assert not copies(app)


def test_rows_stay_if_those_of_another_write_cannot_be_put_back(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    write(app, MALLORY, "a")
    undo(app)
    write(app, MALLORY, "b")
    page = app.write_review.writes(ALICE, ReviewQuery(), 2).writes
    both = ReviewQuery(ids=frozenset(one.id for one in page))
    with monkeypatch.context() as failing:
        failing.setattr(storage, "restore_marked_rows", fail)
        assert left(app.write_review.undo(ALICE, both)) == [(2, "The disk is full.")]
    assert values(app) == ["b"]
    report = undo(app, both)
    assert (report.rows_deleted, report.rows_restored, values(app)) == (1, 1, ["a"])


def fail(*_: Any) -> None:
    raise Unavailable("The disk is full.")


def test_two_undos_at_once_count_rows_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    write(app, MALLORY, "a")
    write(app, ALICE, "b")
    real, queries, earlier = UndoableRows.undo, [HIS], list[UndoReport]()

    def undo_after_another(rows: UndoableRows, *given: Any) -> dict[int, int]:
        if queries:
            earlier.append(app.write_review.undo(ALICE, queries.pop()))
        return real(rows, *given)

    monkeypatch.setattr(UndoableRows, "undo", undo_after_another)
    assert left(app.write_review.undo(ALICE, HIS)) == [(1, ROWS_GONE)]
    assert earlier[0].rows_deleted == 1
    assert take_back(app, earlier[0]).rows_restored == 1


def test_a_confined_caller_undoes_its_namespace_only_and_needs_the_scopes(app: App) -> None:
    write(app, MALLORY, "a")
    app.portals.write(MALLORY, "mem://home/log", "events", [{"what": "b"}])
    confined = Caller(LOCAL_USER, ALL_SCOPES, ALL, namespace="work", is_confined=True, client="bob")
    assert [one.title for one in app.write_review.undo(confined, HIS).items] == ["work/log/events"]
    assert (values(app), values(app, uri="mem://home/log")) == ([], ["b"])
    reader = Caller(LOCAL_USER, frozenset({Scope.READ, Scope.WRITE}), ALL, client="bob")
    with pytest.raises(Forbidden):
        app.write_review.undo(reader, HIS)


def test_clients_are_notified_and_copies_in_other_families_go(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    write(app, MALLORY, "a")
    published, purged = list[str](), list[Address]()
    monkeypatch.setattr(app.changes, "publish", lambda user, uris, **more: published.extend(uris))
    app.portals.on_delete.append(lambda caller, address: purged.append(address))
    undo(app)
    assert (published, purged) == ([URI], [Address("work", "log")])


def test_an_undo_of_many_writes_is_one_rewrite(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(app, MALLORY, number)
    rewrites, real = list[Any](), storage.delete_marked_rows

    def delete_marked_rows(*given: Any) -> None:
        rewrites.append(given)
        real(*given)

    monkeypatch.setattr(storage, "delete_marked_rows", delete_marked_rows)
    assert undo(app).rows_deleted == 30
    assert len(rewrites) == 1
