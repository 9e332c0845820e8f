"""The vault's file: the spec's schema to the letter, files of other programs, maintenance."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Unavailable
from memory_mcp.families.vault.model import MemoryQuery, NewMemory
from memory_mcp.families.vault.schema import SCHEMA
from memory_mcp.services.sessions import Connection, Session
from tests.processes import environment, run
from tests.wire import Stdio

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"vault"}))
HERE = Session("s", Connection(LOCAL_USER, "s"))

TABLES = """
CREATE TABLE session_memories (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id  TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    tags        TEXT    NOT NULL DEFAULT '[]',  -- JSON array of strings
    created_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    UNIQUE(session_id, key)
);
CREATE TABLE vault_memories (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT    NOT NULL UNIQUE,
    content     TEXT    NOT NULL,
    tags        TEXT    NOT NULL DEFAULT '[]',  -- JSON array of strings
    embedding   BLOB,                           -- optional: float32 LE array (D=1536)
    created_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    updated_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
"""


@pytest.fixture
def database_url() -> None:
    """All of this is about SQLite files."""


def squeezed(sql: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"--.*", "", sql)).strip()


def test_the_tables_are_the_specs_to_the_letter(app: App, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    made = {str(name): squeezed(str(sql)) for name, sql in connection.execute("SELECT name, sql FROM sqlite_master")}

    for statement in TABLES.split(";\n")[:2]:
        name = statement.split()[2]
        assert made[name] == squeezed(statement)
    for index in ("idx_session_memories_session", "idx_session_memories_tags", "idx_vault_memories_tags"):
        assert index in made
    for table in ("session", "vault"):
        assert made[f"{table}_fts"] == (
            f"CREATE VIRTUAL TABLE {table}_fts USING fts5( key, content, tags, "
            f"content={table}_memories, content_rowid=id )"
        )
        assert {f"{table}_ai", f"{table}_ad", f"{table}_au"} <= made.keys()


FTS = """
CREATE VIRTUAL TABLE vault_fts USING fts5(key, content, tags, content=vault_memories, content_rowid=id);
CREATE TRIGGER vault_ad AFTER DELETE ON vault_memories BEGIN
    INSERT INTO vault_fts(vault_fts, rowid, key, content, tags)
    VALUES('delete', old.id, old.key, old.content, old.tags);
END;
CREATE TRIGGER vault_au AFTER UPDATE ON vault_memories BEGIN
    INSERT INTO vault_fts(vault_fts, rowid, key, content, tags)
    VALUES('delete', old.id, old.key, old.content, old.tags);
    INSERT INTO vault_fts(rowid, key, content, tags) VALUES (new.id, new.key, new.content, new.tags);
END;
"""


@pytest.mark.parametrize("tables", [TABLES, TABLES + FTS])
def test_a_file_of_another_implementation_is_adopted(tmp_path: Path, tables: str) -> None:
    foreign = apsw.Connection(str(tmp_path / "memory.db"))
    foreign.execute(tables).fetchall()
    foreign.execute("INSERT INTO session_memories (session_id, key, content) VALUES ('default', 's', 'c')")
    foreign.execute(
        """INSERT INTO vault_memories (key, content, tags, embedding) VALUES
        ('old', 'written elsewhere', '["t"]', x'0102030405'),
        ('odd', 'tags are no array', 'none', NULL),
        ('numbers', 'nor of texts', '[1, null, "x"]', NULL),
        ('bytes', x'6279746573', '[]', NULL),
        ('broken', CAST(x'61ff62' AS TEXT), '[]', NULL),
        (CAST(x'63616665cc81' AS TEXT), 'not in NFC', '[]', NULL)"""
    )
    foreign.close()
    server = Stdio.start(tmp_path)

    assert server.call("search_memories", query="elsewhere", tags=["t"])["results"][0]["key"] == "old"
    assert server.call("search_memories", query='"written elsewhere"')["results"][0]["key"] == "old"
    assert server.call("search_memories", query="q", query_embedding=[1.0] * 1536)["results"] == []
    memories = {memory["key"]: memory for memory in server.read("memory://vault")}
    assert memories.keys() == {"old", "odd", "numbers", "bytes", "broken", "café"}
    assert memories["odd"]["tags"] == []
    assert memories["numbers"]["tags"] == ["x"]
    assert memories["bytes"]["content"] == "bytes"
    assert memories["broken"]["content"] == "a\ufffdb"
    assert server.read("memory://vault/caf%C3%A9")["content"] == "not in NFC"
    assert server.call("prune_memory", scope="vault", key="odd") == {"pruned_count": 1}
    server.close()
    assert len(list((tmp_path / "backups").glob("memory-v0-*.db"))) == 1
    taken_over = apsw.Connection(str(tmp_path / "memory.db"))
    assert taken_over.execute("SELECT * FROM session_memories").fetchall() == []
    for index in ("vault_fts", "session_fts", "vault_words", "session_words"):
        taken_over.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")


def test_triggers_of_an_adopted_file_do_not_run(tmp_path: Path) -> None:
    foreign = apsw.Connection(str(tmp_path / "memory.db"))
    foreign.execute(TABLES).fetchall()
    foreign.execute("INSERT INTO vault_memories (key, content) VALUES ('old', 'written elsewhere')")
    for name in ("vault_ai", 'any "name"'):  # one that the specification has, one that it has not
        quoted = name.replace('"', '""')
        foreign.execute(
            f"""CREATE TRIGGER "{quoted}" AFTER INSERT ON vault_memories BEGIN
            DELETE FROM vault_memories WHERE key <> new.key; END"""
        )
    foreign.close()
    server = Stdio.start(tmp_path, "--embedder", "none")
    server.call("commit_memory", scope="vault", key="new", content="written here")
    assert {memory["key"] for memory in server.read("memory://vault")} == {"old", "new"}
    server.close()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE vault_memories (id INTEGER PRIMARY KEY, key TEXT, content TEXT, tags TEXT)",
        "CREATE VIEW vault_memories AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
        "SELECT id, 'k' AS key, 'c' AS content, '[]' AS tags, NULL AS embedding, '' AS created_at, '' AS updated_at "
        "FROM n",
        TABLES + "PRAGMA user_version = 1",
    ],
)
def test_tables_of_another_shape_are_refused_in_a_sentence(tmp_path: Path, sql: str) -> None:
    apsw.Connection(str(tmp_path / "memory.db")).execute(sql).fetchall()
    before = (tmp_path / "memory.db").read_bytes()
    done = run("--data-dir", tmp_path)
    assert done.returncode == 0
    [refused] = [entry for line in done.stderr.splitlines() if (entry := json.loads(line))["level"] == "error"]
    assert refused["message"].startswith("The family vault is unavailable. memory.db ")
    assert "Traceback" not in done.stderr
    assert before == (tmp_path / "memory.db").read_bytes()


# How the vault's specification writes, in its Python blueprint.
SPEC_UPSERT = """
INSERT INTO vault_memories(key,content,tags) VALUES(?,?,?)
ON CONFLICT(key) DO UPDATE SET content=excluded.content, tags=excluded.tags,
updated_at=strftime('%Y-%m-%dT%H:%M:%SZ','now')
"""
SPEC_SESSION = "INSERT OR REPLACE INTO session_memories(session_id,key,content,tags) VALUES(?,?,?,?)"


def found(server: Stdio, query: str, **filters: Any) -> list[str]:
    return [hit["key"] for hit in server.call("search_memories", query=query, **filters)["results"]]


def test_another_program_writes_with_an_old_sqlite_and_the_next_search_finds_it(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="s"))
    for key, content in (("k", "before"), ("gone", "soon deleted"), ("replaced", "long ago")):
        server.call("commit_memory", scope="vault", key=key, content=content, tags=["ours"])
        server.call("commit_memory", scope="session", key=key, content=content, tags=["ours"])
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    # Whatever SQLite this Python has: what needs 3.43 is in no trigger.
    assert not other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%_words%'").fetchall()
    other.execute(SPEC_UPSERT, ("new", "by hand", '["theirs"]'))
    other.execute(SPEC_UPSERT, ("k", "afterwards", '["theirs"]'))
    other.execute("INSERT OR REPLACE INTO vault_memories(key, content) VALUES ('replaced', 'recently')")
    other.execute("DELETE FROM vault_memories WHERE key=?", ("gone",))
    other.execute(SPEC_SESSION, ("s", "k", "afterwards", "[]"))
    other.execute("DELETE FROM session_memories WHERE session_id=? AND key=?", ("s", "gone"))

    assert found(server, "hand") == found(server, "hand", tags=["theirs"]) == ["new"]
    assert found(server, "afterwards") == ["k", "k"]
    assert found(server, "recently") == ["replaced"]
    assert found(server, "before") == found(server, "soon deleted") == found(server, "ago", scope="vault") == []
    assert found(server, "", tags=["ours"]) == ["replaced"]  # of the session
    other.execute("UPDATE vault_memories SET tags = '[\"old\"]' WHERE key = 'new'")
    assert server.call("prune_memory", scope="vault", tags=["old"]) == {"pruned_count": 1}
    other.execute(SPEC_UPSERT, ("cafe\u0301", "not in NFC", "[]"))
    assert server.read("memory://vault/caf%C3%A9")["content"] == "not in NFC"
    other.close()
    server.close()


def test_after_another_program_wrote_the_file_is_sound(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    server.call("commit_memory", scope="vault", key="k", content="before", tags=["t"])
    server.close()
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)  # foreign keys are off unless asked for
    other.execute("INSERT OR REPLACE INTO vault_memories(key, content) VALUES ('k', 'replaced')")
    other.execute(SPEC_UPSERT, ("new", "by hand", "[]"))
    other.execute("DELETE FROM vault_memories WHERE key = 'new'")
    other.close()
    server = Stdio.start(tmp_path)
    assert found(server, "replaced") == ["k"]
    server.close()
    done = run("doctor", "--data-dir", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    old = apsw.Connection(str(tmp_path / "memory.db"))
    old.execute(SCHEMA.migrations[0].sql).fetchall()
    old.pragma("user_version", 1)
    old.pragma("application_id", SCHEMA.application_id)
    old.execute("INSERT INTO vault_memories (id, key, content) VALUES (7, 'k', 'before')")
    old.execute("INSERT INTO vault_words (rowid, key, content, tags, parts) VALUES (7, 'k', 'before', '', '')")
    old.close()

    server = Stdio.start(tmp_path)
    assert found(server, "before") == ["k"]
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    other.execute(SPEC_UPSERT, ("k", "afterwards", "[]"))
    other.close()
    assert (found(server, "before"), found(server, "afterwards")) == ([], ["k"])
    server.close()
    assert len(list((tmp_path / "backups").glob("memory-v1-*.db"))) == 1


@pytest.fixture
def options() -> dict[str, Any]:
    return {"durability": "normal"}


def remember(app: App, key: str, content: str) -> None:
    app.vault.commit(ME, HERE, NewMemory("vault", key, content))


def test_an_index_in_many_pieces_is_tidied_and_finds_the_same(app: App, tmp_path: Path) -> None:
    for number in range(700):
        remember(app, f"k{number}", f"word{number} shared{number % 7}")
    connection = apsw.Connection(str(tmp_path / "memory.db"))

    def pieces() -> int:
        return len(connection.execute("SELECT DISTINCT segid FROM vault_words_idx").fetchall())

    before = app.vault.search(ME, HERE, MemoryQuery("shared3 word10", limit=500))
    many = pieces()
    app.vault.index_merge.merge()
    assert pieces() < many
    assert app.vault.search(ME, HERE, MemoryQuery("shared3 word10", limit=500)) == before


def test_when_every_word_is_common_every_memory_is_weighed_alike(app: App) -> None:
    for number in range(1100):
        remember(app, f"k{number}", "alpha and more" if number < 1099 else "alpha")

    hits = app.vault.search(ME, HERE, MemoryQuery("alpha", limit=500)).results
    assert hits[0].key == "k1099"
    assert hits[0].relevance == 1.0
    assert min(hit.relevance for hit in hits) > 0.85


def test_other_sessions_do_not_weigh_in(app: App) -> None:
    for number in range(1200):
        elsewhere = Session(f"other{number % 3}", HERE.connection)
        app.vault.commit(ME, elsewhere, NewMemory("session", f"k{number}", "todo"))
    app.vault.commit(ME, HERE, NewMemory("session", "mine", "a todo of mine"))

    [hit] = app.vault.search(ME, HERE, MemoryQuery("todo", scope="session")).results
    assert hit.key == "mine"
    assert hit.relevance > 0.9


def test_a_pasted_document_is_searched_by_its_first_words(app: App) -> None:
    remember(app, "k", "needle")
    document = "needle " + " ".join(f"word{number}" for number in range(100_000))
    assert app.vault.search(ME, HERE, MemoryQuery(document)).results[0].key == "k"


def test_vectors_of_a_removed_file_are_forgotten_with_it(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--embedding-dim", "2")
    for number in range(3):
        server.call("commit_memory", scope="vault", key=f"old{number}", content="x", embedding=[1, number])
    server.call("search_memories", query="q", query_embedding=[1, 0])
    (tmp_path / "memory.db").unlink()
    server.call("commit_memory", scope="vault", key="new", content="y", embedding=[0, 1])

    [hit] = server.call("search_memories", query="q", query_embedding=[0, 1])["results"]
    assert (hit["key"], hit["relevance"]) == ("new", 0.6)
    server.close()


def test_a_year_of_three_digits_prunes_nothing(app: App) -> None:
    from memory_mcp.families.family import Call
    from memory_mcp.families.vault.tools import PruneMemory, prune_memory

    remember(app, "k", "c")
    call = Call(app.vault, ME, HERE)
    assert prune_memory(call, PruneMemory(scope="vault", older_than="0999-01-01")).pruned_count == 0


def test_a_closed_connection_keeps_nothing_more(app: App) -> None:
    connection = Connection(LOCAL_USER, "gone")
    app.sessions.close(connection)
    with pytest.raises(Unavailable):
        app.vault.commit(ME, Session("gone", connection), NewMemory("session", "k", "c"))
