from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import quote, unquote

from pydantic import Field

from memory_mcp.families.family import LEFT_OUT, Notice, OriginText

Status = Literal["active", "archived"]


@dataclass(frozen=True)
class NewEntity:
    name: str
    entity_type: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Observations of one entity, to add or to delete."""

    entity_name: str
    contents: tuple[str, ...]


@dataclass(frozen=True)
class NamedRelation:
    """A relation by the names of its ends."""

    source: Annotated[str, Field(serialization_alias="from")]
    target: Annotated[str, Field(serialization_alias="to")]
    relation_type: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True)
class Imported:
    """How much of a file was new."""

    entities: int
    observations: int
    relations: int
    known: int  # entities and relations that existed already
    dangling: int  # relations between unknown entities


@dataclass
class GraphAddition:
    """What an import has added to a project, by names, so that it can be removed again."""

    entities: list[NewEntity] = field(default_factory=list)
    observations: list[Facts] = field(default_factory=list)  # of entities that existed before
    relations: list[NamedRelation] = field(default_factory=list)


@dataclass(frozen=True)
class GraphView:
    """As much of a project as a picture shows."""

    nodes: list[tuple[str, str, int]]  # name, type and number of relations, the best connected first
    edges: list[tuple[str, str, str]]  # from, to, type
    total: int  # number of all entities


PREFIX = "graph:"  # of references


def ref_of(project: str, entity: str) -> str:
    """The reference of an entity."""
    return f"{project_ref(project)}/{quote(entity, safe='')}"


def project_ref(name: str) -> str:
    return f"{PREFIX}{quote(name, safe='')}"


def split_ref(ref: str) -> tuple[str, str]:
    """The names of the project and the entity; that of the entity is empty for a project."""
    project, _, name = ref.removeprefix(PREFIX).partition("/")
    return unquote(project), unquote(name)


# Answers are sent as they are: their fields are the specification's.


@dataclass(frozen=True)
class Project:
    id: str
    name: str
    description: str
    status: Status
    created_at: str
    updated_at: str


@dataclass(frozen=True)
class Projects:
    projects: list[Project]
    notice: Notice = None


@dataclass(frozen=True)
class ProjectResult:
    """A project, or none, and what happened to it."""

    project: Project | None
    message: str


@dataclass(frozen=True)
class Entity:
    id: str
    name: str
    entity_type: str
    observations: list[str]
    created_at: str
    updated_at: str
    origin: OriginText = None


@dataclass(frozen=True)
class NotStored:
    """Observations that were given for an entity that exists, and that it does not have."""

    name: str
    observations: list[str]


@dataclass(frozen=True)
class Created:
    entities: list[Entity]
    skipped: Annotated[list[str], Field(description="Names that exist already.")]
    notice: Notice = None
    not_stored: Annotated[
        list[NotStored] | None, LEFT_OUT, Field(description="What add_observations would add to those that exist.")
    ] = None


@dataclass(frozen=True)
class Observation:
    id: str
    entity_name: str
    content: str
    created_at: str


@dataclass(frozen=True)
class KnownObservation:
    """An observation that exists already."""

    entity_name: str
    content: str


@dataclass(frozen=True)
class Observed:
    observations: list[Observation]
    skipped: list[KnownObservation]
    notice: Notice = None


@dataclass(frozen=True)
class Relation:
    id: str
    source: Annotated[str, Field(serialization_alias="from")]
    target: Annotated[str, Field(serialization_alias="to")]
    relation_type: str
    created_at: str


@dataclass(frozen=True)
class Related:
    relations: list[Relation]
    skipped: list[NamedRelation]
    notice: Notice = None


@dataclass(frozen=True)
class Nodes:
    entities: list[Entity]
    relations: list[Relation]
    notice: Notice = None


@dataclass(frozen=True)
class DeletedCount:
    deleted_count: int
