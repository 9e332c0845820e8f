"""The texts in one file that wait for their vectors."""

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from memory_mcp.clock import precise_stamp
from memory_mcp.engines.transactions import UserDatabase, Write
from memory_mcp.services.embedding import EmbeddedJob, EmbeddingJob, Space
from memory_mcp.services.embedding.chunks import chunks
from memory_mcp.services.search_index.model import EmbedText, ReadTexts
from memory_mcp.services.search_index.storage import queue, vectors
from memory_mcp.services.search_index.storage.queue import EmbedQueue
from memory_mcp.services.search_index.storage.vectors import VectorTable
from memory_mcp.services.search_index.tables import Tables

if TYPE_CHECKING:
    from memory_mcp.services.embedding.model import Floats

MAX_TEXTS = 16  # at a time
MAX_CHARS = 100_000  # of those together, unless one text alone has more
CLAIM_TTL_S = 120  # after which the claim of a worker that did not finish expires
MAX_BACKOFF_S = 60  # between two attempts at a text that fails


class EmbeddingQueue:
    """Implements embedding's TextQueue. Several processes may use it at once, each for different texts."""

    def __init__(self, db: UserDatabase, tables: Tables, read_texts: ReadTexts, notify: Callable[[], None]) -> None:
        """`notify` is called when the number of waiting texts changes."""
        self._db = db
        self._queue = EmbedQueue(tables)
        self._vectors = VectorTable(tables)
        self._read_texts = read_texts
        self._notify = notify

    def is_waiting(self) -> bool:
        with self._db.read() as tx:
            return queue.is_waiting(tx)

    def space(self) -> Space | None:
        with self._db.read() as tx:
            return vectors.space(tx)

    def is_choice_due(self) -> bool:
        with self._db.read() as tx:
            return vectors.is_choice_due(tx)

    def adopt(self, space: Space, background: "Floats") -> None:
        from memory_mcp.services.search.vectors import pack

        with self._db.write() as tx:
            if vectors.space(tx) != space:
                self._vectors.delete_all(tx)
            vectors.set_space(tx, space, bytes(pack(background)))
        self._notify()

    def claim(self, worker: str) -> Sequence[EmbeddingJob]:
        with self._db.read() as reading:
            if not self._queue.due(reading, 1):
                return ()
        with self._db.write() as tx:
            tickets = _batch(self._queue.due(tx, MAX_TEXTS))
            until = precise_stamp(tx.now + timedelta(seconds=CLAIM_TTL_S))
            claimed = self._queue.claim(tx, worker, tickets, until)
            texts = self._read_texts(tx, [seq for _, seq in claimed])
        return [_job(ticket, seq, texts[seq]) for ticket, seq in claimed]

    def save(self, space: Space, done: Sequence[EmbeddedJob]) -> bool:
        with self._db.write() as tx:
            if vectors.space(tx) != space:
                return False
            for one in done:
                self._save(tx, one)
        self._notify()
        return True

    def _save(self, tx: Write, done: EmbeddedJob) -> None:
        from memory_mcp.services.search.vectors import pack

        if queue.finish(tx, done.job.ticket):
            self._vectors.save(tx, done.job.key, [pack(vector) for vector in done.chunks])

    def postpone(self, jobs: Sequence[EmbeddingJob], reason: str) -> None:
        with self._db.write() as tx:
            for job in jobs:
                seconds = min(MAX_BACKOFF_S, 2 ** queue.attempts(tx, job.ticket)) * random.uniform(0.5, 1)  # noqa: S311
                queue.postpone(tx, job.ticket, precise_stamp(tx.now + timedelta(seconds=seconds)), reason)

    def release(self, worker: str) -> None:
        with self._db.read() as reading:
            if not queue.has_claims(reading, worker):
                return
        with self._db.write() as tx:
            queue.release(tx, worker)


def _batch(due: Sequence[tuple[int, int, int]]) -> list[int]:
    """The tickets of the texts to embed together. A text that has failed before goes alone: it may be the cause."""
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


def _job(ticket: int, seq: int, text: EmbedText) -> EmbeddingJob:
    whole = embedded_text(text.title, text.content)
    return EmbeddingJob(seq, ticket, tuple(chunk for _, chunk in chunks(whole)))


def embedded_text(own_title: str, content: str) -> str:
    return f"{own_title}\n{content}" if own_title else content
