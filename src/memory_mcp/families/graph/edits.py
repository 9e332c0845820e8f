"""Editing and deleting entities by their references. The text of an entity is its observations, as a YAML list."""

from typing import Any

from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.families.family import Call
from memory_mcp.families.graph.model import Entity, NamedRelation, NewEntity, Relation, split_ref
from memory_mcp.families.graph.operations import Graph
from memory_mcp.families.references import Edits, SaveCopy, no_copy

HEADING = "# The observations of {name} ({type}), as a YAML list. Lines that start with # are not part of it.\n"
MAX_LINE_CHARS = 10**9  # an observation of one line stays one line


def _text(call: Call[Graph], ref: str) -> str:
    import yaml  # not needed at the start of a server

    entity, _ = call.operations.entity(call.caller, *split_ref(ref))
    name, type_ = (" ".join(text.split()) for text in (entity.name, entity.entity_type))
    shown: str = yaml.safe_dump(
        entity.observations, allow_unicode=True, default_flow_style=not entity.observations, width=MAX_LINE_CHARS
    )
    return HEADING.format(name=name, type=type_) + shown


def _observations(text: str) -> list[str]:
    import yaml

    try:
        found = yaml.safe_load(text) or []
    except yaml.YAMLError as exc:
        raise Invalid(f"The text is not valid YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
        raise Invalid("The text is not a list of observations. Put a text with quotes that reads as a number or a map.")
    return list(dict.fromkeys(found))


def _write(call: Call[Graph], ref: str, was: str, text: str) -> None:
    call.operations.revise_entity(call.caller, *split_ref(ref), _observations(was), _observations(text))


def _delete(call: Call[Graph], ref: str, save_copy: SaveCopy | None) -> None:
    def save_entity(entity: Entity, relations: list[Relation]) -> None:
        if save_copy:
            named = [[one.source, one.target, one.relation_type] for one in relations]
            save_copy({"type": entity.entity_type, "observations": entity.observations, "relations": named})

    call.operations.delete_entity(call.caller, *split_ref(ref), save_entity)


def _restore(call: Call[Graph], ref: str, copy: Any) -> str | None:
    if copy is None:
        raise no_copy(ref)
    project, name = split_ref(ref)
    if _exists(call, project, name):
        raise Conflict(f"The project {project!r} has an entity called {name!r} by now.")
    entity = NewEntity(name, copy["type"], tuple(copy["observations"]))
    relations = [NamedRelation(*named) for named in copy["relations"]]
    added = call.operations.add_graph(call.caller, project, [entity], relations, any_name=True)
    return f"{added.dangling} relations to entities that no longer exist" if added.dangling else None


def _exists(call: Call[Graph], project: str, name: str) -> bool:
    try:
        call.operations.entity(call.caller, project, name)
    except NotFound:
        return False
    return True


EDITS = Edits[Graph](
    is_one=lambda ref: bool(split_ref(ref)[1]),
    suffix=".yaml",
    write=_write,
    delete=_delete,
    restore=_restore,
    text=_text,
)
