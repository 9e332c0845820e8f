"""Imports and their undo in the background: one at a time for each user, and a few for all users."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from anyio import to_thread

from memory_mcp.changes import Changes
from memory_mcp.errors import AppError, Conflict, Unavailable
from memory_mcp.importers.model import ImportFormat
from memory_mcp.progress import Bytes, ReportProgress
from memory_mcp.server.thread_pools import Workers

PROGRESS_INTERVAL_S = 0.3  # between two reports to the page
TOPIC = "imports"

log = logging.getLogger(__name__)

JobKind = Literal["check", "import", "undo"]
Work = Callable[["ImportJob", ReportProgress], dict[str, Any]]
"""Does the work of a job and returns its result."""


@dataclass
class ImportJob:
    """What the page shows of the user's last job. Only the job's own thread changes it."""

    id: int
    kind: JobKind
    name: str  # of the file
    state: Literal["running", "done", "failed", "stopped"] = "running"
    format: ImportFormat | None = None
    doing: str = "Waiting"
    done: int = 0
    total: int | None = None
    counts_bytes: bool = False
    result: dict[str, Any] | None = None
    error: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)


class ImportJobs:
    def __init__(self, changes: Changes, max_running: int) -> None:
        """`max_running` of all users: each has a thread and, at first, a process."""
        self._changes = changes
        self._max_running = max_running
        self._lock = threading.Lock()
        self._jobs: dict[str, ImportJob] = {}  # the last of each user
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_id = 0

    def of(self, user: str) -> ImportJob | None:
        return self._jobs.get(user)

    def start(self, user: str, kind: JobKind, name: str, workers: Workers, work: Work) -> ImportJob:
        """Start work in a thread of the user's share. Raises Conflict while the same user has a job, Unavailable while
        too many others do."""
        with self._lock:
            running = [who for who, job in self._jobs.items() if job.state == "running"]
            if user in running:
                raise Conflict("Another import of yours is running. Wait until it is done, or stop it.")
            if len(running) >= self._max_running:
                raise Unavailable("Other people are importing. Try again in a minute.", retry_after=60)
            self._last_id += 1
            job = self._jobs[user] = ImportJob(self._last_id, kind, name)
        task = asyncio.create_task(self._run(user, job, workers, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def stop(self, user: str) -> None:
        """What is written by then stays, and can be undone."""
        if job := self._jobs.get(user):
            job.stop.set()

    def close(self) -> None:
        """The server stops: jobs end after their present batch."""
        for job in self._jobs.values():
            job.stop.set()

    async def _run(self, user: str, job: ImportJob, workers: Workers, work: Work) -> None:
        try:
            async with workers.slot(user, TOPIC):
                job.result = await to_thread.run_sync(lambda: work(job, self._reporter(user, job)))
            job.state = "done"
        except AppError as exc:
            job.state, job.error = ("stopped", None) if job.stop.is_set() else ("failed", exc.message)
        except Exception:
            log.exception("An import failed.")
            job.state, job.error = "failed", "This failed because of a bug. The log of the server has the details."
        finally:
            if job.state == "running":  # cancelled with the server
                job.state = "stopped"
            self._changes.publish_topic(user, TOPIC)

    def _reporter(self, user: str, job: ImportJob) -> ReportProgress:
        last = time.monotonic()

        def report_progress(what: str, done: int, total: int | None) -> None:
            nonlocal last
            if job.stop.is_set():
                raise Unavailable("The import was stopped.")
            job.doing, job.done, job.total, job.counts_bytes = what, done, total, isinstance(total, Bytes)
            if time.monotonic() - last >= PROGRESS_INTERVAL_S:
                last = time.monotonic()
                self._changes.publish_topic(user, TOPIC)

        return report_progress
