"""Entities with their observations and relations, in the order they were created."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from memory_mcp.engines.transactions import Read
from memory_mcp.families.graph.model import (
    Entity,
    Relation,
)
from memory_mcp.families.graph.storage.entity_rows import _ENTITY
from memory_mcp.families.graph.storage.expressions import utc

MAX_INLINE_CHARS = 20_000  # characters of observations that are read at once
MAX_INLINE_RELATIONS = 50  # relations
_LIST = TypeAdapter(list[Any])  # twice as fast as `json.loads`


class PagedEntity(NamedTuple):
    """An entity, its position among all, and the relations that start at it, as they are read."""

    position: int
    id: str
    name: str
    entity_type: str
    observations: list[str]
    created_at: str
    updated_at: str
    relations: list[list[str]]
    size: int  # about how many bytes of JSON it all makes

    def entity(self, origin: str | None) -> Entity:
        return Entity(self.id, self.name, self.entity_type, self.observations, self.created_at, self.updated_at, origin)

    def relations_from(self) -> list[Relation]:
        return [Relation(id_, self.name, target, kind, at) for id_, target, kind, at in self.relations]


def paged_entities_after(tx: Read, position: int) -> Iterator[PagedEntity | None]:
    """Active entities with all their observations and relations, in the order they were created. None for one with
    many: they are read in pieces."""
    rows = tx.each(
        f"""
        SELECT rowid, {_ENTITY},
            CASE WHEN (
                SELECT coalesce(sum(length(content)), 0) FROM observations
                WHERE entity_id = entity.id AND deleted_at IS NULL
            ) <= {MAX_INLINE_CHARS} THEN (
                SELECT json_group_array(content ORDER BY {utc("created_at")}, rowid) FROM observations
                WHERE entity_id = entity.id AND deleted_at IS NULL
            ) END,
            CASE WHEN (
                SELECT count(*) FROM relations WHERE from_entity = entity.id AND deleted_at IS NULL
            ) <= {MAX_INLINE_RELATIONS} THEN (
                SELECT json_group_array(
                    json_array(relation.id, target.name, relation.relation_type, {utc("relation.created_at")})
                    ORDER BY relation.rowid
                ) FROM relations AS relation JOIN entities AS target ON target.id = relation.to_entity
                WHERE relation.from_entity = entity.id AND relation.deleted_at IS NULL
            ) END
        FROM entities AS entity WHERE rowid > :position AND deleted_at IS NULL ORDER BY rowid
        """,
        {"position": position},
    )
    return map(_paged_entity, rows)


def _paged_entity(row: Sequence[Any]) -> PagedEntity | None:
    position, id_, name, kind, created, updated, observed, related = row
    if observed is None or related is None:
        return None
    relations = _LIST.validate_json(related)
    length = len(name.encode())
    size = 200 + length + len(kind) + len(observed.encode()) + len(related.encode()) + len(relations) * (60 + length)
    return PagedEntity(position, id_, name, kind, _LIST.validate_json(observed), created, updated, relations, size)
