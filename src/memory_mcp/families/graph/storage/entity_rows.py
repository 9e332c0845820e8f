"""Entities and their observations."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.graph.model import (
    Entity,
    Facts,
    NewEntity,
    Observation,
)
from memory_mcp.families.graph.storage.expressions import ALL_ROWS, to_json, utc
from memory_mcp.families.graph.storage.index import add_words
from memory_mcp.families.graph.storage.rows import active_below, row_write, row_writes
from memory_mcp.families.graph.storage.word_index import ENTITY_TEXTS, OBSERVATION_TEXTS
from memory_mcp.services.write_journal import ItemWrite


def add_entity(tx: Write, new: NewEntity) -> Entity | None:
    """None if an active entity has this name."""
    id_ = str(uuid4())
    rows = tx.all(
        """
        INSERT INTO entities (id, name, entity_type, created_at, updated_at)
        VALUES (:id, :name, :type, :now, :now) ON CONFLICT DO NOTHING RETURNING rowid
        """,
        {"id": id_, "name": new.name, "type": new.entity_type, "now": tx.stamp},
    )
    if not rows:
        return None
    tx.texts(ENTITY_TEXTS).insert(rows[0][0], {"name": new.name, "entity_type": new.entity_type})
    add_words(tx, id_, None, name=new.name, entity_type=new.entity_type)
    added = [content for content in new.observations if add_observation(tx, id_, new.name, content)]
    return Entity(id_, new.name, new.entity_type, added, tx.stamp, tx.stamp)


def add_observation(tx: Write, entity_id: str, entity_name: str, content: str) -> Observation | None:
    """None if the entity has this observation."""
    id_ = str(uuid4())
    rows = tx.all(
        """
        INSERT INTO observations (id, entity_id, content, created_at)
        VALUES (:id, :entity, :content, :now) ON CONFLICT DO NOTHING RETURNING rowid
        """,
        {"id": id_, "entity": entity_id, "content": content, "now": tx.stamp},
    )
    if not rows:
        return None
    tx.texts(OBSERVATION_TEXTS).insert(rows[0][0], {"content": content})
    add_words(tx, entity_id, id_, content=content)
    return Observation(id_, entity_name, content, tx.stamp)


def new_writes(tx: Read, entity_ids: Sequence[str]) -> list[ItemWrite]:
    """New entities and their observations, for the journal."""
    rows = tx.all(
        "SELECT id FROM observations WHERE entity_id IN (SELECT value FROM json_each(:ids)) ORDER BY rowid",
        {"ids": to_json(list(entity_ids))},
    )
    observations = row_writes("observation", (id_ for (id_,) in rows), "created")
    return [*row_writes("entity", entity_ids, "created"), *observations]


def lacking(tx: Read, entity_id: str, contents: Iterable[str]) -> list[str]:
    """Which of these observations an entity does not have, each once, in the order given."""
    rows = tx.all(
        """
        SELECT value FROM json_each(:contents) WHERE value NOT IN (
            SELECT content FROM observations WHERE entity_id = :entity AND deleted_at IS NULL
        ) GROUP BY value ORDER BY min(key)
        """,
        {"entity": entity_id, "contents": to_json(list(contents))},
    )
    return [content for (content,) in rows]


def touch(tx: Write, entity_ids: Iterable[str]) -> None:
    """Set the time of change of these entities to now."""
    tx.all(
        "UPDATE entities SET updated_at = :now WHERE id IN (SELECT value FROM json_each(:ids)) AND updated_at <> :now",
        {"ids": to_json(list(entity_ids)), "now": tx.stamp},
    )


def ids_of(tx: Read, names: Iterable[str]) -> dict[str, str]:
    """The ids of the active entities with these names, by name."""
    rows = tx.all(
        """
        SELECT entity.name, entity.id FROM json_each(:names) AS wanted
        JOIN entities AS entity ON entity.name = wanted.value AND entity.deleted_at IS NULL
        """,
        {"names": to_json(list(names))},
    )
    return dict(rows)


def delete_entities(tx: Write, ids: Iterable[str]) -> list[ItemWrite]:
    """Mark entities as deleted, with their observations and relations. Returns all that is deleted."""
    wanted = list(ids)
    below = {(kind, id_): None for kind, id_, _ in active_below(tx, wanted)}
    values = {"ids": to_json(wanted), "now": tx.stamp}
    chosen = "(SELECT value FROM json_each(:ids))"
    tx.all(f"UPDATE entities SET deleted_at = :now, updated_at = :now WHERE id IN {chosen}", values)
    tx.all(f"UPDATE observations SET deleted_at = :now WHERE deleted_at IS NULL AND entity_id IN {chosen}", values)
    tx.all(f"UPDATE relations SET deleted_at = :now WHERE deleted_at IS NULL AND from_entity IN {chosen}", values)
    tx.all(f"UPDATE relations SET deleted_at = :now WHERE deleted_at IS NULL AND to_entity IN {chosen}", values)
    return [*(row_write(*one, "deleted") for one in below), *row_writes("entity", wanted, "deleted")]


def delete_observations(tx: Write, entity_id: str, facts: Facts) -> list[ItemWrite]:
    """Returns what is deleted."""
    rows = tx.all(
        """
        UPDATE observations SET deleted_at = :now
        WHERE deleted_at IS NULL AND entity_id = :entity AND content IN (SELECT value FROM json_each(:contents))
        RETURNING id
        """,
        {"entity": entity_id, "contents": to_json(list(facts.contents)), "now": tx.stamp},
    )
    return row_writes("observation", (id_ for (id_,) in rows), "deleted")


_ENTITY = f"entity.id, name, entity_type, {utc('created_at')}, {utc('updated_at')}"


def entities(tx: Read, ids: Sequence[str]) -> Iterator[Entity]:
    """These active entities without their observations, in the order given."""
    rows = tx.each(
        f"""
        SELECT {_ENTITY} FROM json_each(:ids) AS wanted CROSS JOIN entities AS entity ON entity.id = wanted.value
        WHERE deleted_at IS NULL ORDER BY wanted.key
        """,
        {"ids": to_json(list(ids))},
    )
    return map(_entity, rows)


def last_written(tx: Read, limit: int) -> list[tuple[str, str]]:
    """(name, when) of the active entities last written."""
    return tx.all(
        f"""
        SELECT name, {utc("updated_at")} AS updated FROM entities WHERE deleted_at IS NULL
        ORDER BY updated DESC, rowid DESC LIMIT :limit
        """,
        {"limit": limit},
    )


_WITH_DEGREE = """
    SELECT id, name, entity_type,
        (SELECT count(*) FROM relations WHERE deleted_at IS NULL AND from_entity = entity.id)
        + (SELECT count(*) FROM relations WHERE deleted_at IS NULL AND to_entity = entity.id) AS degree
    FROM entities AS entity WHERE deleted_at IS NULL
