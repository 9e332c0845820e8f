"""The format of @modelcontextprotocol/server-memory: one JSON object a line, entities first, then relations."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.graph.model import NewEntity, Nodes, Tie


def lines(pages: Iterable[Nodes]) -> Iterator[str]:
    """A whole graph, page by page, as that server writes it."""
    relations = []
    for page in pages:
        for entity in page.entities:
            yield _line(
                type="entity", name=entity.name, entityType=entity.entity_type, observations=entity.observations
            )
        relations += page.relations
    for relation in relations:
        yield _line(
            type="relation",
            **{"from": relation.source, "to": relation.target, "relationType": relation.relation_type},
        )


def parse(text: Iterable[str]) -> tuple[list[NewEntity], list[Tie]]:
    """Entities and relations out of such a file. Raises Invalid naming the line that is neither."""
    entities, ties = [], []
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if found["type"] == "entity":
                entities.append(_entity(found))
            else:
                ties.append(Tie(*(_text(found[name]) for name in ("from", "to", "relationType"))))
        except (ValueError, KeyError, TypeError) as exc:
            raise Invalid(f"Line {number} is neither an entity nor a relation of server-memory's format.") from exc
    return entities, ties


def _entity(found: dict[str, Any]) -> NewEntity:
    observations = tuple(_text(content) for content in found.get("observations", []))
    return NewEntity(_text(found["name"]), _text(found["entityType"]), observations)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
