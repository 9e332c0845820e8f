from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from memory_mcp.caller import Scope
from memory_mcp.families.family import READABLE, Arguments, Call
from memory_mcp.families.graph.answers import Skip
from memory_mcp.families.graph.family import graph as graph
from memory_mcp.families.graph.model import (
    Created,
    DeletedCount,
    Facts,
    NamedRelation,
    NewEntity,
    Nodes,
    Observed,
    Project,
    ProjectResult,
    Projects,
    Related,
)
from memory_mcp.families.graph.operations import Graph
from memory_mcp.families.graph.references import ENTITY, PROJECT

# What is looked up needs no lower bound: nothing has an empty name.
ProjectName = Annotated[str, Field(max_length=512), PROJECT]  # of a project; other programs make projects too
EntityName = Annotated[str, Field(max_length=512), ENTITY]
Text = Annotated[str, Field(min_length=1, max_length=1024 * 1024)]
TypeName = Annotated[str, Field(min_length=1, max_length=128)]


def _spelled_out(default: Any) -> dict[str, Any]:
    """A default that the specification wrote down, for the schema: others that are empty are left out."""
    return {"x-default": default}


# Projects


class ListProjects(Arguments):
    status: Literal["active", "archived", "all"] = Field("active", description="Filter projects by status")


@graph.tool(ListProjects, answers=Projects, title="List projects", needs=Scope.READ, idempotent=True)
def list_projects(call: Call[Graph], arguments: ListProjects) -> Projects:
    """Graph: list projects by status."""
    return call.operations.projects(call.caller, None if arguments.status == "all" else arguments.status)


class CreateProject(Arguments):
    name: str = Field(min_length=1, max_length=64, description="Unique project name: a-z, 0-9, '.', '_', '-'")
    description: str = Field("", max_length=4096, json_schema_extra=_spelled_out(""))


@graph.tool(CreateProject, answers=Project, title="Create a project", needs=Scope.WRITE, changes_session=True)
def create_project(call: Call[Graph], arguments: CreateProject) -> Project:
    """Graph: create a project with a graph of its own, and make it this session's active one."""
    return call.operations.create_project(call.caller, call.session, arguments.name, arguments.description)


class SwitchProject(Arguments):
    name: ProjectName = Field(description="Name of the project to switch to")


@graph.tool(
    SwitchProject,
    answers=ProjectResult,
    title="Switch project",
    needs=Scope.READ,
    idempotent=True,
    changes_session=True,
)
def switch_project(call: Call[Graph], arguments: SwitchProject) -> ProjectResult:
    """Graph: make a project this session's active one."""
    return call.operations.switch_project(call.caller, call.session, arguments.name)


class NoArguments(Arguments):
    pass


@graph.tool(NoArguments, answers=ProjectResult, title="Current project", needs=Scope.READ, idempotent=True)
def get_current_project(call: Call[Graph], arguments: NoArguments) -> ProjectResult:
    """Graph: the session's active project, if any."""
    return call.operations.current_project(call.caller, call.session)


class ArchiveProject(Arguments):
    name: ProjectName = Field(description="Name of the project to archive")


@graph.tool(
    ArchiveProject,
    answers=ProjectResult,
    title="Archive a project",
    needs=Scope.DELETE,
    changes_session=True,
    without_read=("message",),
)
def archive_project(call: Call[Graph], arguments: ArchiveProject) -> ProjectResult:
    """Graph: put a project away with its data. restore_project brings it back."""
    return call.operations.archive_project(call.caller, arguments.name)


class DeleteProject(Arguments):
    name: ProjectName = Field(description="Name of the project to permanently delete")


@graph.tool(
    DeleteProject,
    answers=ProjectResult,
    title="Delete a project",
    needs=Scope.DELETE,
    destructive=True,
    changes_session=True,
    without_read=("message",),
)
def delete_project(call: Call[Graph], arguments: DeleteProject) -> ProjectResult:
    """Graph: delete a project and all its data for good."""
    return call.operations.delete_project(call.caller, arguments.name)


class RestoreProject(Arguments):
    name: ProjectName = Field(description="Name of the archived project to restore")


@graph.tool(
    RestoreProject,
    answers=Project,
    title="Restore a project",
    needs=Scope.WRITE,
    without_read=("id", "name", "status", "created_at", "updated_at"),
)
def restore_project(call: Call[Graph], arguments: RestoreProject) -> Project:
    """Graph: bring an archived project back."""
    return call.operations.restore_project(call.caller, arguments.name)


# What a project knows. Each of these works in the active project unless it names another.


class InProject(Arguments):
    project: ProjectName | None = None


class EntityToCreate(Arguments):
    name: Annotated[str, Field(min_length=1, max_length=512), READABLE]
    entity_type: Annotated[TypeName, READABLE] = Field(description="Entity type (e.g., person, technology, concept)")
    observations: list[Text] = Field(
        [],
        max_length=1000,
        description="Initial observations about the entity",
        json_schema_extra=_spelled_out([]),
    )


class CreateEntities(InProject):
    entities: list[EntityToCreate] = Field(min_length=1, max_length=1000)


@graph.tool(CreateEntities, answers=Created, title="Create entities", needs=Scope.WRITE, idempotent=True)
def create_entities(call: Call[Graph], arguments: CreateEntities) -> Created:
    """Graph: create entities. Names that exist are skipped: add_observations adds to them."""
    new = [NewEntity(one.name, one.entity_type, tuple(one.observations)) for one in arguments.entities]
    return call.operations.create_entities(call.caller, call.session, arguments.project, new)


