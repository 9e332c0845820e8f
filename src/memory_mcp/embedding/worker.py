"""The worker that takes texts from durable queues and gives back their vectors, in the background."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory_mcp.clock import new_id
from memory_mcp.embedding.choice import Embedders
from memory_mcp.embedding.model import Embedder, Space, space_of
from memory_mcp.errors import Unavailable

if TYPE_CHECKING:
    from memory_mcp.embedding.model import Floats

log = logging.getLogger(__name__)

LOOK_EVERY = 30.0  # seconds: other processes may have died with work left, or a model may have been installed
LOOK_AGAIN = 5.0  # while some texts wait: their turn may come, or another process may finish them
BOOT_SECONDS = 1.0  # before the first look, so that a starting server answers its client first
STOP_SECONDS = 2.0
MIN_BACKOFF_S = 1.0  # seconds after a failure, doubled by each further one
MAX_BACKOFF_S = 15.0
PATIENCE = 1.0  # seconds that answers may wait for a vector, all together
PATIENCE_REGAINED = 0.05  # of that, for each second that passes

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
"""Sentences about nothing in particular: how near these are to a question is how near an unrelated text is."""


@dataclass(frozen=True)
class Job:
    """A text whose turn it is."""

    key: int
    ticket: int
    parts: tuple[str, ...]
    context: str | None  # the text with what came before it, if anything did


@dataclass(frozen=True)
class Done:
    job: Job
    parts: "Floats"  # a row for each part
    context: "Floats | None"


class TextQueue(Protocol):
    """One user's texts that wait for their vectors, in a queue that survives this process."""

    def is_waiting(self) -> bool:
        """Whether any text waits, also one that is not due yet."""

    def space(self) -> Space | None:
        """Of the vectors there are."""

    def is_to_choose(self) -> bool:
        """Whether a reindex was requested: the embedder is chosen again, and every text is embedded again."""

    def adopt(self, space: Space, background: "Floats") -> None:
        """From now on keep vectors of this space. Those of another one are forgotten, and every text is put on the
        queue; those of the same one stay until new ones replace them."""

    def claim(self, worker: str) -> Sequence[Job]:
        """Texts that are due and that no living worker has claimed, for this one alone."""

    def keep(self, space: Space, done: Sequence[Done]) -> bool:
        """Keep vectors, except of texts that have changed since they were claimed. False, and none is kept, if the
        vectors there are of another space by now."""

    def put_off(self, jobs: Sequence[Job], reason: str) -> None:
        """Try again later."""

    def let_go(self, worker: str) -> None:
        """Give back what a worker has claimed and not finished."""


