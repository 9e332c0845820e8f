from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from memory_mcp.families.notes.model import NewNote

TargetFamily = Literal["notes", "stores", "graph"]
Outcome = Literal["refused", "left_out", "kept"]

ForeignFormat = Literal[
    "server-memory", "mcp-memory-service", "markdown", "basic-memory", "anthropic-memory", "mem0", "chatgpt", "claude"
]
OWN_FORMAT: Final = "memory-mcp"
ImportFormat = ForeignFormat | Literal["memory-mcp"]
FamilyOrAll = TargetFamily | Literal["all"]
"""The family that is imported into; all of them for an export of our own."""

FORMATS: dict[ForeignFormat, TargetFamily] = {
    "server-memory": "graph",
    "mcp-memory-service": "notes",
    "markdown": "notes",
    "basic-memory": "stores",
    "anthropic-memory": "stores",
    "mem0": "notes",
    "chatgpt": "notes",
    "claude": "notes",
}
"""The formats, and the family that each is imported into."""

MAX_ITEMS_REPORTED = 1000  # in full; a report counts them all


@dataclass(frozen=True)
class ImportPlan:
    """What to import, and into which namespace, store or project."""

    format: ImportFormat
    path: Path
    into: str  # a namespace, a store or a project
    dry_run: bool = False
    found: Path | None = None  # what a child process has read of it, in lines of found_items
    original_name: str | None = None  # of the file, before it was uploaded or unpacked

    @property
    def file_name(self) -> str:
        """For people."""
        return self.original_name or self.path.name

    @property
    def family(self) -> FamilyOrAll:
        return "all" if self.format == OWN_FORMAT else FORMATS[self.format]

    def new_report(self) -> "Report":
        return Report(self.format, self.family, self.into, self.dry_run)


# Results of the readers


@dataclass(frozen=True)
class FoundNote:
    id: str  # the other tool's, or derived from the text if it has none
    where: str
    note: NewNote


@dataclass(frozen=True)
class FoundFile:
    where: str
    path: str  # in the store
    text: str
    changed_ns: int  # nanoseconds since 1970


@dataclass(frozen=True)
class ImportProblem:
    """Something that was not imported, and why."""

    where: str
    why: str
    outcome: Outcome = "refused"


# The report


@dataclass
class Report:
    """The result of an import: read = imported + updated + skipped + kept + refused."""

    format: ImportFormat
    family: FamilyOrAll
    into: str
    dry_run: bool
    read: int = 0
    imported: int = 0
    updated: int = 0  # changed in the source since the last import, and not here
    skipped: int = 0  # imported before
    kept: int = 0  # unchanged, because it was changed here or another memory has the same path
    refused: int = 0
    left_out: int = 0  # deleted in the source, or not a memory; not counted in `read`
    details: dict[str, int] = field(default_factory=dict)  # for a graph: entities, observations, relations
    problems: list[ImportProblem] = field(default_factory=list)

    def add(self, problem: ImportProblem) -> None:
        setattr(self, problem.outcome, getattr(self, problem.outcome) + 1)
        if len(self.problems) < MAX_ITEMS_REPORTED:
            self.problems.append(problem)

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["told"] = fields.pop("problems")  # the public name of this field
        return fields
