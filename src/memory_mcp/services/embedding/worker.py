"""The background worker that embeds the texts in durable queues."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory_mcp.clock import new_id
from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding.choice import Embedders
from memory_mcp.services.embedding.model import Embedder, Space, space_of
from memory_mcp.system.operating_system import lower_thread_priority

if TYPE_CHECKING:
    from memory_mcp.services.embedding.model import Floats

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 30.0  # another process may have stopped with texts left, or a model may have been installed
BUSY_POLL_INTERVAL_S = 5.0  # while texts wait: they may become due, or another process may finish them
START_DELAY_S = 1.0  # before the first poll, so that a starting server answers its client first
STOP_TIMEOUT_S = 2.0
NICENESS = 5  # beyond the server's: clients wait for answers, and rarely for vectors
MIN_BACKOFF_S = 1.0  # after a failure, doubled by each further one
MAX_BACKOFF_S = 15.0
MAX_WAIT_S = 1.0  # of all answers together, for vectors
REGAINED_S_PER_S = 0.05  # of that budget, for each second that passes

BACKGROUND = (
    "The meeting starts at nine in the morning.",
    "She bought bread, milk and a dozen eggs.",
    "The function returns an error when the file is missing.",
    "Our flight to Lisbon was delayed by two hours.",
    "He has played the violin since he was six.",
    "The invoice is due at the end of the month.",
    "It rained for most of the weekend.",
    "The new release fixes several security problems.",
    "My sister lives in a small town near the coast.",
    "Please use tabs instead of spaces in this project.",
    "They decided to postpone the launch until spring.",
    "The dog needs to see the vet next week.",
    "A database index makes this query much faster.",
    "I prefer tea to coffee in the afternoon.",
    "The museum is closed on Mondays.",
    "The server runs out of memory under heavy load.",
    "We celebrated her birthday at an Italian restaurant.",
    "The customer asked for a refund last Friday.",
    "He is training for a half marathon.",
    "The password must contain at least twelve characters.",
    "There is a book about ancient Rome on the table.",
    "The children go to school by bus.",
    "Interest rates rose by a quarter of a percent.",
    "The garden needs water every evening in summer.",
)
"""Unrelated sentences: their distance to a query is the distance of an unrelated text."""


@dataclass(frozen=True)
class EmbeddingJob:
    """A text to embed."""

    key: int
    ticket: int
    chunks: tuple[str, ...]


@dataclass(frozen=True)
class EmbeddedJob:
    job: EmbeddingJob
    chunks: "Floats"  # a row for each chunk


class TextQueue(Protocol):
    """One user's texts that wait for their vectors, in a durable queue."""

    def is_waiting(self) -> bool:
        """Whether any text waits, including texts that are not due yet."""

    def space(self) -> Space | None:
        """The space of the stored vectors."""

    def is_choice_due(self) -> bool:
        """Whether a reindex was requested: the embedder is chosen again, and every text is embedded again."""

    def adopt(self, space: Space, background: "Floats") -> None:
        """Store vectors of this space from now on. Vectors of another space are deleted, and every text is queued;
        vectors of the same space stay until new ones replace them."""

    def claim(self, worker: str) -> Sequence[EmbeddingJob]:
        """Claim texts that are due and that no running worker has claimed."""

    def save(self, space: Space, done: Sequence[EmbeddedJob]) -> bool:
        """Store vectors, except of texts that have changed since they were claimed. False, and nothing is stored, if
        the stored vectors are now of another space."""

    def postpone(self, jobs: Sequence[EmbeddingJob], reason: str) -> None:
        """Retry later."""

    def release(self, worker: str) -> None:
        """Release the texts that a worker has claimed and not finished."""


