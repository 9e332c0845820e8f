"""The format of @modelcontextprotocol/server-memory: one JSON object a line, entities first, then relations."""

import json
import unicodedata
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


def parse(text: str) -> tuple[list[NewEntity], list[Tie]]:
    """Entities and relations out of such a file. Raises Invalid naming the line that is neither."""
    entities, ties = [], []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if found["type"] == "entity":
                entities.append(_entity(found))
            elif found["type"] == "relation":
                ties.append(Tie(_name(found["from"]), _name(found["to"]), _kind(found["relationType"])))
            else:
                raise KeyError(found["type"])  # noqa: TRY301  # as good as none
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise Invalid(f"Line {number} is neither an entity nor a relation of server-memory's format.") from exc
    return entities, ties


def _entity(found: dict[str, Any]) -> NewEntity:
    observations = found.get("observations", [])
    if not isinstance(observations, list):
        raise TypeError
    contents = tuple(_text(content, 1024 * 1024) for content in observations)
    return NewEntity(_name(found["name"]), _kind(found["entityType"]), contents)


def _name(value: Any) -> str:
    return _text(value, 512)


def _kind(value: Any) -> str:
    return _text(value, 128)


def _text(value: Any, most: int) -> str:
    """As the tools take it: not empty, not too long, in NFC, without halves of surrogate pairs."""
    if not isinstance(value, str):
        raise TypeError
    text = unicodedata.normalize("NFC", value)
    if not 0 < len(text.encode()) <= most * 4 or len(text) > most:
        raise ValueError
    return text


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
