"""Moves of all users' data between files and PostgreSQL, and backups that are restored on the other engine."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from typer.testing import CliRunner

from memory_mcp import settings
from memory_mcp.app import App, open_app, open_maintenance
from memory_mcp.app.older_servers import database_kinds
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.cli.main import cli
from memory_mcp.engines.postgres.tenants import SERVER_TENANT, read_all_tenants
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.families.notes.model import Author, NewNote, Revision
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.maintenance import moves
from memory_mcp.maintenance.moves import Rows, movable
from memory_mcp.services.sessions import Connection, Session

HERE = Session("s", Connection(LOCAL_USER, "s"))
KINDS = database_kinds(FAMILIES.values())
IN_FILES_ALONE = {  # what one engine needs and the other does not, and what is a count or an index of other tables
    "vector_changes",
    *("session_unindexed", "vault_unindexed", "unindexed", "unindexed_numbers", "indexed", "vector_file"),
    *("note_counts", "tag_counts", "vector_counts"),
    *("sync_node", "sync_namespaces", "sync_outbox", "sync_set_aside"),  # notes in PostgreSQL are not synced yet
}
OWN_NUMBERS = {("embed_queue", "ticket"), ("indexed", "number")}
NOT_COPIED = {"sqlite_sequence", "sync_node"}  # the node's name is a random number


def chosen(data_dir: Path, url: str | None = None) -> settings.Settings:
    options: dict[str, Any] = {"data_dir": data_dir, "embedder": "none", "embedding_dim": 3}
    if url:
        options |= {"database_url": url, "families": "vault,notes,graph,recall"}
    return settings.load(options, environ={}).settings


def run(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fill(app: App) -> None:
    """Something of every kind, for two users: versions, archived, superseded and deleted rows among it."""
    ada = app.access.users.add("ada")
    for user in (LOCAL_USER, ada.id):
        caller = Caller(user, ALL_SCOPES, frozenset(app.families))
        first = app.notes.writer.create(caller, Author(), NewNote("The first [[Second]] #tag", title="First"))
        app.notes.writer.create(caller, Author(), NewNote("newer", title="Second", supersedes=(first.id,)))
        app.notes.writer.update(caller, Author(), first.id, Revision(content="The first, changed [[Second]]"))
        app.notes.writer.delete(caller, app.notes.writer.create(caller, Author(), NewNote("gone")).id, soft=True)
        app.notes.writer.delete(caller, app.notes.writer.create(caller, Author(), NewNote("erased")).id, soft=False)
        app.vault.commit(caller, HERE, NewMemory("vault", "fact", "Releases on Tuesday", ("team",), (1.0, 0.5, 0.25)))
        app.vault.commit(caller, HERE, NewMemory("session", "scratch", "for now", ("team",)))
        app.graph.create_project(caller, HERE, "empty", "")
        app.graph.archive_project(caller, "empty")
        app.graph.create_project(caller, HERE, "house", "")
        people = [
            NewEntity("Ada", "person", ("blue house",)),
            NewEntity("Bob", "person", ()),
            NewEntity("Eve", "x", ()),
        ]
        app.graph.create_entities(caller, HERE, "house", people)
        app.graph.create_relations(caller, HERE, "house", [NamedRelation("Ada", "Bob", "knows")])
        app.graph.delete_entities(caller, HERE, "house", ["Eve"])
    app.access.keys.create(name="laptop", user=ada.id)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    with open_app(chosen(folder), serving=False) as app:
        fill(app)
    return folder


def tables(path: Path) -> dict[str, list[str]]:
    """The rows of every table of a file, without full-text indexes."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM pragma_table_list WHERE type = 'table'")]
        plain = [name for name in names if not name.startswith("sqlite_schema") and name != "sqlite_temp_schema"]
        return {name: sorted(map(repr, connection.execute(_selection(connection, name)))) for name in plain}


def _selection(connection: apsw.Connection, table: str) -> str:
    """Without the numbers that each engine gives by itself."""
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_xinfo(?)", (table,))]
    return f"SELECT {', '.join(name for name in columns if (table, name) not in OWN_NUMBERS)} FROM {table}"


def contents(folder: Path) -> dict[str, Mapping[str, list[str]]]:
    files = [path for path in sorted(folder.rglob("*.db")) if path.name not in ("live.db", "recall.db", "stores.db")]
    return {
        path.relative_to(folder).as_posix(): {
            name: rows for name, rows in tables(path).items() if name not in NOT_COPIED
        }
        for path in files
    }


