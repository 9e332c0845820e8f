"""A server whose notes are in PostgreSQL."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app, open_maintenance
from memory_mcp.app.access import open_access
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.postgres.migrations import APP_ROLE
from memory_mcp.engines.postgres.pool import TENANT_TABLES, PostgresPool
from memory_mcp.engines.postgres.tenants import SERVER_TENANT, PostgresTenants
from memory_mcp.errors import Invalid, NotFound, Unavailable, Unusable
from memory_mcp.families.graph import storage
from memory_mcp.families.graph.model import NewEntity
from memory_mcp.families.notes.model import Author, NewNote, NoteQuery
from memory_mcp.families.recall.family import RECALL_CACHE
from memory_mcp.families.recall.model import RecallQuery
from memory_mcp.families.vault.model import MemoryQuery, NewMemory, PruneFilter
from memory_mcp.services.sessions import Connection, Session

LOCAL = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes", "vault", "graph"}))
HERE = Session("s", Connection(LOCAL_USER, "s"))


def chosen(data_dir: Path, url: str, families: str = "vault,notes,graph,recall") -> settings.Settings:
    options: dict[str, Any] = {"data_dir": data_dir, "embedder": "none", "database_url": url, "families": families}
    return settings.load(options, environ={}).settings


@pytest.fixture
def app(tmp_path: Path, postgres_url: str) -> Iterator[App]:
    with open_app(chosen(tmp_path, postgres_url)) as app:
        yield app


def titles(app: App, caller: Caller, query: str) -> list[str]:
    return [hit.title for hit in app.notes.reader.search(caller, NoteQuery(query)).memories]


def test_two_servers_have_the_same_notes(app: App, postgres_url: str, tmp_path: Path, elsewhere: Path) -> None:
    note = app.notes.writer.create(LOCAL, Author(), NewNote("The backup runs nightly, see [[Restoring]]"))
    with open_app(chosen(elsewhere, postgres_url)) as other:
        other.notes.writer.create(LOCAL, Author(), NewNote("How to restore a backup", title="Restoring"))
        links = other.notes.reader.get(LOCAL, note.id, include_links=True).links
        assert links is not None
        assert [link.title for link in links.outgoing] == ["Restoring"]
        assert len(titles(other, LOCAL, "backup")) == 2
        assert titles(other, Caller("ada", ALL_SCOPES, frozenset({"notes"})), "backup") == []
    assert sorted(titles(app, LOCAL, "backups")) == ["Restoring", "The backup runs nightly, see [[Restoring]]"]
    assert not list(tmp_path.glob("notes.db*"))


def test_what_is_not_there_yet_is_refused(app: App, tmp_path: Path, postgres_url: str) -> None:
    with (
        pytest.raises(Invalid, match="--families vault,notes,graph,recall"),
        open_app(chosen(tmp_path, postgres_url, "")),
    ):
        raise AssertionError
    with pytest.raises(Unavailable, match="cannot be synced yet"):
        app.sync.status(LOCAL_USER)
    with pytest.raises(Unavailable, match="cannot be synced yet"):
        app.sync.enable(LOCAL_USER, "default")
    app.servers.register_this()
    with open_maintenance(app.settings) as maintenance, pytest.raises(Unavailable, match="servers use this database"):
        maintenance.restore.run(tmp_path / "b.zip")
    assert not [*tmp_path.glob("memory.db*"), *tmp_path.glob("_meta.db*"), *tmp_path.glob("recall.db*")]


def test_vectors_that_pgvector_cannot_hold_are_refused_at_the_start(tmp_path: Path, postgres_url: str) -> None:
    long = chosen(tmp_path, postgres_url).model_copy(update={"embedding_dim": 16_001})
    with pytest.raises(Invalid, match="at most 16000 numbers"), open_app(long):
        raise AssertionError


def test_two_servers_have_the_same_vault(app: App, postgres_url: str, elsewhere: Path) -> None:
    app.vault.commit(LOCAL, HERE, NewMemory("vault", "deploy_day", "Releases go out on Tuesday.", ("team",)))
    with open_app(chosen(elsewhere, postgres_url)) as other:
        for query in ("which day are releases", "deploy* OR nothing", "key : ^deploy_day NOT wednesday"):
            [hit] = other.vault.search(LOCAL, HERE, MemoryQuery(query)).results
            assert hit.key == "deploy_day"
        assert other.vault.prune(LOCAL, HERE, PruneFilter("vault", tags=("team",))).pruned_count == 1
    assert app.vault.search(LOCAL, HERE, MemoryQuery("releases")).results == []


def test_two_servers_have_the_same_projects(app: App, postgres_url: str, elsewhere: Path) -> None:
    app.graph.create_project(LOCAL, HERE, "house", "")
    app.graph.create_entities(LOCAL, HERE, None, [NewEntity("Ada", "person", ("lives in the blue house",))])
    app.graph.create_project(LOCAL, HERE, "garden", "")
    app.graph.create_entities(LOCAL, HERE, None, [NewEntity("Ada", "tree", ())])
    with open_app(chosen(elsewhere, postgres_url)) as other:
        for query in ("who lives in blue houses", "content : blue*", "name : ^ada NOT tree"):
            [found] = other.graph.search(LOCAL, HERE, "house", query, 5).entities
            assert (found.name, found.entity_type) == ("Ada", "person")
        assert other.graph.delete_project(LOCAL, "house").project is None
        assert sum(other.graph.counts(LOCAL)) == 1
    with pytest.raises(NotFound):
        app.graph.create_entities(LOCAL, HERE, "house", [NewEntity("Bob", "person", ())])
    assert tenants_with_rows(postgres_url, "memory_project.observations") == set()
    assert len(tenants_with_rows(postgres_url, "memory_project.entities")) == 1


def test_recall_finds_what_another_server_wrote(app: App, postgres_url: str, elsewhere: Path, tmp_path: Path) -> None:
    app.vault.commit(LOCAL, HERE, NewMemory("vault", "deploy_day", "Releases go out on Tuesday."))
    app.notes.writer.create(LOCAL, Author(), NewNote("Releases are announced in the newsletter"))
    with open_app(chosen(elsewhere, postgres_url)) as other:
        other.graph.create_project(LOCAL, HERE, "house", "")
        other.graph.create_entities(LOCAL, HERE, None, [NewEntity("Ada", "person", ("writes the releases",))])
        found = {hit.family for hit in other.recall.recall(LOCAL, HERE, RecallQuery("releases")).hits}
        assert found == {"vault", "notes", "graph"}
        app.graph.delete_project(LOCAL, "house")
        app.vault.prune(LOCAL, HERE, PruneFilter("vault", "deploy_day"))
        assert [hit.family for hit in other.recall.recall(LOCAL, HERE, RecallQuery("releases")).hits] == ["notes"]
    assert not [*tmp_path.glob("recall.db*"), *elsewhere.glob("recall.db*")]


def test_no_transaction_without_its_tenant_sees_a_row_of_any_family(app: App, postgres_url: str) -> None:
    app.vault.commit(LOCAL, HERE, NewMemory("vault", "secret", "of the local user", ("tag",), (1.0,) * 1536))
    app.vault.commit(LOCAL, HERE, NewMemory("session", "secret", "of the local user", ("tag",)))
    app.notes.writer.create(LOCAL, Author(), NewNote("a secret #tag of [[the local user]]"))
    app.graph.create_project(LOCAL, HERE, "secret", "")
    app.graph.create_entities(LOCAL, HERE, None, [NewEntity("secret", "thing", ("of the local user",))])
    assert app.recall.recall(LOCAL, HERE, RecallQuery("secret")).hits
    with psycopg.connect(postgres_url) as connection:
        names = [name for (name,) in connection.execute(READABLE.encode())]
        filled = [name for name in names if count_rows(connection, name)]
        assert len(filled) > 20
        connection.execute(f"SET ROLE {APP_ROLE}")
        for tenant in (None, "", "ada", "local/", "loca", "%"):
            if tenant is not None:
                connection.execute("SELECT set_config('memory.tenant', %s, false)", (tenant,))
            assert [name for name in names if count_rows(connection, name)] == [], tenant
            assert connection.execute("SELECT embedded, waiting FROM memory_notes.vector_counts").fetchone() == (0, 0)


READABLE = f"""
    SELECT c.oid::regclass::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE starts_with(n.nspname, 'memory') AND c.relkind IN ('r', 'p', 'v')
        AND c.relname NOT IN ('schema_versions', 'vector_counts')
        AND has_column_privilege('{APP_ROLE}', c.oid, 1::smallint, 'SELECT')
