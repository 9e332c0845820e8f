"""SQL for the notes' search index: the table names for search_index, and additions for notes."""

import json
from collections.abc import Sequence

from memory_mcp.engines.texts import WordTable
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.model import Tag
from memory_mcp.families.notes.storage import ranking_facts
from memory_mcp.families.notes.storage.notes import StoredNote, inside
from memory_mcp.services.search_index import EmbedText, Tables
from memory_mcp.services.search_index.storage import words
from memory_mcp.services.search_index.storage.queue import EmbedQueue
from memory_mcp.services.search_index.storage.vectors import VectorTable
from memory_mcp.services.search_index.tables import CONTEXT_COLUMN, OWN_COLUMNS

TABLES = Tables(
    texts="notes",
    words=WordTable("notes_words", (*OWN_COLUMNS, CONTEXT_COLUMN)),
    vectors="note_vectors",
    owner="note_seq",
    queue_owner="note_id",
    live="archived = 0",
    before="earlier.seq = later.previous AND earlier.expires_at IS NULL",
    facts=ranking_facts.COLUMNS,
)
QUEUE = EmbedQueue(TABLES)
VECTORS = VectorTable(TABLES)
MAX_CONTEXT_CHARS = 2000  # of the note before, indexed with a note


# Words


def index_words(tx: Write, seq: int) -> None:
    """Index the words of a note again; those of an archived note are removed."""
    tx.texts(TABLES.words).delete(seq)
    insert_words(tx, seq)


def insert_words(tx: Write, seq: int) -> None:
    """Index the words of a note that is not in the index, unless it is archived."""
    row = tx.one(
        """
        SELECT CASE note.has_own_title WHEN 1 THEN note.title ELSE '' END, note.content,
            (SELECT string_agg(tag, ' ') FROM note_tags WHERE note_seq = note.seq AND origin = 'user'),
            coalesce(before.content, '')
        FROM notes AS note LEFT JOIN notes AS before ON before.seq = note.previous AND before.expires_at IS NULL
        WHERE note.seq = :seq AND note.archived = 0
        """,
        {"seq": seq},
    )
    if row is not None:
        title, content, tags, context = row
        _insert_words(tx, seq, title, content, tags or "", context)


def insert_new_words(tx: Write, stored: StoredNote, tags: Sequence[Tag]) -> None:
    """The same for a note that was just inserted, whose text need not be read again."""
    before = (
        tx.one("SELECT content FROM notes WHERE seq = :seq AND expires_at IS NULL", {"seq": stored.previous})
        if stored.previous is not None
        else None
    )
    own_tags = " ".join(tag.name for tag in tags if tag.origin == "user")
    _insert_words(tx, stored.seq, stored.own_title, stored.note.content, own_tags, before[0] if before else "")


def _insert_words(tx: Write, seq: int, title: str, content: str, tags: str, context: str) -> None:
    words.insert(tx, TABLES, seq, title=title, content=content, tags=tags, context=context[-MAX_CONTEXT_CHARS:])


def is_indexed(tx: Read) -> bool:
    live = "SELECT seq FROM notes WHERE archived = 0"
    indexed = tx.texts(TABLES.words)
    return (
        indexed.documents()
        == tx.number(f"SELECT count(*) FROM ({indexed.numbers}) AS indexed WHERE number IN ({live})")
        == tx.number("SELECT count(*) FROM notes WHERE archived = 0")
    )


def index_all_words(tx: Write) -> None:
    for (seq,) in tx.all("SELECT seq FROM notes WHERE archived = 0 ORDER BY seq"):
        insert_words(tx, seq)


# Vectors


def texts_to_embed(tx: Read, seqs: Sequence[int]) -> dict[int, EmbedText]:
    rows = tx.all(
        """
        SELECT seq, CASE has_own_title WHEN 1 THEN title ELSE '' END, content FROM notes
        WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        """,
        {"seqs": json.dumps(list(seqs))},
    )
    return {seq: EmbedText(title, content) for seq, title, content in rows}


def is_waiting(tx: Read, within: str | None) -> bool:
    """Whether any note that the caller may see waits for its vectors."""
    row = tx.one(
        f"SELECT 1 FROM embed_queue JOIN notes ON notes.seq = note_id WHERE {inside(within)} LIMIT 1",
        {"within": within},
    )
    return row is not None


def count_waiting(tx: Read, within: str | None = None) -> int:
    if within is None:
        return tx.number("SELECT waiting FROM vector_counts")
    return tx.number(
        "SELECT count(*) FROM embed_queue JOIN notes ON notes.seq = note_id WHERE namespace = :within",
        {"within": within},
    )


def count_embedded(tx: Read, within: str | None = None) -> int:
    if within is None:
        return tx.number("SELECT embedded FROM vector_counts")
    return tx.number(
        """
        SELECT count(*) FROM notes JOIN note_vectors ON note_seq = seq AND part = 0
        WHERE archived = 0 AND namespace = :within
        """,
        {"within": within},
    )