"""


def best_connected(tx: Read, limit: int) -> list[tuple[str, str, str, int]]:
    """(id, name, type, relations) of the active entities with most relations."""
    return tx.all(f"{_WITH_DEGREE} ORDER BY degree DESC, rowid LIMIT :limit", {"limit": limit})


def with_neighbors(tx: Read, id_: str, limit: int) -> list[tuple[str, str, str, int]]:
    """The same of one entity, which is the first, and of those that it has relations with."""
    return tx.all(
        f"""
        {_WITH_DEGREE} AND id IN (
            SELECT :id
            UNION SELECT to_entity FROM relations WHERE deleted_at IS NULL AND from_entity = :id
            UNION SELECT from_entity FROM relations WHERE deleted_at IS NULL AND to_entity = :id
        )
        ORDER BY CASE WHEN id = :id THEN 0 ELSE 1 END, degree DESC, rowid LIMIT :limit
        """,
        {"id": id_, "limit": limit},
    )


def entity_count(tx: Read) -> int:
    """How many active entities there are."""
    return tx.number("SELECT count(*) FROM entities WHERE deleted_at IS NULL")


def versions(tx: Read) -> dict[str, str]:
    """By the name of each active entity, a value that changes whenever it or its observations do."""
    rows = tx.all(
        """
        SELECT min(name), min(entity.id) || ' ' || min(entity_type) || ' ' || count(own.rowid)
            || ' ' || total(own.rowid) || ' ' || total(length(own.content))
        FROM entities AS entity
        LEFT JOIN observations AS own ON own.entity_id = entity.id AND own.deleted_at IS NULL
        WHERE entity.deleted_at IS NULL GROUP BY entity.rowid
        """
    )
    return dict(rows)


def entities_after(tx: Read, position: int) -> Iterator[tuple[int, Entity]]:
    """Active entities without their observations, each with its position, in the order they were created."""
    rows = tx.each(
        f"""
        SELECT rowid, {_ENTITY} FROM entities AS entity
        WHERE rowid > :position AND deleted_at IS NULL ORDER BY rowid
        """,
        {"position": position},
    )
    return ((position, _entity(row)) for position, *row in rows)


def _entity(row: Sequence[Any]) -> Entity:
    id_, name, kind, created, updated = row
    return Entity(id_, name, kind, [], created, updated)


def observations(tx: Read, entity_id: str, skip: int = 0) -> Iterator[str]:
    """The observations of an entity, the oldest first, after the first `skip`."""
    rows = tx.each(
        f"""
        SELECT content FROM observations WHERE entity_id = :entity AND deleted_at IS NULL
        ORDER BY {utc("created_at")}, rowid LIMIT {ALL_ROWS} OFFSET :skip
        """,
        {"entity": entity_id, "skip": skip},
    )
    return (content for (content,) in rows)