"""


def count_rows(connection: psycopg.Connection[tuple[Any, ...]], table: str) -> int:
    return len(connection.execute(f"SELECT 1 FROM {table}".encode()).fetchall())


def test_a_cache_can_be_emptied(app: App, postgres_url: str) -> None:
    app.vault.commit(LOCAL, HERE, NewMemory("vault", "deploy_day", "Releases go out on Tuesday."))
    assert app.recall.recall(LOCAL, HERE, RecallQuery("releases")).hits
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open([])
        PostgresTenants(pool, RECALL_CACHE.tables, durable=False).recreate(LOCAL_USER)
    assert tenants_with_rows(postgres_url, "memory_recall.texts") == set()
    assert tenants_with_rows(postgres_url, "memory_vault.vault_memories") == {LOCAL_USER}
    assert app.recall.recall(LOCAL, HERE, RecallQuery("releases")).hits


def test_a_project_deleted_under_a_write_takes_no_rows(app: App, postgres_url: str) -> None:
    project = app.graph.create_project(LOCAL, HERE, "house", "")
    opened = app.graph._databases.open(LOCAL_USER, project)
    app.graph.delete_project(LOCAL, "house")
    with pytest.raises(psycopg.errors.ForeignKeyViolation), opened.write() as tx:
        storage.add_entity(tx, NewEntity("Ada", "person", ()))
    assert tenants_with_rows(postgres_url, "memory_project.entities") == set()


def tenants_with_rows(url: str, table: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {tenant for (tenant,) in connection.execute(f"SELECT tenant FROM {table}".encode())}


def test_a_deleted_user_leaves_no_row(app: App, postgres_url: str, tmp_path: Path) -> None:
    ada = app.access.users.add("ada")
    caller = Caller(ada.id, ALL_SCOPES, frozenset({"notes"}))
    app.notes.writer.create(caller, Author(), NewNote("private"))
    app.vault.commit(caller, HERE, NewMemory("vault", "private", "fact"))
    app.graph.create_project(caller, HERE, "private", "")
    app.graph.create_entities(caller, HERE, None, [NewEntity("private", "thing", ("of Ada",))])
    app.notes.writer.create(LOCAL, Author(), NewNote("of another user"))
    with open_access(app.settings) as access:
        access.delete_data(ada.id)
    assert titles(app, caller, "private") == []
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(TENANT_TABLES.encode()).fetchall()
    left = set[str]().union(*(tenants_with_rows(postgres_url, table) for (table,) in tables))
    assert left == {LOCAL_USER, SERVER_TENANT}
    assert titles(app, LOCAL, "user") == ["of another user"]


def test_without_the_driver_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("memory_mcp.engines.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    with (
        pytest.raises(Unusable, match=r"pip install '.*\[postgres\]'"),
        open_app(chosen(tmp_path, "postgresql:///x")),
    ):
        raise AssertionError
