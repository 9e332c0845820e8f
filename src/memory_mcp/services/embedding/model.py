from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Space:
    """The vector space of a model. Vectors of different spaces are never compared."""

    kind: str  # builtin, ollama or openai
    model: str
    dimensions: int

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.model}/{self.dimensions}"

    @classmethod
    def parse(cls, name: str) -> "Space":
        kind, rest = name.split("/", 1)
        model, dimensions = rest.rsplit("/", 1)
        return cls(kind, model, int(dimensions))


class Embedder(Protocol):
    """One model, local or remote. Both methods raise Unavailable with the reason."""

    kind: str
    model: str
    batch_size: int  # texts per call

    def documents(self, texts: Sequence[str]) -> "Floats":
        """Unit vectors of stored texts, one row each."""

    def query(self, text: str) -> "Floats":
        """The unit vector of a query."""


@dataclass(frozen=True)
class RelevanceFloor:
    """The lowest cosine of a text that is related to a query, by model: docs/benchmarks.md#nothing-fits."""

    for_one_text: float  # if there is one text
    per_log_count: float  # added for each power of e in the number of texts: the best of many is near by chance
    max_count: int  # texts, from which on it grows no more
    background_share: float  # of the average cosine with unrelated texts, which is subtracted
    max_short_bytes: int  # a longer text may answer a query in a small part: it is judged as if it were the only one
    meaningless: tuple[str, ...]  # texts that a query of words that do not exist is nearer to than to any other text


@dataclass(frozen=True)
class Backend:
    """The embedder that makes the vectors, or would make the next."""

    name: str | None  # such as ollama/nomic-embed-text; None: there is none
    dimensions: int | None  # None: unknown until the first vector
    is_ready: bool


def space_of(embedder: Embedder, vectors: "Floats") -> Space:
    return Space(embedder.kind, embedder.model, vectors.shape[1])
