from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from memory_mcp.families.notes.model import NewNote

Family = Literal["notes", "stores", "graph"]
Outcome = Literal["refused", "left_out", "kept"]
"""Is told how many memories have been read so far."""

Format = Literal["server-memory", "mcp-memory-service", "basic-memory", "anthropic-memory", "mem0", "chatgpt", "claude"]
FORMATS: dict[Format, Family] = {
    "server-memory": "graph",
    "mcp-memory-service": "notes",
    "basic-memory": "stores",
    "anthropic-memory": "stores",
    "mem0": "notes",
    "chatgpt": "notes",
    "claude": "notes",
}
"""What can move in, and where to."""

MAX_ITEMS_REPORTED = 1000  # things that a report has in full; it counts them all


@dataclass(frozen=True)
class ImportPlan:
    """What is to move in, and where to."""

    format: Format
    path: Path
    into: str  # a namespace, a store or a project
    dry_run: bool = False

    @property
    def family(self) -> Family:
        return FORMATS[self.format]


# What readers find


@dataclass(frozen=True)
class FoundNote:
    id: str  # the other tool's, or made from the text where it has none
    where: str
    note: NewNote


@dataclass(frozen=True)
class FoundFile:
    where: str
    path: str  # in the store
    text: str
    changed_ns: int  # nanoseconds since 1970


@dataclass(frozen=True)
class Problem:
    """Something that did not move in, and why: a person may want to look at it."""

    where: str
    why: str
    outcome: Outcome = "refused"


# What a person is told


@dataclass
class Report:
    """What became of everything that was read: read = imported + updated + skipped + kept + refused."""

    format: Format
    family: Family
    into: str
    dry_run: bool
    read: int = 0
    imported: int = 0
    updated: int = 0  # changed there since the last import, and not here
    skipped: int = 0  # there already
    kept: int = 0  # changed here since, or another memory at the same path: stays as it is
    refused: int = 0
    left_out: int = 0  # not meant to move in: deleted there, or no memory at all; not among those read
    details: dict[str, int] = field(default_factory=dict)  # of a graph: entities, observations, relations
    told: list[Problem] = field(default_factory=list)

    def tell(self, told: Problem) -> None:
        setattr(self, told.outcome, getattr(self, told.outcome) + 1)
        if len(self.told) < MAX_ITEMS_REPORTED:
            self.told.append(told)
