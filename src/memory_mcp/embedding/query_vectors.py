"""Questions as vectors, while somebody waits for the answer."""

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from memory_mcp.embedding.choice import Embedders
from memory_mcp.embedding.model import Backend, Space
from memory_mcp.errors import Unavailable

if TYPE_CHECKING:
    from memory_mcp.embedding.model import Floats

KEPT = 256  # questions whose vectors are remembered
LEFT_ALONE = 15.0  # seconds after a failure in which nobody waits for the embedder again


class QueryVectors:
    """Asks the embedder that made the memories' vectors, and no other."""

    def __init__(self, embedders: Embedders) -> None:
        self._embedders = embedders
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Floats] = OrderedDict()
        self._failed: dict[str, tuple[float, str]] = {}  # by space: until when, and why

    @property
    def are_off(self) -> bool:
        return self._embedders.are_off

    def backend(self, recorded: Space | None) -> Backend:
        """The embedder that makes the vectors, or would make the first."""
        return self._embedders.backend(recorded)

    def missing(self) -> str:
        """Why there may be no vectors to compare with."""
        if self._embedders.lack_a_model:
            return "There are no vectors yet; `memory-mcp models pull` installs the model that makes them."
        return "There are no vectors yet; they are made in the background."

    def vector(self, space: Space, text: str) -> "Floats":
        """The vector of a question. Raises Unavailable saying why there is none."""
        with self._lock:
            if (space.name, text) in self._known:
                self._known.move_to_end((space.name, text))
                return self._known[space.name, text]
            until, reason = self._failed.get(space.name, (0.0, ""))
            if time.monotonic() < until:
                raise Unavailable(reason)
        vector = self._embedded(space, text)
        with self._lock:
            self._known[space.name, text] = vector
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return vector

    def _embedded(self, space: Space, text: str) -> "Floats":
        embedder = self._embedders.of(space)
        if embedder is None:
            raise Unavailable(f"The vectors were made by {space.kind} ({space.model}), which this server does not use.")
        try:
            return _fitting(space, embedder.query(text))
        except Unavailable as exc:
            with self._lock:
                self._failed[space.name] = (time.monotonic() + LEFT_ALONE, exc.message)
            raise


def _fitting(space: Space, vector: "Floats") -> "Floats":
    if len(vector) != space.dimensions:
        raise Unavailable(f"{space.kind} answers with {len(vector)} numbers instead of {space.dimensions}.")
    return vector
