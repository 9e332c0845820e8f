"""Downloads of a user's data, or of all data, as one file."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from fastapi import Request
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from memory_mcp.app import App, backup_of
from memory_mcp.caller import Caller
from memory_mcp.caller import Scope as CallerScope
from memory_mcp.clock import stamp, utc_now
from memory_mcp.errors import Conflict, Forbidden, Unavailable
from memory_mcp.progress import ReportProgress
from memory_mcp.server.disconnects import DISCONNECT
from memory_mcp.server.fair_routes import pools_of
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals
from memory_mcp.server.rest.routes import is_owner, user_router
from memory_mcp.server.rest.tools import WEB_APP
from memory_mcp.services.access import AuditEvent

LEFT_OUT = "Memory-Left-Out"  # the header with the number of items that are missing in the file
ZIP: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The zip.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            LEFT_OUT: {
                "description": "How many items are missing in the file, which lists them.",
                "schema": {"type": "integer"},
            }
        },
    }
}
Make = Callable[[Path, ReportProgress], int]
"""Write the file at a new path; returns how many items are missing in it."""


class Downloads:
    """Limits downloads: one at a time for each user, and a few for all users."""

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._lock = threading.Lock()
        self._people: set[str] = set()
        self.closing = False  # the server stops: downloads end

    @contextmanager
    def slot(self, user: str) -> Iterator[None]:
        """Raises Conflict while the same user has one, Unavailable while too many others do."""
        with self._lock:
            if user in self._people:
                raise Conflict("Another download of yours is under way. Wait until it is there, or cancel it.")
            if len(self._people) >= self._max_running:
                raise Unavailable("Other people are downloading. Try again in a minute.", retry_after=60)
            self._people.add(user)
        try:
            yield
        finally:
            with self._lock:
                self._people.remove(user)


class TemporaryFileResponse(FileResponse):
    """A temporary file that is deleted after it was sent, or when the client disconnects."""

    def __init__(self, path: Path, name: str, headers: Mapping[str, str], delete: Callable[[], object]) -> None:
        super().__init__(path, headers=headers, media_type="application/zip", filename=name)
        self.delete = delete

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(super().__call__(scope, receive, send))
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            with anyio.CancelScope(shield=True):
                sending.cancel()
                leaving.cancel()
                await asyncio.wait((sending, leaving))
                await to_thread.run_sync(self.delete)
        with suppress(asyncio.CancelledError, OSError):  # the client has disconnected
            sending.result()


@user_router.post("/export", response_class=FileResponse, responses={**ZIP, **refusals(409)})
async def export(request: Request, app: TheApp, person: ThePerson) -> TemporaryFileResponse:
    """All your data, as a zip of what `memory-mcp export` writes: markdown, JSON lines, Parquet and CSV.
    `memory-mcp import memory-mcp FILE` imports it again. One at a time."""
    person.require(CallerScope.READ)
    return await _respond(request, app, person, "export", partial(_export, app, person))


@user_router.post("/backup", response_class=FileResponse, responses={**ZIP, **refusals(409)})
async def backup(request: Request, app: TheApp, person: ThePerson) -> TemporaryFileResponse:
    """All data of this server, of all users and with the hashes of their keys. Only for the local user, and only if
    users sign in. `memory-mcp restore FILE` restores it. One at a time."""
    if not is_owner(app, person.user):
        raise Forbidden(
            "A backup has the data of all users: only the local user can download it, signed in. Download your own "
            "memories instead, or run `memory-mcp backup` on the server."
        )
    return await _respond(request, app, person, "backup", partial(_backup, app))


def _export(app: App, person: Caller, target: Path, report_progress: ReportProgress) -> int:
    from memory_mcp.maintenance.exports import Export  # a starting server does not need it
    from memory_mcp.maintenance.zip_file import pack

    done = Export(app.opened, person).run(target.with_name("export"), report_progress)
    pack(done.folder, target, report_progress)
    return len(done.left_out)


def _backup(app: App, target: Path, report_progress: ReportProgress) -> int:
    return len(backup_of(app).make(target, report_progress).left_out)


async def _respond(request: Request, app: App, person: Caller, what: str, make: Make) -> TemporaryFileResponse:
    """Write the file while the client waits for it. It is always deleted afterwards."""
    downloads: Downloads = request.app.state.downloads
    given_up: threading.Event = request.scope[DISCONNECT].event

    def report_progress(what: str, done: int, total: int | None) -> None:
        if given_up.is_set() or downloads.closing:
            raise Unavailable("The client has disconnected, or the server is stopping.")

    made: list[TemporaryFileResponse] = []
    async with pools_of(request).reading.slot(person.user, "downloads"):
        try:
            await to_thread.run_sync(lambda: made.append(_create(app, person, what, make, report_progress, downloads)))
        except asyncio.CancelledError:  # the server stops; a thread is not stopped by that
            for one in made:
                one.delete()
            raise
    return made[0]


def _create(
    app: App, person: Caller, what: str, make: Make, report_progress: ReportProgress, downloads: Downloads
) -> TemporaryFileResponse:
    from memory_mcp.engines.files.staging import staging, translate_write_errors

    with ExitStack() as until_sent:
        until_sent.enter_context(downloads.slot(person.user))
        with translate_write_errors(app.settings.data_dir):
            folder = until_sent.enter_context(staging(app.settings.data_dir))
            file = folder / f"{what}.zip"
            left_out = make(file, report_progress)
            size = file.stat().st_size
        report_progress("sending", 0, 1)
        event = AuditEvent(
            f"{what}_downloaded", client=WEB_APP, ip=person.ip, details={"bytes": size, "left_out": left_out}
        )
        app.access.audit.record(person.user, event)
        name = f"memory-{what}-{stamp(utc_now())[:10]}.zip"
        headers = {LEFT_OUT: str(left_out), "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return TemporaryFileResponse(file, name, headers, until_sent.pop_all().close)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
