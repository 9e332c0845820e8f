"""The notes of one user that wait for their vectors."""

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from memory_mcp.clock import precise_stamp
from memory_mcp.embedding import Done, Job, Space
from memory_mcp.embedding.chunks import parts, with_context
from memory_mcp.engines.sqlite import Database, Write
from memory_mcp.families.notes.storage import queue, vectors

if TYPE_CHECKING:
    from memory_mcp.embedding.model import Floats

MAX_NOTES = 16  # notes at a time
MAX_CHARS = 100_000  # of those together, unless one note alone has more
CLAIM_SECONDS = 120  # after which a worker that says nothing counts as dead
MAX_BACKOFF_S = 60  # seconds between two tries of a note that fails


class WaitingNotes:
    """A pile for embedding's worker. Several processes may work on it at once, each on notes of its own."""

    def __init__(self, db: Database, tell: Callable[[], None] = lambda: None) -> None:
        """`tell` is called when there are fewer or more of them."""
        self._db = db
        self._tell = tell

    def is_waiting(self) -> bool:
        with self._db.read() as tx:
            return queue.is_waiting(tx)

    def space(self) -> Space | None:
        with self._db.read() as tx:
            return vectors.space(tx)

    def is_to_choose(self) -> bool:
        with self._db.read() as tx:
            return vectors.is_to_choose(tx)

    def adopt(self, space: Space, background: "Floats") -> None:
        from memory_mcp.search.vectors import pack

        with self._db.write() as tx:
            if vectors.space(tx) != space:
                vectors.forget_all(tx)
            vectors.set_space(tx, space, pack(background))
        self._tell()

    def claim(self, worker: str) -> Sequence[Job]:
        with self._db.read() as reading:
            if not queue.due(reading, 1):
                return ()
        with self._db.write() as tx:
            tickets = _batch(queue.due(tx, MAX_NOTES))
            until = precise_stamp(tx.now + timedelta(seconds=CLAIM_SECONDS))
            claimed = queue.claim(tx, worker, tickets, until)
        return [_job(waiting) for waiting in claimed]

    def keep(self, space: Space, done: Sequence[Done]) -> bool:
        with self._db.write() as tx:
            if vectors.space(tx) != space:
                return False
            for one in done:
                _keep(tx, one)
        self._tell()
        return True

    def put_off(self, jobs: Sequence[Job], reason: str) -> None:
        with self._db.write() as tx:
            for job in jobs:
                seconds = min(MAX_BACKOFF_S, 2 ** queue.attempts(tx, job.ticket)) * random.uniform(0.5, 1)  # noqa: S311
                queue.put_off(tx, job.ticket, precise_stamp(tx.now + timedelta(seconds=seconds)), reason)

    def let_go(self, worker: str) -> None:
        with self._db.read() as reading:
            if not queue.has_claims(reading, worker):
                return
        with self._db.write() as tx:
            queue.let_go(tx, worker)


def _batch(due: Sequence[tuple[int, int, int]]) -> list[int]:
    """The tickets to take together. A note that has failed before goes alone: it may be the one to blame."""
    tickets: list[int] = []
    characters = 0
    for ticket, attempts, length in due:
        characters += length
        if tickets and (attempts or characters > MAX_CHARS):
            break
        tickets.append(ticket)
        if attempts:
            break
    return tickets


def _job(waiting: queue.Waiting) -> Job:
    text = embedded_text(waiting.title, waiting.content)
    context = with_context(waiting.context, text) if waiting.context else None
    return Job(waiting.seq, waiting.ticket, tuple(part for _, part in parts(text)), context)


def embedded_text(own_title: str, content: str) -> str:
    return f"{own_title}\n{content}" if own_title else content


def _keep(tx: Write, done: Done) -> None:
    from memory_mcp.search.vectors import pack

    if queue.finish(tx, done.job.ticket):
        packed = {part: pack(vector) for part, vector in enumerate(done.parts)}
        if done.context is not None:
            packed[-1] = pack(done.context)
        vectors.keep(tx, done.job.key, packed)