class EmbeddingWorker:
    """One thread that empties the piles. Whoever adds to one wakes it."""

    def __init__(self, embedders: Embedders, piles: Callable[[], Iterable[TextQueue]]) -> None:
        self._embedders = embedders
        self._piles = piles
        self._name = new_id()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._progress = threading.Condition()
        self._failures = 0
        self._helpless = False  # nobody here can make vectors
        self._settled: set[TextQueue] = set()  # those that have had this server's choice of model
        self._budget = threading.Lock()
        self._patience, self._patience_at = PATIENCE, time.monotonic()
        self._thread = threading.Thread(target=self._run, name="embedding", daemon=True)

    def start(self) -> None:
        self._wake.clear()
        self._thread.start()

    def stop(self) -> None:
        """Finish what is at hand, if it does not take long. The queue keeps the rest."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS)
        for pile in list(self._settled):
            pile.let_go(self._name)

    def wake(self) -> None:
        self._wake.set()

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Wait for a vector that should come soon. Not long in all, and not at all while something is wrong, so that a
        thousand writes in a row are not held up."""
        if self._is_in_trouble() or self._embedders.are_off or not self._thread.is_alive():
            return
        started, left = time.monotonic(), self._take_patience()
        if left > 0:
            with self._progress:
                self._progress.wait_for(lambda: self._is_in_trouble() or is_done(), timeout=left)
        self._give_back(left - (time.monotonic() - started))

    def _is_in_trouble(self) -> bool:
        return self._failures > 0 or self._helpless

    def _take_patience(self) -> float:
        """All that is left: whoever comes meanwhile does not wait."""
        with self._budget:
            now = time.monotonic()
            left = min(PATIENCE, self._patience + PATIENCE_REGAINED * (now - self._patience_at))
            self._patience, self._patience_at = 0.0, now
            return left

    def _give_back(self, unused: float) -> None:
        with self._budget:
            self._patience += max(0.0, unused)

    def _run(self) -> None:
        self._wake.wait(BOOT_SECONDS)
        is_first = True
        while not self._stopping.is_set():
            try:
                if is_first:
                    self._warn_if_disabled()
                    is_first = False
                self._empty_all()
                self._recover()
                self._wake.wait(LOOK_AGAIN if self._something_waits() else LOOK_EVERY)
                self._wake.clear()
            except Unavailable as exc:
                self._pause(exc.message)
            except Exception:  # the boundary of this thread: it must not end while the server runs
                if not self._stopping.is_set():  # else the files were closed meanwhile
                    log.exception("The embedding worker failed; it will try again")
                self._pause("the server failed here")

    def _warn_if_disabled(self) -> None:
        recorded = next((space for pile in self._all_piles() if (space := pile.space())), None)
        if not self._embedders.are_ready(recorded) and not self._stopping.is_set():
            log.warning("semantic search disabled (no embedding backend)")  # the spec's words

    def _all_piles(self) -> Iterable[TextQueue]:
        return () if self._embedders.are_off else self._piles()

    def _something_waits(self) -> bool:
        return any(pile.is_waiting() for pile in self._all_piles())

    def _pause(self, reason: str) -> None:
        self._failures += 1
        pause = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** (self._failures - 1))
        log.log(logging.WARNING if self._failures == 1 else logging.DEBUG, "Embedding waits %.0f s: %s", pause, reason)
        with self._progress:
            self._progress.notify_all()
        self._stopping.wait(pause)

    def _recover(self) -> None:
        if self._failures:
            log.info("Embedding goes on")
        self._failures = 0
        with self._progress:
            self._progress.notify_all()

    def _empty_all(self) -> None:
        """One after the other, also after one that fails. Raises what the last failure was."""
        failed = None
        for pile in self._all_piles():
            try:
                self._empty(pile)
            except Unavailable as exc:
                failed = exc
        if failed:
            raise failed

    def _empty(self, pile: TextQueue) -> None:
        """Embed what waits. Raises Unavailable when that does not work for now."""
        if pile in self._settled and not pile.is_waiting():
            return
        embedder = self._settle(pile)
        self._helpless = embedder is None
        space = pile.space()
        while embedder and space and not self._stopping.is_set() and (jobs := pile.claim(self._name)):
            try:
                done = _shared_out(jobs, self._embedded(embedder, space, jobs))
            except Unavailable as exc:
                pile.put_off(jobs, exc.message)
                raise
            except _Stopped:
                return
            if not pile.keep(space, done):
                pile.let_go(self._name)
                return
            self._recover()

    def _embedded(self, embedder: Embedder, space: Space, jobs: Sequence[Job]) -> "Floats":
        """Some texts at a time: a long note has hundreds of parts, and a server that is told to stop must. Raises
        Unavailable if that fails, or if the vectors are not of the space."""
        import numpy as np

        texts = [text for job in jobs for text in (*job.parts, *([job.context] if job.context else []))]
        vectors = []
        for start in range(0, len(texts), embedder.at_once):
            if self._stopping.is_set():
                raise _Stopped
            vectors.append(embedder.documents(texts[start : start + embedder.at_once]))
            _check(space, vectors[-1])
        return np.concatenate(vectors)

    def _settle(self, pile: TextQueue) -> Embedder | None:
        """The embedder for a pile; one of another model than before takes the pile over, once, when it answers.

        None if there is none, or if another server has chosen another model since: two servers that disagree must not
        embed everything in turns for ever.
        """
        recorded = pile.space()
        if recorded is None and not pile.is_waiting():
            return None
        is_to_choose = pile.is_to_choose()
        embedder = self._embedders.choose(None if is_to_choose else recorded)
        is_same = recorded and embedder and (recorded.kind, recorded.model) == (embedder.kind, embedder.model)
        if embedder is None or (is_same and not is_to_choose):
            self._settled.add(pile)
            return embedder
        if recorded and pile in self._settled and not is_to_choose:
            return None
        background = embedder.documents(BACKGROUND)
        pile.adopt(space_of(embedder, background), background)
        self._settled.add(pile)
        return embedder


class _Stopped(Exception):
    """The server stops; what was claimed is given back."""


def _check(space: Space, vectors: "Floats") -> None:
    if vectors.shape[1] != space.dimensions:
        raise Unavailable(
            f"{space.kind} answers with {vectors.shape[1]} numbers for {space.model} where {space.dimensions} are "
            "kept. If the model has changed, run `memory-mcp models reindex`."
        )


def _shared_out(jobs: Sequence[Job], vectors: "Floats") -> list[Done]:
    """The rows of each job's parts, and of its context, in the order they were embedded."""
    done = []
    for job in jobs:
        own, vectors = vectors[: len(job.parts)], vectors[len(job.parts) :]
        context = vectors[0] if job.context else None
        vectors = vectors[1:] if job.context else vectors
        done.append(Done(job, own, context))
    return done
