"""Relations between entities."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.graph.model import (
    NamedRelation,
    Relation,
)
from memory_mcp.families.graph.storage.expressions import to_json, utc
from memory_mcp.families.graph.storage.rows import row_writes
from memory_mcp.services.write_journal import ItemWrite


def add_relation(tx: Write, source_id: str, target_id: str, named: NamedRelation) -> Relation | None:
    """None if it exists."""
    id_ = str(uuid4())
    rows = tx.all(
        """
        INSERT INTO relations (id, from_entity, to_entity, relation_type, created_at)
        VALUES (:id, :source, :target, :type, :now) ON CONFLICT DO NOTHING RETURNING 1
        """,
        {"id": id_, "source": source_id, "target": target_id, "type": named.relation_type, "now": tx.stamp},
    )
    return Relation(id_, named.source, named.target, named.relation_type, tx.stamp) if rows else None


def delete_relation(tx: Write, source_id: str, target_id: str, relation_type: str) -> list[ItemWrite]:
    """Returns what is deleted."""
    rows = tx.all(
        """
        UPDATE relations SET deleted_at = :now
        WHERE deleted_at IS NULL AND from_entity = :source AND to_entity = :target AND relation_type = :type
        RETURNING id
        """,
        {"source": source_id, "target": target_id, "type": relation_type, "now": tx.stamp},
    )
    return row_writes("relation", (id_ for (id_,) in rows), "deleted")


def relations_among(tx: Read, ids: Sequence[str], limit: int) -> list[tuple[str, str, str]]:
    """(from, to, type) of active relations between these entities."""
    return tx.all(
        """
        SELECT source.name, target.name, relation_type FROM json_each(:ids) AS wanted
        CROSS JOIN relations AS relation ON relation.from_entity = wanted.value AND relation.deleted_at IS NULL
        JOIN entities AS source ON source.id = relation.from_entity
        JOIN entities AS target ON target.id = relation.to_entity
        WHERE relation.to_entity IN (SELECT value FROM json_each(:ids)) LIMIT :limit
        """,
        {"ids": to_json(list(ids)), "limit": limit},
    )


def relations(tx: Read) -> Iterator[Relation]:
    """All active relations, the oldest first."""
    return _relations(tx.each(f"SELECT {_RELATION} WHERE relation.deleted_at IS NULL ORDER BY relation.rowid"))


def relations_from(tx: Read, entity_id: str) -> Iterator[Relation]:
    """Active relations that start at an entity, the oldest first."""
    rows = tx.each(
        f"""
        SELECT {_RELATION} WHERE relation.deleted_at IS NULL AND relation.from_entity = :entity ORDER BY relation.rowid
        """,
        {"entity": entity_id},
    )
    return _relations(rows)


def relations_touching(tx: Read, ids: Sequence[str], skip: int, limit: int) -> Iterator[Relation]:
    """Active relations that start at one of these entities, the oldest first, then those that end at one."""
    rows = tx.each(
        f"""
        SELECT {_RELATION} WHERE relation.rowid IN (
            SELECT rowid FROM relations WHERE deleted_at IS NULL AND from_entity IN (SELECT value FROM json_each(:ids))
            UNION
            SELECT rowid FROM relations WHERE deleted_at IS NULL AND to_entity IN (SELECT value FROM json_each(:ids))
        ) ORDER BY relation.from_entity NOT IN (SELECT value FROM json_each(:ids)), relation.rowid
        LIMIT :limit OFFSET :skip
        """,
        {"ids": to_json(list(ids)), "skip": skip, "limit": limit},
    )
    return _relations(rows)


def _relations(rows: Iterator[Any]) -> Iterator[Relation]:
    return (Relation(*row) for row in rows)


_RELATION = f"""
    relation.id, source.name, target.name, relation.relation_type, {utc("relation.created_at")}
    FROM relations AS relation
    JOIN entities AS source ON source.id = relation.from_entity
    JOIN entities AS target ON target.id = relation.to_entity
"""
