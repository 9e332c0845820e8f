"""Users in two databases, and moves of a user between them while a server runs."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from memory_mcp.app import App, backup_of, open_access, open_app, open_cells, open_maintenance
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.cli.main import cli
from memory_mcp.engines import row_copy
from memory_mcp.engines.postgres.cells import RETRY_INTERVAL_S, Cells
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.errors import Conflict, NotFound, Unavailable, Unusable
from memory_mcp.families.graph.model import NewEntity
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.notes.schema import NOTES_FILE
from memory_mcp.maintenance.cells import CellMove
from memory_mcp.services.sessions import Connection, Session
from memory_mcp.settings import Settings
from tests.events import eventually
from tests.postgres import new_database

HERE = Session("s", Connection("c", "c"))
FAMILIES = ("vault", "notes", "graph", "recall")
LOCAL = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))


@dataclass
class Databases:
    app: App  # a running server
    moves: CellMove  # of another process
    home: str
    other: str
    ann: Caller
    bob: Caller

    def move(self, user: Caller, cell: str) -> int:
        return sum(one.rows for one in self.moves.run(user.user, cell))

    def tenants_at(self, url: str) -> set[str]:
        """Who has notes in a database."""
        with psycopg.connect(url) as connection:
            return {tenant for (tenant,) in connection.execute("SELECT DISTINCT tenant FROM memory_notes.notes")}


@pytest.fixture
def databases(postgres_url: str, postgres_server: str, tmp_path: Path) -> Iterator[Databases]:
    settings = Settings(data_dir=tmp_path / "data", families=FAMILIES, database_url=postgres_url, embedder="none")
    with (
        new_database(postgres_server) as other,
        open_app(settings, serving=False) as app,
        open_cells(settings) as moves,
    ):
        moves.cells.directory.add("other", other)
        users = [app.access.users.add(name) for name in ("ann", "bob")]
        callers = [Caller(user.id, ALL_SCOPES, frozenset(FAMILIES)) for user in users]
        for caller in callers:
            write(app, caller, "first")
        yield Databases(app, moves, postgres_url, other, *callers)


def write(app: App, caller: Caller, text: str) -> str:
    return app.notes.writer.create(caller, Author(), NewNote(text)).id


def texts(app: App, caller: Caller) -> list[str]:
    db = app.notes._files.of(caller.user).db
    with db.read() as tx:
        return [content for (content,) in tx.all("SELECT content FROM notes ORDER BY seq")]


def add(databases: Databases, name: str, url: str) -> None:
    with closing(PostgresPool(url)) as pool:
        pool.open([kind.tables for kind in databases.moves.kinds if kind.postgres])
        databases.moves.add(name, url, pool)


def test_another_name_of_a_database_is_no_other_cell(databases: Databases) -> None:
    home, other = (f"{url}&application_name=twin" for url in (databases.home, databases.other))
    with pytest.raises(Conflict, match="'home'"):
        add(databases, "twin", home)
    databases.moves.cells.directory.add("twin", home)  # as before this was checked
    with pytest.raises(Conflict, match="same database"):
        databases.move(databases.ann, "twin")
    assert texts(databases.app, databases.ann) == ["first"]
    databases.moves.cells.directory.add("other-twin", other)
    databases.move(databases.ann, "other")
    with pytest.raises(Conflict, match="same database"):
        databases.move(databases.ann, "other-twin")
    write(databases.app, databases.ann, "second")
    assert texts(databases.app, databases.ann) == ["first", "second"]


def test_a_database_with_memories_of_its_own_is_not_added(
    databases: Databases, postgres_server: str, tmp_path: Path
) -> None:
    with new_database(postgres_server) as foreign:
        settings = databases.app.settings.model_copy(update={"data_dir": tmp_path / "b", "database_url": foreign})
        with open_app(settings, serving=False) as theirs:
            add(databases, "empty", foreign)
            write(theirs, LOCAL, "theirs")
            with pytest.raises(Conflict, match="of its own"):
                add(databases, "second", foreign)
            assert texts(theirs, LOCAL) == ["theirs"]


def test_a_second_move_of_a_user_waits_for_the_first(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, go_on = threading.Event(), threading.Event()
    require_equal = row_copy.require_equal

    def wait(*arguments: Any) -> None:
        compared.set()
        go_on.wait()
        require_equal(*arguments)

    monkeypatch.setattr(row_copy, "require_equal", wait)
    with open_cells(databases.app.settings) as moves, ThreadPoolExecutor(2) as threads:
        first = threads.submit(databases.move, databases.ann, "other")
        compared.wait()
        second = threads.submit(lambda: list(moves.run(databases.ann.user, "other")))
        eventually(lambda: _is_waiting(databases.home))
        go_on.set()
        assert (first.result() > 0, second.result()) == (True, [])
    assert texts(databases.app, databases.ann) == ["first"]
    assert databases.tenants_at(databases.other) == {databases.ann.user}


def test_a_running_server_follows_a_user_to_another_database_and_back(databases: Databases) -> None:
    app, ann, bob = databases.app, databases.ann, databases.bob
    assert databases.move(ann, "other") > 0
    write(app, ann, "second")
    write(app, bob, "second")
    assert texts(app, ann) == texts(app, bob) == ["first", "second"]
    assert databases.tenants_at(databases.other) == {ann.user}
    assert databases.tenants_at(databases.home) == {bob.user}
    databases.move(ann, "")
    write(app, ann, "third")
    assert texts(app, ann) == ["first", "second", "third"]
    assert databases.tenants_at(databases.home) == {ann.user, bob.user}
    assert databases.tenants_at(databases.other) == set()


def test_a_move_changes_no_count_of_other_users(databases: Databases) -> None:
    with psycopg.connect(databases.home) as connection:
        sql = "SELECT name, texts, tokens FROM memory.word_totals WHERE tenant = %s"
        before = connection.execute(sql, (databases.bob.user,)).fetchall()
        databases.move(databases.ann, "other")
        assert connection.execute(sql, (databases.bob.user,)).fetchall() == before == [("notes_words_rows", 1, 1)]


def test_projects_and_facts_move_too(databases: Databases) -> None:
    app, ann = databases.app, databases.ann
    app.graph.create_project(ann, HERE, "house", "")
    app.graph.create_entities(ann, HERE, "house", [NewEntity("Ada", "person", ("paints houses",))])
    databases.move(ann, "other")
    app.graph.create_entities(ann, HERE, "house", [NewEntity("Bob", "person", ("likes houses",))])
    found = app.graph.search(ann, HERE, "house", "houses", 5).entities
    assert {hit.name for hit in found} == {"Ada", "Bob"}
    with psycopg.connect(databases.home) as connection:
        sql = "SELECT count(*) FROM memory_project.entities"
        assert connection.execute(sql).fetchone() == (0,)


def test_a_cell_shows_a_user_nothing_of_another(databases: Databases) -> None:
    databases.move(databases.ann, "other")
    with closing(PostgresPool(databases.other)) as pool:
        pool.open([NOTES_FILE.tables])
        rows = PostgresTenants(pool, NOTES_FILE.tables, durable=True)
        with rows.database(databases.bob.user).read() as tx:
            assert tx.all("SELECT content FROM notes") == []
        with rows.database(databases.ann.user).read() as tx:
            assert tx.all("SELECT content FROM notes") == [("first",)]


def test_a_former_database_refuses_a_server_that_does_not_know_of_the_move(databases: Databases) -> None:
    databases.move(databases.ann, "other")
    with closing(PostgresPool(databases.home)) as pool:
        pool.open([NOTES_FILE.tables])
        db = PostgresTenants(pool, NOTES_FILE.tables, durable=True).database(databases.ann.user)
        with pytest.raises(psycopg.Error, match="another database"), db.write():
            pass
        with pytest.raises(psycopg.Error, match="another database"), db.read() as tx:
            tx.number("SELECT 1")


def test_a_write_under_way_is_moved_too(databases: Databases) -> None:
    app, ann = databases.app, databases.ann
    mover = threading.Thread(target=databases.move, args=(ann, "other"))
    with app.notes._files.of(ann.user).db.write() as tx:
        tx.all("UPDATE notes SET content = 'changed'")
        tx.all("SELECT 1")
        mover.start()
        eventually(lambda: _is_waiting(databases.home))
    mover.join()
    assert texts(app, ann) == ["changed"]
    assert databases.tenants_at(databases.other) == {ann.user}


def _is_waiting(url: str) -> bool:
    with psycopg.connect(url) as connection:
        sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'"
        return connection.execute(sql).fetchone() is not None


def test_an_interrupted_move_refuses_calls_until_it_is_finished(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(row_copy, "require_equal", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            databases.move(databases.ann, "other")
    with pytest.raises(Unavailable, match="being moved"):
        write(databases.app, databases.ann, "second")
    assert texts(databases.app, databases.bob) == ["first"]
    databases.move(databases.ann, "other")
    assert texts(databases.app, databases.ann) == ["first"]
    assert databases.tenants_at(databases.home) == {databases.bob.user}


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _refuse(*_: object) -> None:
    raise Unusable("It is not the same.")


def test_if_a_row_differs_the_user_stays(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(row_copy, "require_equal", _refuse)
        with pytest.raises(Unusable):
            databases.move(databases.ann, "other")
    write(databases.app, databases.ann, "second")
    assert texts(databases.app, databases.ann) == ["first", "second"]
    databases.move(databases.ann, "other")  # what the first attempt left there does not matter
    assert texts(databases.app, databases.ann) == ["first", "second"]


def test_deleting_a_user_deletes_the_rows_in_the_cell(databases: Databases) -> None:
    databases.move(databases.ann, "other")
    databases.app.access.delete_data(databases.ann.user)
    assert databases.tenants_at(databases.other) == set()


def test_deleting_a_user_deletes_what_an_interrupted_move_left_at_home(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(databases.app, LOCAL, "mine")
    databases.move(LOCAL, "other")
    assert texts(databases.app, LOCAL) == ["mine"]  # this process knows of the move
    with monkeypatch.context() as patched:
        patched.setattr(CellMove, "_delete_former", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            databases.move(databases.ann, "other")
    assert databases.ann.user in databases.tenants_at(databases.home)
    databases.app.access.delete_data(databases.ann.user)
    assert databases.tenants_at(databases.home) == {databases.bob.user}
    assert databases.tenants_at(databases.other) == {LOCAL_USER}


def test_a_cell_that_cannot_be_opened_leaves_no_connections(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[PostgresPool] = []
    monkeypatch.setattr(PostgresPool, "open", _refuse)
    monkeypatch.setattr(PostgresPool, "close", lambda pool: closed.append(pool))
    with pytest.raises(Unusable):
        databases.moves.cells.pool("other")
    assert len(closed) == 1
    monkeypatch.undo()
    closed[0].close()


def test_a_cell_that_does_not_answer_delays_no_other(
    databases: Databases, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, cells = databases.moves.cells.directory, databases.moves.cells
    connecting, release, attempts = threading.Event(), threading.Event(), list[str]()
    open_pool = PostgresPool.open

    def answer_late(pool: PostgresPool, table_sets: Sequence[TableSet]) -> None:
        attempts.append(pool._url)
        if pool._url != databases.other:
            return open_pool(pool, table_sets)
        connecting.set()
        release.wait()
        raise Unavailable("The database cannot be reached.")

    with new_database(postgres_server) as third, monkeypatch.context() as patched, ThreadPoolExecutor(2) as threads:
        patched.setattr(PostgresPool, "open", answer_late)
        directory.add("third", third)
        waiting = [threads.submit(cells.pool, "other") for _ in range(2)]
        connecting.wait()
        assert cells.pool("third").stats().failures == 0  # while the other cell has not answered
        release.set()
        assert [type(one.exception()) for one in waiting] == [Unavailable] * 2
        with pytest.raises(Unavailable):
            cells.pool("other")
        assert attempts.count(databases.other) == 1  # the second waited for the first, the third came soon after
        cells.close()
        patched.setattr(cells, "_pools", {})


def test_after_a_while_a_cell_that_did_not_answer_is_tried_again(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PostgresPool, "open", _be_away)
        with pytest.raises(Unavailable):
            databases.moves.cells.pool("other")
    databases.moves.cells._openings["other"].failed_at -= RETRY_INTERVAL_S
    assert databases.moves.cells.pool("other").stats().failures == 0


def _be_away(*_: object) -> None:
    raise Unavailable("The database cannot be reached.")


def test_new_users_begin_in_the_chosen_cell(databases: Databases, tmp_path: Path) -> None:
    settings = databases.app.settings.model_copy(update={"new_users_cell": "other"})
    with open_access(settings) as access:
        eve = Caller(access.users.add("eve").id, ALL_SCOPES, frozenset(FAMILIES))
    write(databases.app, eve, "hers")  # at a server with other settings, which runs all the time
    databases.app.graph.create_project(eve, HERE, "house", "")
    assert texts(databases.app, eve) == ["hers"]
    assert databases.tenants_at(databases.other) == {eve.user}
    assert eve.user not in databases.tenants_at(databases.home)
    databases.move(eve, "")
    assert texts(databases.app, eve) == ["hers"]


def test_a_user_is_not_added_if_there_is_no_such_cell(databases: Databases) -> None:
    settings = databases.app.settings.model_copy(update={"new_users_cell": "nowhere"})
    with open_access(settings) as access, pytest.raises(NotFound, match="nowhere"):
        access.users.add("eve")
    assert "eve" not in [user.name for user in databases.app.access.users.all()]


def test_the_doctor_checks_every_cell(
    databases: Databases, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    databases.move(databases.ann, "other")
    with psycopg.connect(databases.other, autocommit=True) as connection:
        connection.execute("DELETE FROM memory_notes.notes_words_rows")
        connection.execute("ALTER TABLE memory_vault.vault_memories NO FORCE ROW LEVEL SECURITY")
    with open_maintenance(databases.app.settings) as maintenance:
        found = maintenance.doctor.check(repair=True)
        states = [(one.check, one.place.partition(":")[0], one.state) for one in found.findings]
        assert states == [("index", "other", "repaired")]
        assert caplog.messages == ["Row-level security was damaged and has been restored: memory_vault.vault_memories"]
        assert found.checked["cells"] == 2
        monkeypatch.setattr(Cells, "pool", _be_away)
        [problem] = maintenance.doctor.check(repair=False).problems
        assert (problem.check, problem.place) == ("cell", "other")


def test_a_backup_is_refused_while_users_are_in_other_cells(databases: Databases, tmp_path: Path) -> None:
    databases.move(databases.ann, "other")
    with pytest.raises(Unavailable, match="other cells"):
        backup_of(databases.app).make(tmp_path / "backup.zip")


@pytest.mark.parametrize(
    ("name", "url", "message"),
    [
        ("home", "postgresql:///x", "letters, digits"),
        ("", "postgresql:///x", "letters, digits"),  # the home's name in the directory
        ("a b", "postgresql:///x", "letters, digits"),
        ("other", "postgresqlx:///x", "postgresql://user@host/database"),
    ],
)
def test_a_cell_that_is_badly_named_is_not_added(
    name: str, url: str, message: str, postgres_url: str, tmp_path: Path
) -> None:
    arguments = ["cells", "add", name, url, "--data-dir", str(tmp_path), "--database-url", postgres_url, "--json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_unknown_cells_and_second_names_are_refused(databases: Databases) -> None:
    with pytest.raises(NotFound):
        databases.move(databases.ann, "nowhere")
    with pytest.raises(Conflict):
        databases.moves.cells.directory.add("again", databases.other)
    assert texts(databases.app, databases.ann) == ["first"]
