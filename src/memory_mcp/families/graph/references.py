"""References of graphs: graph:PROJECT/ENTITY and graph:PROJECT."""

from dataclasses import asdict

from pydantic import TypeAdapter

from memory_mcp.families.family import Call
from memory_mcp.families.graph.edits import EDITS
from memory_mcp.families.graph.model import PREFIX, Entity, Nodes, Relation, project_ref, ref_of, split_ref
from memory_mcp.families.graph.operations import Graph
from memory_mcp.families.references import NamedByReference, Opened, References, TakesReference, text_of_list


def _open(call: Call[Graph], ref: str) -> Opened:
    project, name = split_ref(ref)
    return _entity(call, project, name) if name else _project(call, project)


def _named_entity(text: str) -> NamedByReference | None:
    project, name = split_ref(text)
    return NamedByReference(name, {"project": project}) if text.startswith(PREFIX) and name else None


def _named_project(text: str) -> NamedByReference | None:
    project, name = split_ref(text)
    return NamedByReference(project) if text.startswith(PREFIX) and not name else None


ENTITY = TakesReference(_named_entity)
PROJECT = TakesReference(_named_project)


def _entity(call: Call[Graph], project: str, name: str) -> Opened:
    entity, relations = call.operations.entity(call.caller, project, name)
    details = TypeAdapter(Nodes).dump_python(Nodes([entity], relations), by_alias=True)
    return Opened(ref_of(project, name), name, _text(entity, relations), details, entity.created_at, entity.updated_at)


def _text(entity: Entity, relations: list[Relation]) -> str:
    lines = [f"{entity.name} ({entity.entity_type})", *(f"- {content}" for content in entity.observations)]
    if relations:
        lines += ["", "Relations:", *(f"- {one.source} {one.relation_type} {one.target}" for one in relations)]
    return "\n".join(lines)


def _project(call: Call[Graph], name: str) -> Opened:
    project, entities = call.operations.describe(call.caller, name)
    heading = f"Project {name}: {project.description}" if project.description else f"Project {name}"
    lines = [f"{ref_of(name, one.name)} ({one.entity_type})" for one in entities]
    updated_at = max([project.updated_at, *(one.updated_at for one in entities)])
    text = text_of_list(heading, lines)
    return Opened(project_ref(name), name, text, asdict(project), project.created_at, updated_at)


REFERENCES = References[Graph](
    "graph:PROJECT/ENTITY", (PREFIX,), _open, tool="open_nodes", all_groups=PREFIX, edits=EDITS
)