def test_everything_moves_to_postgresql_and_back(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    before = contents(filled)
    moved = run("migrate", "--to", postgres_url, "--data-dir", str(filled))["moved"]
    assert {one["outcome"] for one in moved} == {"moved"}
    back = tmp_path / "back"
    run("migrate", "--to-dir", str(back), "--data-dir", str(tmp_path / "any"), "--database-url", postgres_url)
    assert contents(back) == before
    with open_app(chosen(back), serving=False) as app, open_app(chosen(tmp_path / "any", postgres_url)) as other:
        for one in (app, other):
            caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes", "vault", "graph"}))
            assert one.notes.writer.create(caller, Author(), NewNote("next")).id
            assert [hit.name for hit in one.graph.search(caller, HERE, "house", "blue houses", 5).entities] == ["Ada"]
    with open_maintenance(chosen(back)) as maintenance:
        assert maintenance.doctor.check(repair=False).problems == []


def test_a_move_that_was_interrupted_goes_on(
    filled: Path, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = moves._copy
    done: list[str] = []

    def stop_in_the_third(*arguments: Any) -> int:
        rows = real(*arguments)
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(arguments[2].name)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(moves, "_copy", stop_in_the_third)
        assert CliRunner().invoke(cli, ["migrate", "--to", postgres_url, "--data-dir", str(filled)]).exit_code != 0
    moved = run("migrate", "--to", postgres_url, "--data-dir", str(filled))["moved"]
    assert [one["name"] for one in moved if one["outcome"] == "already there"] == done
    assert {one["outcome"] for one in moved[2:]} == {"moved"}


def test_other_rows_are_not_overwritten(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    with open_app(chosen(tmp_path / "any", postgres_url), serving=False) as app:
        caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
        app.notes.writer.create(caller, Author(), NewNote("of this database"))
    done = CliRunner().invoke(cli, ["migrate", "--to", postgres_url, "--data-dir", str(filled)])
    assert done.exit_code == 1
    assert "notes.db: the target has other rows" in str(done.exception)


def test_a_row_that_is_not_the_same_afterwards_undoes_its_file(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    with open_app(chosen(tmp_path / "any", postgres_url), serving=False):
        pass
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            """
            CREATE FUNCTION memory_notes.spoil() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN new.folder = 'spoilt'; RETURN new; END $$;
            CREATE TRIGGER spoil BEFORE INSERT ON memory_notes.notes FOR EACH ROW EXECUTE FUNCTION memory_notes.spoil()
            """
        )
        try:
            done = CliRunner().invoke(cli, ["migrate", "--to", postgres_url, "--data-dir", str(filled)])
            assert "notes.db is not the same after it was copied (row 1 of notes)" in str(done.exception)
            assert connection.execute("SELECT count(*) FROM memory_notes.notes").fetchone() == (0,)
        finally:
            connection.execute("DROP FUNCTION memory_notes.spoil CASCADE")


@pytest.mark.parametrize("into", ["files", "postgres"])
def test_a_backup_of_one_engine_is_restored_on_the_other(
    filled: Path, postgres_url: str, tmp_path: Path, into: str
) -> None:
    before, other = contents(filled), tmp_path / "other"
    zip_file = str(tmp_path / "b.zip")
    if into == "postgres":
        run("backup", zip_file, "--data-dir", str(filled))
        done = run("restore", zip_file, "--data-dir", str(other), "--database-url", postgres_url)
        assert Path(done["aside"]).exists()
        run("migrate", "--to-dir", str(tmp_path / "back"), "--data-dir", str(other), "--database-url", postgres_url)
        assert contents(tmp_path / "back") == before
        return
    run("migrate", "--to", postgres_url, "--data-dir", str(filled))
    run("backup", zip_file, "--data-dir", str(other), "--database-url", postgres_url)
    run("restore", zip_file, "--data-dir", str(tmp_path / "back"))
    assert contents(tmp_path / "back") == before


def test_a_restore_replaces_all_rows(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "b.zip"), "--data-dir", str(filled))
    with open_app(chosen(tmp_path / "any", postgres_url), serving=False) as app:
        bob = app.access.users.add("bob")
        caller = Caller(bob.id, ALL_SCOPES, frozenset({"notes", "graph"}))
        app.notes.writer.create(caller, Author(), NewNote("of Bob"))
        app.graph.create_project(caller, HERE, "private", "")
    run("restore", str(tmp_path / "b.zip"), "--data-dir", str(tmp_path / "any"), "--database-url", postgres_url)
    with psycopg.connect(postgres_url) as connection:
        left = [f"{table}: {tenant}" for table, tenant in _tenants(connection) if tenant.startswith(bob.id)]
    assert left == []


def _tenants(connection: psycopg.Connection[Any]) -> Iterator[tuple[str, str]]:
    names = connection.execute("SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname LIKE 'memory%'")
    for (name,) in names.fetchall():
        if name != "memory.schema_versions":
            yield from ((name, one) for (one,) in connection.execute(f"SELECT DISTINCT tenant FROM {name}".encode()))


def test_a_move_says_what_stays_in_the_data_directory(filled: Path, postgres_url: str) -> None:
    done = CliRunner().invoke(cli, ["migrate", "--to", postgres_url, "--data-dir", str(filled)])
    assert done.exit_code == 0, done.output
    assert "conversations" in {kind.name for kind in movable(KINDS)}
    assert done.stdout.endswith(
        "Stores and portals stay in the data directory. The files that were moved are still there, too.\n"
    )


def test_the_doctor_fills_an_incomplete_full_text_index(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    run("migrate", "--to", postgres_url, "--data-dir", str(filled))
    arguments = ("doctor", "--data-dir", str(tmp_path / "any"), "--database-url", postgres_url)
    found = run(*arguments)
    assert (found["findings"], set(found["checked"])) == ([], {"settings", "users", "row sets"})
    unmerged = "SELECT count(*) FROM memory.word_changes"
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(unmerged).fetchone() == (0,)
        for table in (
            "memory_notes.notes_words_rows",
            "memory_vault.vault_fts_rows",
            "memory_project.graph_words_rows",
        ):
            connection.execute(f"DELETE FROM {table}".encode())
    checked = CliRunner().invoke(cli, [*arguments, "--json"])
    assert checked.exit_code == 1
    assert len(json.loads(checked.stdout)["findings"]) == 6
    assert {one["state"] for one in run(*arguments, "--repair")["findings"]} == {"repaired"}
    assert run(*arguments)["findings"] == []
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(unmerged).fetchone() == (0,)
        assert connection.execute("SELECT sum(texts) > 0 FROM memory.word_counts").fetchone() == (True,)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memory.word_counts SET texts = texts + 1 WHERE word = (SELECT min(word) FROM memory.word_counts)",
        "DELETE FROM memory.word_counts WHERE word = (SELECT min(word) FROM memory.word_counts)",
        "UPDATE memory.word_totals SET tokens = tokens + 1",
    ],
)
def test_the_doctor_counts_words_again(filled: Path, postgres_url: str, tmp_path: Path, damage: str) -> None:
    run("migrate", "--to", postgres_url, "--data-dir", str(filled))
    arguments = ("doctor", "--data-dir", str(tmp_path / "any"), "--database-url", postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(damage.encode())
    repaired = run(*arguments, "--repair")["findings"]
    assert {(one["state"], one["message"]) for one in repaired} == {
        ("repaired", "its counts of words differ from its texts")
    }
    assert run(*arguments)["findings"] == []


def test_every_table_of_a_file_is_moved_or_derived(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    from memory_mcp.engines.postgres.catalog import copied_tables

    with open_app(chosen(tmp_path / "any", postgres_url), serving=False) as app:
        assert app.postgres is not None
        with read_all_tenants(app.postgres) as everything:
            copied = {
                kind.file: {one.name for one in copied_tables(everything.rows(kind.tables, SERVER_TENANT), kind.tables)}
                for kind in movable(KINDS)
            }
            assert Rows(KINDS, lambda: pytest.fail("not needed")).kinds == KINDS
    for name, found in contents(filled).items():
        [kind] = [kind for kind in KINDS if name.endswith(kind.file) and (kind.folders or "projects" not in name)][:1]
        left = {table for table in found if not table.endswith(("_data", "_idx", "_docsize", "_config"))}
        assert left - copied.get(kind.file, set()) <= IN_FILES_ALONE, name
