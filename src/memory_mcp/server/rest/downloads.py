"""What is kept, as one file that a person takes along."""

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

from memory_mcp.access import AuditEvent
from memory_mcp.app import App, backup_of
from memory_mcp.caller import Caller
from memory_mcp.caller import Scope as May
from memory_mcp.clock import stamp, utc_now
from memory_mcp.errors import Conflict, Forbidden, Unavailable
from memory_mcp.progress import ReportProgress
from memory_mcp.server.disconnects import DISCONNECT
from memory_mcp.server.fair_routes import pools_of
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals
from memory_mcp.server.rest.routes import may_back_up, mine
from memory_mcp.server.rest.tools import WEB_APP

MAX_RUNNING_DOWNLOADS = 3  # for all people together: each takes as much room as all that is kept
LEFT_OUT = "Memory-Left-Out"  # the header that says of how many things there is nothing in the file
ZIP: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The zip.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            LEFT_OUT: {
                "description": "How many things could not be kept; the file says which.",
                "schema": {"type": "integer"},
            }
        },
    }
}
Make = Callable[[Path, ReportProgress], int]
"""Make the file at a path that is free, and say how many things it lacks."""


class Downloads:
    """One at a time for each person, and a few for all."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._people: set[str] = set()
        self.closing = False  # the server stops: nobody gets anything any more

    @contextmanager
    def turn(self, user: str) -> Iterator[None]:
        """Raises Conflict while the same person has one, Unavailable while too many others do."""
        with self._guard:
            if user in self._people:
                raise Conflict("Another download of yours is under way. Wait until it is there, or cancel it.")
            if len(self._people) >= MAX_RUNNING_DOWNLOADS:
                raise Unavailable("Other people are downloading. Try again in a minute.", retry_after=60)
            self._people.add(user)
        try:
            yield
        finally:
            with self._guard:
                self._people.remove(user)


class Handed(FileResponse):
    """A file that is put away when it was sent, or when nobody is there to take it."""

    def __init__(self, path: Path, name: str, headers: Mapping[str, str], put_away: Callable[[], object]) -> None:
        super().__init__(path, headers=headers, media_type="application/zip", filename=name)
        self.put_away = put_away

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(super().__call__(scope, receive, send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            with anyio.CancelScope(shield=True):
                sending.cancel()
                leaving.cancel()
                await asyncio.wait((sending, leaving))
                await to_thread.run_sync(self.put_away)
        with suppress(asyncio.CancelledError, OSError):  # nobody is there any more
            sending.result()


@mine.post("/export", response_class=FileResponse, responses={**ZIP, **refusals(409)})
async def export(request: Request, app: TheApp, person: ThePerson) -> Handed:
    """All that you keep, as a zip of what `memory-mcp export` writes: markdown, JSON lines, Parquet and CSV.
    `memory-mcp import memory-mcp FILE` takes it in again. One at a time."""
    person.require(May.READ)
    return await _handed(request, app, person, "export", partial(_export, app, person))


@mine.post("/backup", response_class=FileResponse, responses={**ZIP, **refusals(409)})
async def backup(request: Request, app: TheApp, person: ThePerson) -> Handed:
    """Everything on this server, of all users and with their keys' hashes: for the local user alone, and where people
    sign in. `memory-mcp restore FILE` puts it in place. One at a time."""
    if not may_back_up(app, person.user):
        raise Forbidden(
            "A backup holds what everybody keeps: only the local user gets it here, signed in. Download your own "
            "memories instead, or run `memory-mcp backup` on the server."
        )
    return await _handed(request, app, person, "backup", partial(_backup, app))


def _export(app: App, person: Caller, target: Path, report_progress: ReportProgress) -> int:
    from memory_mcp.maintenance.exports import Export  # a server at its start has no use for it
    from memory_mcp.maintenance.zip_file import pack

    done = Export(app.opened, person).run(target.with_name("export"), report_progress)
    pack(done.folder, target, report_progress)
    return len(done.left_out)


def _backup(app: App, target: Path, report_progress: ReportProgress) -> int:
    return len(backup_of(app).make(target, report_progress).left_out)


async def _handed(request: Request, app: App, person: Caller, what: str, make: Make) -> Handed:
    """Make the file while somebody waits for it. Everything of it goes, whatever happens."""
    downloads: Downloads = request.app.state.downloads
    given_up: threading.Event = request.scope[DISCONNECT].event

    def report_progress(what: str, done: int, total: int | None) -> None:
        if given_up.is_set() or downloads.closing:
            raise Unavailable("Nobody waits for this any more.")

    made: list[Handed] = []
    async with pools_of(request).reading.slot(person.user, "downloads"):
        try:
            await to_thread.run_sync(lambda: made.append(_made(app, person, what, make, report_progress, downloads)))
        except asyncio.CancelledError:  # the server stops; a thread is not stopped by that
            for one in made:
                one.put_away()
            raise
    return made[0]


def _made(
    app: App, person: Caller, what: str, make: Make, report_progress: ReportProgress, downloads: Downloads
) -> Handed:
    from memory_mcp.engines.files.staging import staging, writing_to

    with ExitStack() as until_sent:
        until_sent.enter_context(downloads.turn(person.user))
        with writing_to(app.settings.data_dir):
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
        return Handed(file, name, headers, until_sent.pop_all().close)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
