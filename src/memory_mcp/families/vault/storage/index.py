"""The full-text index and tags: kept up to date, also when other programs write to the file."""

import unicodedata

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.vault.model import MemoryScope, NewMemory
from memory_mcp.families.vault.storage.expressions import SCOPES, SPEC_TEXTS, WORDS, parse_tags, to_json
from memory_mcp.services.search import fts_query


def add_to_index(tx: Write, id_: int, memory: NewMemory) -> None:
    """Make a memory findable by its words and tags, in the transaction that writes it."""
    scope = memory.scope
    spec_texts, words = tx.texts(SPEC_TEXTS[scope]), tx.texts(WORDS[scope])
    spec_texts.delete(id_)
    spec_texts.insert(id_, {"key": memory.key, "content": memory.content, "tags": to_json(memory.tags)})
    words.delete(id_)
    words.insert(
        id_,
        {
            "key": fts_query.spaced(memory.key),
            "content": fts_query.spaced(memory.content),
            "tags": fts_query.spaced(" ".join(memory.tags)),
            "parts": fts_query.word_parts(f"{memory.key} {memory.content}"),
        },
    )
    tx.all(f"DELETE FROM {scope}_tags WHERE memory_id = :id", {"id": id_})
    tx.all(
        f"INSERT INTO {scope}_tags (tag, memory_id) SELECT value, :id FROM json_each(:tags)",
        {"id": id_, "tags": to_json(memory.tags)},
    )


def index_written(tx: Write, id_: int, memory: NewMemory) -> None:
    """Index a memory that this transaction wrote: the mark that its triggers left is removed."""
    add_to_index(tx, id_, memory)
    if tx.is_file:
        tx.all(f"DELETE FROM {memory.scope}_unindexed WHERE memory_id = :id", {"id": id_})


def has_changes(tx: Read) -> bool:
    """Whether another program wrote to the spec's tables, and the index does not show it yet."""
    return tx.is_file and bool(
        tx.all("SELECT 1 FROM vault_unindexed UNION ALL SELECT 1 FROM session_unindexed LIMIT 1")
    )


def index_changes(tx: Write) -> None:
    """Bring words, tags and vectors up to date with the memories that the triggers have recorded."""
    for scope in SCOPES if tx.is_file else ():
        if tx.one(f"SELECT 1 FROM {scope}_unindexed LIMIT 1"):
            _drop_changed(tx, scope)
            _index_changed(tx, scope)
            tx.all(f"DELETE FROM {scope}_unindexed")


def _drop_changed(tx: Write, scope: MemoryScope) -> None:
    changed = f"(SELECT memory_id FROM {scope}_unindexed)"
    tx.all(f"DELETE FROM {scope}_words WHERE rowid IN {changed}")
    tx.all(f"DELETE FROM {scope}_tags WHERE memory_id IN {changed}")
    gone = f"memory_id IN {changed} AND memory_id NOT IN (SELECT id FROM {scope}_memories)"
    if scope == "session":
        tx.all(f"DELETE FROM session_updates WHERE {gone}")
    else:  # a row that was replaced fired no trigger: processes that follow the vectors learn of it by a new number
        for (id_,) in tx.all(f"DELETE FROM vector_changes WHERE {gone} RETURNING memory_id"):
            tx.all("INSERT INTO vector_changes (memory_id) VALUES (:id)", {"id": id_})


def _index_changed(tx: Write, scope: MemoryScope) -> None:
    """Index the changed memories that still exist. Text that is not in UTF-8 or not in NFC is corrected."""
    for id_, types, *raw in tx.all(
        f"""
        SELECT id, typeof(key) || typeof(content) || typeof(tags),
            CAST(key AS BLOB), CAST(content AS BLOB), CAST(tags AS BLOB) FROM {scope}_memories
        WHERE id IN (SELECT memory_id FROM {scope}_unindexed)
        """
    ):
        key, content, tags = (unicodedata.normalize("NFC", part.decode(errors="replace")) for part in raw)
        memory = NewMemory(scope, key, content, tuple(dict.fromkeys(parse_tags(tags))))
        if types != "texttexttext" or raw != [key.encode(), content.encode(), to_json(memory.tags).encode()]:
            # A key that another memory has once it is normalised stays as it was.
            tx.all(
                f"UPDATE OR IGNORE {scope}_memories SET key = :key, content = :content, tags = :tags WHERE id = :id",
                {"id": id_, "key": key, "content": content, "tags": to_json(memory.tags)},
            )
        add_to_index(tx, id_, memory)


def repair_index(tx: Write) -> None:
    """Compare the index with the memories, and index what differs."""
    for scope in SCOPES:
        if tx.number(f"SELECT count(*) FROM {scope}_fts_docsize") != tx.number(
            f"SELECT count(*) FROM {scope}_memories"
        ):
            tx.all(f"INSERT INTO {scope}_fts ({scope}_fts) VALUES ('rebuild')")
        tx.all(
            f"""
            INSERT INTO {scope}_unindexed
            SELECT id FROM {scope}_memories WHERE id NOT IN (SELECT id FROM {scope}_words_docsize)
            UNION ALL
            SELECT id FROM {scope}_words_docsize WHERE id NOT IN (SELECT id FROM {scope}_memories)
            """
        )
    index_changes(tx)


def index_all(tx: Write) -> None:
    """Index everything in PostgreSQL, where all indexes are empty."""
    for scope in SCOPES:
        for id_, key, content, tags in tx.all(f"SELECT id, key, content, tags FROM {scope}_memories ORDER BY id"):
            add_to_index(tx, id_, NewMemory(scope, key, content, tuple(dict.fromkeys(parse_tags(tags)))))


def is_indexed(tx: Read) -> bool:
    """Whether the indexes hold every memory, and nothing else."""
    if not tx.is_file:
        return all(
            tx.texts(table).documents() == tx.number(f"SELECT count(*) FROM {scope}_memories")
            for scope in SCOPES
            for table in (SPEC_TEXTS[scope], WORDS[scope])
        )
    counts = (
        {
            tx.number(f"SELECT count(*) FROM {table}")
            for table in (f"{scope}_memories", f"{scope}_words_docsize", f"{scope}_fts_docsize")
        }
        for scope in SCOPES
    )
    return not has_changes(tx) and all(len(different) == 1 for different in counts)
