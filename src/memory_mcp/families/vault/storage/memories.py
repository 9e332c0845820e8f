"""Memories: written, deleted, read."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from memory_mcp.clock import stamp
from memory_mcp.engines.transactions import Packed, Read, Write
from memory_mcp.families.vault.model import Memory, MemoryHit, MemoryScope, NewMemory, PruneFilter, Range
from memory_mcp.families.vault.storage.expressions import (
    OWN_ROWS,
    packed,
    parse_tags,
    tag_values,
    tagged,
    to_json,
    where,
)
from memory_mcp.families.vault.storage.index import index_changes, index_written

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def upsert(tx: Write, session_id: str, memory: NewMemory, *, exists: bool | None = None) -> bool:
    """True if the key is new; `exists` is given by callers who know.

    Keeps id and created_at of an existing row, so the full-text triggers see an update."""
    values = {
        "session_id": session_id,
        "key": memory.key,
        "content": memory.content,
        "tags": to_json(memory.tags),
        "embedding": None if memory.embedding is None else packed(memory.embedding),
        "now": tx.stamp,
    }
    is_new = _id_of(tx, memory.scope, values) is None if exists is None else not exists
    id_ = _upsert_vault(tx, values) if memory.scope == "vault" else _upsert_session(tx, values)
    index_written(tx, id_, memory)
    if not is_new and memory.scope == "session":
        tx.all(
            """
            INSERT INTO session_updates (memory_id, updated_at) VALUES (:id, :now)
            ON CONFLICT (memory_id) DO UPDATE SET updated_at = excluded.updated_at
            """,
            values | {"id": id_},
        )
    return is_new


def _id_of(tx: Read, scope: MemoryScope, values: dict[str, Any]) -> int | None:
    row = tx.one(f"SELECT id FROM {scope}_memories WHERE {OWN_ROWS[scope]} AND key = :key", values)
    return row[0] if row else None


def _upsert_vault(tx: Write, values: dict[str, Any]) -> int:
    # A vector describes the content it came with: new content without one has none.
    return tx.number(
        """
        INSERT INTO vault_memories (key, content, tags, embedding, created_at, updated_at)
        VALUES (:key, :content, :tags, :embedding, :now, :now)
        ON CONFLICT (key) DO UPDATE SET
            content = excluded.content,
            tags = excluded.tags,
            embedding = CASE
                WHEN excluded.embedding IS NOT NULL THEN excluded.embedding
                WHEN excluded.content = vault_memories.content THEN vault_memories.embedding
            END,
            updated_at = excluded.updated_at
        RETURNING id
        """,
        values,
    )


def _upsert_session(tx: Write, values: dict[str, Any]) -> int:
    return tx.number(
        """
        INSERT INTO session_memories (session_id, key, content, tags, created_at)
        VALUES (:session_id, :key, :content, :tags, :now)
        ON CONFLICT (session_id, key) DO UPDATE SET content = excluded.content, tags = excluded.tags
        RETURNING id
        """,
        values,
    )


def prune(tx: Write, scope: MemoryScope, session_id: str, wanted: PruneFilter) -> list[str]:
    """Delete what matches every filter, in the index too, and return the keys."""
    index_changes(tx)  # the filter by tags must see the writes of other programs
    rows = tx.all(
        f"DELETE FROM {scope}_memories WHERE {_prunable(scope, wanted)} RETURNING key",
        _prune_values(wanted) | {"session_id": session_id},
    )
    index_changes(tx)
    return [key for (key,) in rows]


def matching(tx: Write, wanted: PruneFilter) -> list[tuple[Memory, bytes | None]]:
    """The memories of the vault that match every filter, each with its vector."""
    index_changes(tx)
    rows = tx.all(
        f"""
        SELECT key, content, tags, created_at, updated_at, embedding FROM vault_memories
        WHERE {_prunable("vault", wanted)} ORDER BY id
        """,
        _prune_values(wanted),
    )
    return [(_memory("vault", *fields), vector) for *fields, vector in rows]


def _prunable(scope: MemoryScope, wanted: PruneFilter) -> str:
    conditions = [OWN_ROWS[scope], tagged(scope, wanted.tags)]
    if wanted.key is not None:
        conditions.append("key = :key")
    if wanted.older_than is not None:
        conditions.append("created_at < :older_than")
    return " AND ".join(conditions)


def _prune_values(wanted: PruneFilter) -> dict[str, Any]:
    return {"key": wanted.key, "older_than": wanted.older_than, **tag_values(wanted.tags)}


def count(tx: Read, scope: MemoryScope, session_id: str, tags: Sequence[str]) -> int:
    return tx.number(
        f"SELECT count(*) FROM {scope}_memories {where(scope, tags)}", {"session_id": session_id, **tag_values(tags)}
    )


def equal_to(
    tx: Read, text: str, scope: MemoryScope, session_id: str, tags: Sequence[str], among: Sequence[int]
) -> set[int]:
    """The memories whose key is the text, and those `among` the given ids whose content is."""
    rows = tx.all(
        f"""
        SELECT id FROM {scope}_memories WHERE {OWN_ROWS[scope]} AND key = :text AND {tagged(scope, tags)}
        UNION ALL
        SELECT id FROM {scope}_memories
        WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:among)) AND content = :text
        """,
        {"text": text, "session_id": session_id, "among": to_json(among), **tag_values(tags)},
    )
    return {id_ for (id_,) in rows}


def newest(tx: Read, scope: MemoryScope, session_id: str, tags: Sequence[str], limit: int) -> list[tuple[str, int]]:
    """(when it was last written, id) of the memories last written."""
    return tx.all(
        f"""
        SELECT {_updated_at(scope)} AS updated, memory.id
        FROM {_with_updates(scope)} {where(scope, tags, "memory.id")}
        ORDER BY updated DESC, memory.id DESC LIMIT :limit
        """,
        {"session_id": session_id, "limit": limit, **tag_values(tags)},
    )


def hits(tx: Read, scope: MemoryScope, relevances: Mapping[int, float]) -> dict[int, MemoryHit]:
    """The memories with these ids as a search answers with them, by id."""
    rows = tx.all(
        f"""
        SELECT id, key, content, tags, created_at, {_updated_at(scope)}
        FROM {_with_updates(scope)} WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
        """,
        {"ids": to_json(list(relevances))},
    )
    return {
        id_: MemoryHit(key, content, parse_tags(tags), scope, round(relevances[id_], 6), *times)
        for id_, key, content, tags, *times in rows
    }


def ids_with_tags(tx: Read, tags: Sequence[str]) -> set[int]:
    rows = tx.all(f"SELECT id FROM vault_memories {where('vault', tags)}", tag_values(tags))
    return {id_ for (id_,) in rows}


def changed_vectors(tx: Read, after: int) -> Iterator[tuple[int, int, bytes | None]]:
    """(seq, memory id, vector) of what changed after `after`, one by one; no vector for what was removed."""
    return tx.each(
        """
        SELECT change.seq, change.memory_id, memory.embedding
        FROM vector_changes AS change LEFT JOIN vault_memories AS memory ON memory.id = change.memory_id
        WHERE change.seq > :after ORDER BY change.seq
        """,
        {"after": after},
    )


def get(tx: Read, key: str) -> Memory | None:
    rows = tx.all(
        "SELECT key, content, tags, created_at, updated_at FROM vault_memories WHERE key = :key", {"key": key}
    )
    return _memory("vault", *rows[0]) if rows else None


def cosines(tx: Read, query: Packed) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
    """The ids of all memories with a vector, in order, and the cosine of each with a unit vector. For an engine that
    multiplies vectors."""
    return tx.cosines(
        "SELECT id, l2_normalize(embedding) FROM vault_memories WHERE embedding IS NOT NULL ORDER BY id", {}, query
    )


def get_with_vector(tx: Read, key: str) -> tuple[Memory, bytes | None] | None:
    rows = tx.all(
        "SELECT key, content, tags, created_at, updated_at, embedding FROM vault_memories WHERE key = :key",
        {"key": key},
    )
    return next(((_memory("vault", *fields), vector) for *fields, vector in rows), None)


def last_written(tx: Read, limit: int) -> list[tuple[str, str]]:
    """(key, when) of the memories last written for good."""
    return tx.all(
        "SELECT key, updated_at FROM vault_memories ORDER BY updated_at DESC, id DESC LIMIT :limit", {"limit": limit}
    )


def versions(tx: Read) -> dict[str, str]:
    """By key, a value that changes whenever the memory does."""
    # Times are to the second: a memory written in this second may change again within it, so its content counts.
    rows = tx.all(
        """
        SELECT key, id || ' ' || updated_at
            || CASE WHEN updated_at BETWEEN :now AND :soon THEN ' ' || tags || ' ' || content ELSE '' END
        FROM vault_memories
        """,
        {"now": tx.stamp, "soon": stamp(tx.now + timedelta(minutes=1))},
    )
    return dict(rows)


def page(tx: Read, scope: MemoryScope, session_id: str, wanted: Range) -> list[Memory]:
    """Memories in the order they were first written."""
    rows = tx.all(
        f"""
        SELECT key, content, tags, created_at, {_updated_at(scope)}
        FROM {_with_updates(scope)}
        WHERE {OWN_ROWS[scope]} ORDER BY memory.id LIMIT :limit OFFSET :offset
        """,
        {"session_id": session_id, "limit": wanted.limit, "offset": wanted.offset},
    )
    return [_memory(scope, *row) for row in rows]


def keys_after(tx: Read, id_: int, limit: int) -> list[tuple[int, str]]:
    return tx.all(
        "SELECT id, key FROM vault_memories WHERE id > :id ORDER BY id LIMIT :limit",
        {"id": id_, "limit": limit},
    )


def keys_starting(tx: Read, prefix: str, limit: int) -> list[str]:
    rows = tx.all(
        "SELECT key FROM vault_memories WHERE key >= :prefix AND key < :after ORDER BY key LIMIT :limit",
        {"prefix": prefix, "after": prefix + chr(0x10FFFF), "limit": limit},
    )
    return [key for (key,) in rows]


def everything(tx: Read) -> Iterator[tuple[Memory, bytes | None]]:
    """Every memory of the vault with its vector, in the order they were first written."""
    rows = tx.each("SELECT key, content, tags, created_at, updated_at, embedding FROM vault_memories ORDER BY id")
    return ((_memory("vault", *fields), embedding) for *fields, embedding in rows)


def add(tx: Write, memory: NewMemory, created_at: str, updated_at: str) -> bool:
    """Add a memory with its times. False, and nothing is changed, if its key is taken."""
    rows = tx.all(
        """
        INSERT INTO vault_memories (key, content, tags, embedding, created_at, updated_at)
        VALUES (:key, :content, :tags, :embedding, :created_at, :updated_at) ON CONFLICT (key) DO NOTHING RETURNING id
        """,
        {
            "key": memory.key,
            "content": memory.content,
            "tags": to_json(memory.tags),
            "embedding": None if memory.embedding is None else packed(memory.embedding),
            "created_at": created_at,
            "updated_at": updated_at,
        },
    )
    if rows:
        index_written(tx, rows[0][0], memory)
    return bool(rows)


def _with_updates(scope: MemoryScope) -> str:
    if scope == "vault":
        return "vault_memories AS memory"
    return "session_memories AS memory LEFT JOIN session_updates AS later ON later.memory_id = memory.id"


def _updated_at(scope: MemoryScope) -> str:
    return "updated_at" if scope == "vault" else "coalesce(later.updated_at, created_at)"


def _memory(scope: MemoryScope, key: str, content: str, tags: str, created_at: str, updated_at: str) -> Memory:
    return Memory(key, content, parse_tags(tags), scope, created_at, updated_at)
