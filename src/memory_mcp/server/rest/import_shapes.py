"""The JSON of uploads and imports."""

from typing import Literal

from pydantic import BaseModel, Field

from memory_mcp.importers.history import ImportRecord, State
from memory_mcp.importers.model import FamilyOrAll, ImportFormat, Outcome
from memory_mcp.server.import_jobs import ImportJob, JobKind
from memory_mcp.server.rest.shapes import RequestBody

MAX_PIECE_CHARS = 3 * 1024 * 1024  # in base64
MAX_PROBLEMS_SHOWN = 100


class UploadPiece(RequestBody):
    name: str = Field(min_length=1, max_length=200, pattern=r"^[^/\\\x00-\x1f.][^/\\\x00-\x1f]*$")
    offset: int = Field(ge=0, le=2**53)
    data: str = Field(max_length=MAX_PIECE_CHARS, description="Base64.")


class UploadReceived(BaseModel):
    upload: str = Field(description="For POST /api/imports.")
    bytes: int


class ImportRequest(RequestBody):
    upload: str = Field(max_length=300, description="As POST /api/uploads answered.")
    name: str = Field(min_length=1, max_length=200, description="The name of the file or folder, for people.")
    format: ImportFormat | None = Field(None, description="null: the one that fits.")
    into: str | None = Field(
        None,
        max_length=200,
        description="A namespace, a store or a project; null: `default`, the format or `memory`. "
        "An export of Memory MCP names its own.",
    )
    dry_run: bool = Field(description="Only check what would happen.")


class ProblemShown(BaseModel):
    where: str
    why: str
    outcome: Outcome


class ImportReport(BaseModel):
    format: ImportFormat
    family: FamilyOrAll
    into: str
    dry_run: bool
    read: int
    imported: int
    updated: int
    skipped: int
    kept: int
    refused: int
    left_out: int
    details: dict[str, int] = Field(
        description="New entities, observations and relations of a graph; of an export of "
        "Memory MCP, what is new of each kind."
    )
    problems: list[ProblemShown] = Field(description=f"Up to {MAX_PROBLEMS_SHOWN} that were not imported, and why.")
    samples: list[str] = Field(description="The beginnings of the first memories.")


class UndoResult(BaseModel):
    removed: int
    kept: int = Field(description="Changed since the import, and left unchanged.")


class JobShown(BaseModel):
    id: int
    kind: JobKind
    name: str
    state: Literal["running", "done", "failed", "stopped"]
    format: ImportFormat | None
    doing: str
    done: int
    total: int | None
    counts_bytes: bool
    report: ImportReport | None
    undone: UndoResult | None
    error: str | None

    @classmethod
    def of(cls, job: ImportJob) -> "JobShown":
        result = job.result or {}
        return cls.model_validate(
            {name: getattr(job, name) for name in cls.model_fields if name not in ("report", "undone")}
            | {"report": result.get("report"), "undone": result.get("undone")}
        )


class ImportShown(BaseModel):
    id: str
    format: ImportFormat
    family: FamilyOrAll
    into: str
    source: str
    started_at: str
    state: State
    imported: int
    updated: int
    removed: int
    kept: int

    @classmethod
    def of(cls, record: ImportRecord) -> "ImportShown":
        return cls.model_validate(vars(record))


class ImportsShown(BaseModel):
    job: JobShown | None = Field(description="The last check, import or undo since the server started.")
    imports: list[ImportShown] = Field(description="The newest first, up to 50.")
