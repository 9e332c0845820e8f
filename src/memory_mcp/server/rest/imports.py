"""Importing in the browser: a file is uploaded piece by piece, checked, imported in the background, and undone."""

from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from fastapi import Path as PathParameter
from fastapi import Request

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.engines.files import uploads
from memory_mcp.errors import Forbidden, NotFound
from memory_mcp.importers import FORMATS, ImportPlan, Report, found_items
from memory_mcp.importers.model import OWN_FORMAT, FoundFile, FoundNote
from memory_mcp.importers.operations import DEFAULT_DESTINATIONS
from memory_mcp.importers.upload_reader import ReadLimits, ReadUpload, read_upload
from memory_mcp.progress import ReportProgress
from memory_mcp.server.fair_routes import pools_of
from memory_mcp.server.import_jobs import ImportJob, ImportJobs, JobKind
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.import_shapes import (
    MAX_PROBLEMS_SHOWN,
    ImportRequest,
    ImportShown,
    ImportsShown,
    JobShown,
    UploadPiece,
    UploadReceived,
)
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.rest.tools import WEB_APP
from memory_mcp.services.access import AuditEvent
from memory_mcp.services.access.tenants import folder_of
from memory_mcp.services.search.snippets import beginning

MAX_SAMPLES = 5


@user_router.post("/uploads", responses=refusals(409, 413, 422))
def upload(body: UploadPiece, app: TheApp, person: ThePerson) -> UploadReceived:
    """Upload a file for an import, piece by piece. One that is not imported is deleted after an hour."""
    person.require(Scope.WRITE)
    stored = uploads.add(_imports_folder(app, person), body.name, body.offset, body.data, app.settings.import_bytes)
    return UploadReceived(upload=body.name, bytes=stored)


@user_router.get("/imports")
def list_imports(request: Request, app: TheApp, person: ThePerson) -> ImportsShown:
    """What was imported, and the job that runs or ran last."""
    job = _jobs(request).of(person.user)
    return ImportsShown(
        job=JobShown.of(job) if job else None,
        imports=[ImportShown.of(one) for one in app.importers.history(person).all()],
    )


@user_router.post("/imports", status_code=202, responses=refusals(404, 409, 422))
async def start_import(body: ImportRequest, request: Request, app: TheApp, person: ThePerson) -> JobShown:
    """Check or import an uploaded file in the background. `GET /api/imports` has its progress, which is also published
    as the topic `imports`."""
    person.require(Scope.WRITE)
    kind: JobKind = "check" if body.dry_run else "import"
    workers = pools_of(request).pool(reads=body.dry_run)
    work = partial(_import, app, person, body)
    return JobShown.of(_jobs(request).start(person.user, kind, body.name, workers, work))


@user_router.post("/imports/stop", status_code=204)
def stop_import(request: Request, person: ThePerson) -> None:
    """Stop the running check, import or undo. What is written by then stays, and can be undone."""
    _jobs(request).stop(person.user)


@user_router.post("/imports/{import_id}/undo", status_code=202, responses=refusals(404, 409, 422))
async def undo_import(
    import_id: Annotated[str, PathParameter(max_length=100)], request: Request, app: TheApp, person: ThePerson
) -> JobShown:
    """Undo a whole import in the background: what it created is deleted, what it updated gets its former text.
    Memories that were changed since stay as they are."""
    person.require(Scope.WRITE)
    person.require(Scope.DELETE)
    record = app.importers.history(person).get(import_id)
    if record.family != "all":
        require(person, record.family, Scope.WRITE)
    work = partial(_undo, app, person, import_id)
    return JobShown.of(
        _jobs(request).start(person.user, "undo", record.source, pools_of(request).pool(reads=False), work)
    )


def _jobs(request: Request) -> ImportJobs:
    found: ImportJobs = request.app.state.import_jobs
    return found


def _imports_folder(app: App, person: Caller) -> Path:
    return folder_of(app.settings.data_dir, person.user) / uploads.IMPORTS


def _import(
    app: App, person: Caller, wanted: ImportRequest, job: ImportJob, report_progress: ReportProgress
) -> dict[str, Any]:
    """Read the upload in a child process, then write what it found, or only compare. A finished import deletes it."""
    folder = _imports_folder(app, person)
    file = folder / uploads.UPLOADS / wanted.upload
    if Path(wanted.upload).name != wanted.upload or file.is_symlink() or not file.is_file():
        raise NotFound("The file is no longer here: uploads are deleted after an hour. Upload it again.")
    limits = ReadLimits(app.settings.import_bytes, app.settings.import_seconds)
    report_progress("Reading the file", 0, None)
    with read_upload(file, wanted.name, wanted.format, limits, folder, job.stop) as upload_read:
        job.format = upload_read.format
        report, samples = _write(app, person, wanted, upload_read, file, report_progress)
    if not wanted.dry_run:
        uploads.delete(folder, f"{uploads.UPLOADS}/{wanted.upload}")
        _record(app, person, "import", {"file": wanted.name, "into": report.into, "imported": report.imported})
    return {"report": _shown(report) | {"samples": samples}}


def _write(
    app: App,
    person: Caller,
    wanted: ImportRequest,
    upload_read: ReadUpload,
    file: Path,
    report_progress: ReportProgress,
) -> tuple[Report, list[str]]:
    """Import what was read, or compare it. Returns the report, and the beginnings of some memories."""
    if upload_read.format == OWN_FORMAT:
        _require_owner(person)
        plan = ImportPlan(OWN_FORMAT, upload_read.found, "", wanted.dry_run, None, wanted.name)
        return app.own_exports.run(person, plan, report_progress), []
    family = FORMATS[upload_read.format]
    require(person, family, Scope.WRITE)
    into = wanted.into or DEFAULT_DESTINATIONS[family] or upload_read.format
    plan = ImportPlan(upload_read.format, file, into, wanted.dry_run, upload_read.found, wanted.name)
    return app.importers.run(person, plan, report_progress), _samples(upload_read.found)


def _require_owner(person: Caller) -> None:
    """The server itself parses an export of its own, so it must be trusted; other formats are parsed by a child."""
    if person.user != LOCAL_USER:
        raise Forbidden(
            "This is an export of Memory MCP, which the owner of this server imports for you: "
            "`memory-mcp import memory-mcp FILE --user NAME`."
        )


def _undo(app: App, person: Caller, id_: str, _: ImportJob, report_progress: ReportProgress) -> dict[str, Any]:
    is_own = app.importers.history(person).get(id_).format == OWN_FORMAT
    done = app.own_exports.undo(person, id_) if is_own else app.importers.undo(person, id_, report_progress)
    _record(app, person, "import_undone", {"file": done.source, "removed": done.removed})
    return {"undone": {"removed": done.removed, "kept": done.kept}}


def _record(app: App, person: Caller, action: str, details: dict[str, Any]) -> None:
    app.access.audit.record(person.user, AuditEvent(action, client=WEB_APP, ip=person.ip, details=details))


def _shown(report: Report) -> dict[str, Any]:
    return asdict(replace(report, problems=report.problems[:MAX_PROBLEMS_SHOWN]))


def _samples(found: Path) -> list[str]:
    """The beginnings of the first memories."""
    texts = (
        (one.note.title or one.note.content)
        if isinstance(one, FoundNote)
        else one.path
        if isinstance(one, FoundFile)
        else getattr(one, "name", "")
        for one in found_items.read(found, lambda _: None)
    )
    return [beginning(text)[:120] for text in islice(filter(None, texts), MAX_SAMPLES)]