class ObservationsToAdd(Arguments):
    entity_name: EntityName
    contents: list[Text] = Field(min_length=1, max_length=1000, description="Observation texts to add")


class AddObservations(InProject):
    observations: list[ObservationsToAdd] = Field(min_length=1, max_length=1000)


@graph.tool(AddObservations, answers=Observed, title="Add observations", needs=Scope.WRITE, idempotent=True)
def add_observations(call: Call[Graph], arguments: AddObservations) -> Observed:
    """Graph: add facts to entities that exist."""
    facts = [Facts(one.entity_name, tuple(one.contents)) for one in arguments.observations]
    return call.operations.add_observations(call.caller, call.session, arguments.project, facts)


class RelationNamed(Arguments):
    source: EntityName = Field(alias="from")
    target: EntityName = Field(alias="to")
    relation_type: TypeName


class RelationToCreate(RelationNamed):
    source: EntityName = Field(alias="from", description="Source entity name")
    target: EntityName = Field(alias="to", description="Target entity name")
    relation_type: TypeName = Field(description="Relation type in active voice (e.g., uses, depends_on, manages)")


def _named_relations(relations: Sequence[RelationNamed]) -> list[NamedRelation]:
    return [NamedRelation(one.source, one.target, one.relation_type) for one in relations]


class CreateRelations(InProject):
    relations: list[RelationToCreate] = Field(min_length=1, max_length=1000)


@graph.tool(CreateRelations, answers=Related, title="Create relations", needs=Scope.LINK, idempotent=True)
def create_relations(call: Call[Graph], arguments: CreateRelations) -> Related:
    """Graph: relate entities that exist."""
    return call.operations.create_relations(
        call.caller, call.session, arguments.project, _named_relations(arguments.relations)
    )


class SearchNodes(InProject):
    query: Annotated[str, Field(max_length=4000)] = Field(
        description="Search query (supports FTS5 syntax: AND, OR, NOT, prefix*)"
    )
    limit: int = Field(50, ge=1, le=500)


@graph.tool(SearchNodes, answers=Nodes, title="Search entities", needs=Scope.READ, idempotent=True)
def search_nodes(call: Call[Graph], arguments: SearchNodes) -> Nodes:
    """Graph: find entities by names, types and observations; best first, with their relations."""
    return call.operations.search(
        call.caller, call.session, arguments.project, arguments.query.strip(), arguments.limit
    )


class OpenNodes(InProject):
    names: list[EntityName] = Field(min_length=1, max_length=1000, description="Exact entity names to retrieve")
    skip_observations: int = Field(0, ge=0, le=10**9, description="As an answer before said.")
    skip_relations: int = Field(0, ge=0, le=10**9)


@graph.tool(OpenNodes, answers=Nodes, title="Read entities", needs=Scope.READ, idempotent=True)
def open_nodes(call: Call[Graph], arguments: OpenNodes) -> Nodes:
    """Graph: read entities by their exact names, with their relations."""
    skip = Skip(arguments.skip_observations, arguments.skip_relations)
    return call.operations.open_nodes(call.caller, call.session, arguments.project, arguments.names, skip)


class ReadGraph(InProject):
    offset: int = Field(0, ge=0, le=2**53, description="Where to go on, as the answer before said.")


@graph.tool(ReadGraph, answers=Nodes, title="Read the graph", needs=Scope.READ, idempotent=True)
def read_graph(call: Call[Graph], arguments: ReadGraph) -> Nodes:
    """Graph: read all of it, a page at a time. Prefer search_nodes."""
    return call.operations.read_graph(call.caller, call.session, arguments.project, arguments.offset)


class DeleteEntities(InProject):
    names: list[EntityName] = Field(min_length=1, max_length=1000)


@graph.tool(
    DeleteEntities, answers=DeletedCount, title="Delete entities", needs=Scope.DELETE, destructive=True, idempotent=True
)
def delete_entities(call: Call[Graph], arguments: DeleteEntities) -> DeletedCount:
    """Graph: delete entities with their observations and relations."""
    return call.operations.delete_entities(call.caller, call.session, arguments.project, arguments.names)


class ObservationsToDelete(Arguments):
    entity_name: EntityName
    observations: list[Text] = Field(
        min_length=1, max_length=1000, description="Observation content strings to match and delete"
    )


class DeleteObservations(InProject):
    deletions: list[ObservationsToDelete] = Field(min_length=1, max_length=1000)


@graph.tool(
    DeleteObservations,
    answers=DeletedCount,
    title="Delete observations",
    needs=Scope.DELETE,
    destructive=True,
    idempotent=True,
)
def delete_observations(call: Call[Graph], arguments: DeleteObservations) -> DeletedCount:
    """Graph: delete observations by their exact text."""
    facts = [Facts(one.entity_name, tuple(one.observations)) for one in arguments.deletions]
    return call.operations.delete_observations(call.caller, call.session, arguments.project, facts)


class DeleteRelations(InProject):
    relations: list[RelationNamed] = Field(min_length=1, max_length=1000)


@graph.tool(
    DeleteRelations, answers=DeletedCount, title="Delete relations", needs=Scope.LINK, destructive=True, idempotent=True
)
def delete_relations(call: Call[Graph], arguments: DeleteRelations) -> DeletedCount:
    """Graph: delete relations."""
    return call.operations.delete_relations(
        call.caller, call.session, arguments.project, _named_relations(arguments.relations)
    )
