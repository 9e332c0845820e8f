"""After any actions, data that the file has in two places agrees."""

from typing import Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.engines.sqlite import SqliteRead
from memory_mcp.engines.transactions import Read
from memory_mcp.errors import AppError
from memory_mcp.families.notes.model import ARCHIVED, Author, NewNote, Revision
from memory_mcp.families.notes.storage.index import TABLES
from tests.exhaustive import rounds
from tests.families.notes.calls import CALLER, file

NOTES = "SELECT namespace, coalesce(client, ''), count(*) FROM notes WHERE archived = 0 GROUP BY 1, 2"
TAGS = """
    SELECT tag_key, count(*) FROM note_tags JOIN notes ON seq = note_seq WHERE archived = 0 GROUP BY tag_key
"""


def differing(one: str, other: str) -> str:
    return f"SELECT * FROM ({one} EXCEPT {other}) UNION ALL SELECT * FROM ({other} EXCEPT {one})"


AGREES = {
    "the notes and how many are counted": differing(NOTES, "SELECT namespace, client, notes FROM note_counts"),
    "the tags and how many notes are counted": differing(TAGS, "SELECT tag_key, notes FROM tag_counts"),
    "what waits for vectors and how many are counted": """
        SELECT * FROM vector_counts WHERE waiting <> (SELECT count(*) FROM embed_queue)
            OR embedded <> (SELECT count(*) FROM note_vectors WHERE part = 0)
    """,
    "the tags of the column and of the table": """
        SELECT seq FROM notes
        WHERE tags <> coalesce((SELECT string_agg(tag, ',' ORDER BY position) FROM note_tags WHERE note_seq = seq), '')
    """,
    "the notes that are live and those in the full-text index": """
        SELECT seq FROM notes WHERE archived = CAST(seq IN (INDEXED) AS INTEGER)
        UNION SELECT number FROM (INDEXED) AS indexed WHERE number NOT IN (SELECT seq FROM notes)
    """,
    "the notes that are live and those that wait for a vector": """
        SELECT seq FROM notes WHERE archived = CAST(seq IN (SELECT note_id FROM embed_queue) AS INTEGER)
    """,
    "archived notes and the tag that says so": """
        SELECT seq FROM notes
        WHERE (archived = 1) <> EXISTS (SELECT 1 FROM note_tags
            WHERE note_seq = seq AND tag = 'archived' AND origin = 'state')
    """,
    "the tag of the namespace and the namespace": """
        SELECT seq FROM notes WHERE (SELECT string_agg(tag, ',') FROM note_tags
            WHERE note_seq = seq AND tag LIKE 'ns/%') IS DISTINCT FROM 'ns/' || namespace
    """,
    "titles that dangle and titles that no note has": """
        SELECT source.seq, link.title FROM note_wikilinks AS link JOIN notes AS source ON source.seq = link.source_seq
        LEFT JOIN notes AS target ON target.seq = link.target_seq
        WHERE source.archived = 0 AND coalesce(target.archived, 1) = 1 AND EXISTS (SELECT 1 FROM notes AS other
            WHERE other.title_key = link.title_key AND other.namespace = source.namespace AND other.archived = 0
                AND other.seq <> source.seq)
    """,
    "what is superseded and the last live note that says so": """
        SELECT seq FROM notes WHERE superseded_by IS DISTINCT FROM (SELECT newer.seq FROM note_links
            JOIN notes AS newer ON newer.seq = source_seq
            WHERE kind = 'supersedes' AND target_seq = notes.seq AND newer.archived = 0
            ORDER BY newer.created_at DESC, newer.id DESC LIMIT 1)
    """,
    "versions and their numbers": """
        SELECT seq FROM notes WHERE version - 1 <> (SELECT count(*) FROM note_versions WHERE note_seq = seq)
    """,
    "a note and the one before it": """
        SELECT note.seq FROM notes AS note JOIN notes AS before ON before.seq = note.previous
        WHERE note.namespace <> before.namespace OR before.archived = 1 OR note.session_id <> before.session_id
    """,
}

titles = st.sampled_from(["A", "B"])
bodies = st.lists(st.sampled_from(["[[A]]", "[[b|label]]", "#tag", "#archived"]), min_size=1, max_size=2)
content = {"content": bodies.map(" ".join)}
place = {"title": titles, "namespace": st.sampled_from(["default", "work"])}
new = st.fixed_dictionaries(content, optional=place)
changed = st.fixed_dictionaries({}, optional={**content, **place, "importance": st.just(0.7)})
which = st.integers(0, 3)
actions = st.one_of(
    st.tuples(st.just("create"), new),
    st.tuples(st.just("update"), which, changed),
    st.tuples(st.sampled_from(["archive", "restore", "delete"]), which),
    st.tuples(st.sampled_from(["supersede", "link", "unlink"]), which, which),
)


def test_redundant_data_is_consistent(app: App) -> None:
    @examples(max_examples=rounds(40, soak=150), deadline=None)
    @given(st.lists(actions, min_size=6, max_size=16))
    def agrees(done: list[tuple[Any, ...]]) -> None:
        with file(app).write() as tx:
            tx.all("DELETE FROM notes")
        ids: list[str] = []
        for action, *rest in done:
            do(app, ids, action, rest)
        with file(app).read() as tx:
            check(tx)

    agrees()


def do(app: App, ids: list[str], action: str, rest: list[Any]) -> None:
    author = Author("mcp", None, "session")
    if action == "create":
        ids.append(app.notes.writer.create(CALLER, author, NewNote(**rest[0])).id)
        return
    if not ids:
        return
    id_, other = ids[rest[0] % len(ids)], ids[rest[-1] % len(ids)] if isinstance(rest[-1], int) else ""
    try:
        if action == "update":
            app.notes.writer.update(CALLER, author, id_, Revision(**rest[1]))
        elif action == "supersede":
            app.notes.writer.update(CALLER, author, id_, Revision(supersedes=(other,)))
        elif action == "restore":
            app.notes.writer.update(CALLER, author, id_, Revision(remove_tags=(ARCHIVED,)))
        elif action in ("archive", "delete"):
            app.notes.writer.delete(CALLER, id_, soft=action == "archive")
            ids[:] = [kept for kept in ids if kept != id_ or action == "archive"]
        else:
            getattr(app.notes.writer, action)(CALLER, id_, other, bidirectional=False)
    except AppError:
        pass  # a refusal must leave everything in agreement, too


def check(tx: Read) -> None:
    indexed = tx.texts(TABLES.words).numbers
    for what, query in AGREES.items():
        assert tx.all(query.replace("INDEXED", indexed)) == [], what
    if isinstance(tx, SqliteRead):
        assert tx.all("PRAGMA foreign_key_check") == []
