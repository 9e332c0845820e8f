"""The format of @modelcontextprotocol/server-memory: one JSON object a line, entities first, then relations."""

import codecs
import json
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.families.graph.model import Entity, NamedRelation, NewEntity, Relation


def lines(items: Iterable[Entity | Relation]) -> Iterator[str]:
    """A graph as that server writes it, line by line."""
    for item in items:
        if isinstance(item, Entity):
            yield _line(type="entity", name=item.name, entityType=item.entity_type, observations=item.observations)
        else:
            ends = {"from": item.source, "to": item.target}
            yield _line(type="relation", **ends, relationType=item.relation_type)


def read(lines: Iterable[bytes]) -> Iterator[tuple[int, NewEntity | NamedRelation | Invalid]]:
    """The content of each line of such a file, by its number: an entity, a relation, or why it is neither.

    Empty lines and empty observations are skipped.
    """
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.strip():
            try:
                yield number, _record(text)
            except Invalid as exc:
                yield number, exc


def _record(line: bytes) -> NewEntity | NamedRelation:
    try:
        found = json.loads(line.decode())
        if found["type"] == "entity":
            return _entity(found)
        if found["type"] == "relation":
            return _relation(found)
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise _unknown_record() from exc
    raise _unknown_record()


def _unknown_record() -> Invalid:
    return Invalid("It is neither an entity nor a relation of server-memory's format.")


def _entity(found: dict[str, Any]) -> NewEntity:
    observations = found.get("observations", [])
    if not isinstance(observations, list):
        raise TypeError
    contents = tuple(_text("an observation", content, 1024 * 1024) for content in observations if content != "")
    return NewEntity(_text("the name", found["name"], 512), _text("the entityType", found["entityType"], 128), contents)


def _relation(found: dict[str, Any]) -> NamedRelation:
    source, target = (_text(f"`{end}`", found[end], 512) for end in ("from", "to"))
    return NamedRelation(source, target, _text("the relationType", found["relationType"], 128))


def _text(what: str, value: Any, max_chars: int) -> str:
    """A text as the tools accept it: not empty, not too long, in NFC, without halves of surrogate pairs."""
    if not isinstance(value, str):
        raise TypeError
    text = unicodedata.normalize("NFC", value)
    if not text:
        raise Invalid(f"{what} is empty.")
    if len(text) > max_chars:
        raise Invalid(f"{what} has {len(text):,} characters, and the limit is {max_chars:,}.")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Invalid(f"{what} has half of a character (a lone surrogate).") from exc
    return text


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