class EmbeddingWorker:
    """One thread that embeds the texts in the queues. The code that adds to a queue wakes it."""

    def __init__(self, embedders: Embedders, queues: Callable[[], Iterable[TextQueue]]) -> None:
        self._embedders = embedders
        self._queues = queues
        self._name = new_id()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._progress = threading.Condition()
        self._failures = 0
        self._has_no_embedder = False  # there is no embedder
        self._queues_with_model: set[TextQueue] = set()  # for which this server has chosen a model
        self._budget = threading.Lock()
        self._wait_budget_s, self._budget_set_at = MAX_WAIT_S, time.monotonic()
        self._thread = threading.Thread(target=self._run, name="embedding", daemon=True)

    def start(self) -> None:
        self._wake.clear()
        self._thread.start()

    def stop(self) -> None:
        """Finish the current batch, if it does not take long. The queue keeps the rest."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_TIMEOUT_S)
        for queue in list(self._queues_with_model):
            queue.release(self._name)

    def embed_waiting(self, timeout_s: float) -> None:
        """Embed waiting texts in this thread, until none is left or the time is over. For a command: it starts no
        thread. Raises Unavailable if texts fail; they stay in their queue."""
        for queue in self._all_queues():
            self._process(queue, timeout_s)

    def wake(self) -> None:
        self._wake.set()

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Wait for a vector that should come soon. The total wait is limited, and there is none after a failure, so
        that a thousand writes in a row are not delayed."""
        if self._is_failing() or self._embedders.are_off or not self._thread.is_alive():
            return
        started, left = time.monotonic(), self._take_wait_budget()
        if left > 0:
            with self._progress:
                self._progress.wait_for(lambda: self._is_failing() or is_done(), timeout=left)
        self._return_wait_budget(left - (time.monotonic() - started))

    def _is_failing(self) -> bool:
        return self._failures > 0 or self._has_no_embedder

    def _take_wait_budget(self) -> float:
        """Take the whole budget: concurrent callers do not wait."""
        with self._budget:
            now = time.monotonic()
            left = min(MAX_WAIT_S, self._wait_budget_s + REGAINED_S_PER_S * (now - self._budget_set_at))
            self._wait_budget_s, self._budget_set_at = 0.0, now
            return left

    def _return_wait_budget(self, unused: float) -> None:
        with self._budget:
            self._wait_budget_s += max(0.0, unused)

    def _run(self) -> None:
        lower_thread_priority(NICENESS)
        self._wake.wait(START_DELAY_S)
        is_first = True
        while not self._stopping.is_set():
            try:
                if is_first:
                    self._warn_if_disabled()
                    is_first = False
                self._process_all()
                self._recover()
                self._wake.wait(BUSY_POLL_INTERVAL_S if self.has_waiting_texts() else POLL_INTERVAL_S)
                self._wake.clear()
            except Unavailable as exc:
                self._back_off(exc.message)
            except Exception:  # the boundary of this thread: it must not end while the server runs
                if not self._stopping.is_set():  # else the files were closed meanwhile
                    log.exception("The embedding worker failed; it will try again")
                self._back_off("internal error")

    def _warn_if_disabled(self) -> None:
        recorded = next((space for queue in self._all_queues() if (space := queue.space())), None)
        if not self._embedders.are_ready(recorded) and not self._stopping.is_set():
            self._embedders.warn_disabled()

    def _all_queues(self) -> Iterable[TextQueue]:
        return () if self._embedders.are_off else self._queues()

    def has_waiting_texts(self) -> bool:
        """In the open files."""
        return any(queue.is_waiting() for queue in self._all_queues())

    def _back_off(self, reason: str) -> None:
        self._failures += 1
        pause = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** (self._failures - 1))
        log.log(
            logging.WARNING if self._failures == 1 else logging.DEBUG,
            "Embedding failed, will retry in %.0f s: %s",
            pause,
            reason,
        )
        with self._progress:
            self._progress.notify_all()
        self._stopping.wait(pause)

    def _recover(self) -> None:
        if self._failures:
            log.info("Embedding works again")
        self._failures = 0
        with self._progress:
            self._progress.notify_all()

    def _process_all(self) -> None:
        """Process all queues, also after a failure. Raises the last failure."""
        failed = None
        for queue in self._all_queues():
            try:
                self._process(queue)
            except Unavailable as exc:
                failed = exc
        if failed:
            raise failed

    def _process(self, queue: TextQueue, timeout_s: float = math.inf) -> None:
        """Embed the waiting texts. The time, after which no further ones are claimed, begins when the embedder is
        chosen. Raises Unavailable."""
        if queue in self._queues_with_model and not queue.is_waiting():
            return
        embedder = self._choose_embedder(queue)
        self._has_no_embedder = embedder is None
        space = queue.space()
        until = time.monotonic() + timeout_s
        while embedder and space and not self._is_over(until) and (jobs := queue.claim(self._name)):
            try:
                done = _assign_vectors(jobs, self._embed(embedder, space, jobs))
            except Unavailable as exc:
                queue.postpone(jobs, exc.message)
                raise
            except _Stopped:
                return
            if not queue.save(space, done):
                queue.release(self._name)
                return
            self._recover()

    def _is_over(self, until: float) -> bool:
        return self._stopping.is_set() or time.monotonic() >= until

    def _embed(self, embedder: Embedder, space: Space, jobs: Sequence[EmbeddingJob]) -> "Floats":
        """Embed in batches: a long note has hundreds of chunks, and the server must be able to stop. Raises Unavailable
        if that fails, or if the vectors are not of the space."""
        import numpy as np

        texts = [chunk for job in jobs for chunk in job.chunks]
        vectors = []
        for start in range(0, len(texts), embedder.batch_size):
            if self._stopping.is_set():
                raise _Stopped
            vectors.append(embedder.documents(texts[start : start + embedder.batch_size]))
            _check(space, vectors[-1])
        return np.concatenate(vectors)

    def _choose_embedder(self, queue: TextQueue) -> Embedder | None:
        """The embedder for a queue. An embedder of another model adopts the queue once, when it answers.

        None if there is none, or if another server has chosen another model since: two servers that disagree must not
        embed everything alternately forever.
        """
        recorded = queue.space()
        if recorded is None and not queue.is_waiting():
            return None
        is_choice_due = queue.is_choice_due()
        embedder = self._embedders.choose(None if is_choice_due else recorded)
        is_same = recorded and embedder and (recorded.kind, recorded.model) == (embedder.kind, embedder.model)
        if embedder is None or (is_same and not is_choice_due):
            self._queues_with_model.add(queue)
            return embedder
        if recorded and queue in self._queues_with_model and not is_choice_due:
            return None
        background = embedder.documents(BACKGROUND)
        queue.adopt(space_of(embedder, background), background)
        self._queues_with_model.add(queue)
        return embedder


class _Stopped(Exception):
    """The server stops; claimed texts are released."""


def _check(space: Space, vectors: "Floats") -> None:
    if vectors.shape[1] != space.dimensions:
        raise Unavailable(
            f"{space.kind} answers with {vectors.shape[1]} numbers for {space.model} where {space.dimensions} are "
            "stored. If the model has changed, run `memory-mcp models reindex`."
        )


def _assign_vectors(jobs: Sequence[EmbeddingJob], vectors: "Floats") -> list[EmbeddedJob]:
    """The rows of each job's chunks, in the order they were embedded."""
    done = []
    for job in jobs:
        own, vectors = vectors[: len(job.chunks)], vectors[len(job.chunks) :]
        done.append(EmbeddedJob(job, own))
    return done
