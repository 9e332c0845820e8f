"""The format of @modelcontextprotocol/server-memory: one JSON object a line, entities first, then relations."""

import json
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.graph.model import Entity, NewEntity, Relation, Tie


def lines(items: Iterable[Entity | Relation]) -> Iterator[str]:
    """A graph as that server writes it, line by line."""
    for item in items:
        if isinstance(item, Entity):
            yield _line(type="entity", name=item.name, entityType=item.entity_type, observations=item.observations)
        else:
            ends = {"from": item.source, "to": item.target}
            yield _line(type="relation", **ends, relationType=item.relation_type)


def parse(text: str) -> tuple[list[NewEntity], list[Tie]]:
    """Entities and relations out of such a file, without empty observations, which say nothing.

    Raises Invalid naming the line that is neither or does not fit, and what is wrong with it.
    """
    entities, ties = [], []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if found["type"] == "entity":
                entities.append(_entity(found))
            elif found["type"] == "relation":
                ties.append(_tie(found))
            else:
                raise KeyError(found["type"])  # noqa: TRY301  # as good as none
        except Invalid as exc:
            raise Invalid(f"Line {number}: {exc.message} Nothing was taken in.") from exc
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise Invalid(
                f"Line {number} is neither an entity nor a relation of server-memory's format. Nothing was taken in."
            ) from exc
    return entities, ties


def _entity(found: dict[str, Any]) -> NewEntity:
    observations = found.get("observations", [])
    if not isinstance(observations, list):
        raise TypeError
    contents = tuple(_text("an observation", content, 1024 * 1024) for content in observations if content != "")
    return NewEntity(_text("the name", found["name"], 512), _text("the entityType", found["entityType"], 128), contents)


def _tie(found: dict[str, Any]) -> Tie:
    source, target = (_text(f"`{end}`", found[end], 512) for end in ("from", "to"))
    return Tie(source, target, _text("the relationType", found["relationType"], 128))


def _text(what: str, value: Any, most: int) -> str:
    """As the tools take it: not empty, not too long, in NFC, without halves of surrogate pairs."""
    if not isinstance(value, str):
        raise TypeError
    text = unicodedata.normalize("NFC", value)
    if not text:
        raise Invalid(f"{what} is empty.")
    if len(text) > most:
        raise Invalid(f"{what} has {len(text):,} characters, and {most:,} are the most.")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Invalid(f"{what} has half of a character (a lone surrogate).") from exc
    return text


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
