"""Vectors of search queries, made while a client waits for the answer."""

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding.builtin import floor_of
from memory_mcp.services.embedding.choice import Embedders
from memory_mcp.services.embedding.model import Backend, Space

if TYPE_CHECKING:
    from memory_mcp.services.embedding.model import Floats

MAX_CACHED_QUERIES = 256
RETRY_DELAY_S = 15.0  # after a failure; meanwhile searches do not wait for the embedder


class QueryVectors:
    """Embeds queries with the embedder that made the vectors of the memories."""

    def __init__(self, embedders: Embedders) -> None:
        self._embedders = embedders
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, str], Floats] = OrderedDict()
        self._meaningless: dict[str, Floats] = {}  # by space
        self._failed: dict[str, tuple[float, str]] = {}  # by space: end of the delay, and the reason

    @property
    def are_off(self) -> bool:
        return self._embedders.are_off

    def backend(self, recorded: Space | None) -> Backend:
        """The embedder that makes the vectors, or would make the first."""
        return self._embedders.backend(recorded)

    def missing_reason(self) -> str:
        """Why there are no vectors to compare with."""
        if self._embedders.lacks_model:
            return "There are no vectors yet; `memory-mcp models pull` installs the model that makes them."
        return "There are no vectors yet; they are made in the background."

    def vector(self, space: Space, text: str) -> "Floats":
        """The vector of a query. Raises Unavailable with the reason."""
        with self._lock:
            if (space.name, text) in self._cached:
                self._cached.move_to_end((space.name, text))
                return self._cached[space.name, text]
            until, reason = self._failed.get(space.name, (0.0, ""))
            if time.monotonic() < until:
                raise Unavailable(reason)
        vector = self._embed(space, text)
        with self._lock:
            self._cached[space.name, text] = vector
            while len(self._cached) > MAX_CACHED_QUERIES:
                self._cached.popitem(last=False)
        return vector

    def meaningless(self, space: Space) -> "Floats":
        """The vectors of texts without a meaning, as texts of this space. Made once, which takes a tenth of a second.
        Raises Unavailable with the reason."""
        if space.name not in self._meaningless:
            embedder, floor = self._embedders.of(space), floor_of(space)
            if embedder is None or floor is None:
                raise Unavailable(f"No texts without a meaning are known for {space.name}.")
            self._meaningless[space.name] = embedder.documents(floor.meaningless)
        return self._meaningless[space.name]

    def _embed(self, space: Space, text: str) -> "Floats":
        embedder = self._embedders.of(space)
        if embedder is None:
            raise Unavailable(f"The vectors were made by {space.kind} ({space.model}), which this server does not use.")
        try:
            return _check_length(space, embedder.query(text))
        except Unavailable as exc:
            with self._lock:
                self._failed[space.name] = (time.monotonic() + RETRY_DELAY_S, exc.message)
            raise


def _check_length(space: Space, vector: "Floats") -> "Floats":
    if len(vector) != space.dimensions:
        raise Unavailable(f"{space.kind} answers with {len(vector)} numbers instead of {space.dimensions}.")
    return vector
