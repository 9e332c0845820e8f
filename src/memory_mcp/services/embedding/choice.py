"""The choice of the embedder that makes the vectors."""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.services.embedding.builtin import Builtin
from memory_mcp.services.embedding.model import Backend, Embedder, Space
from memory_mcp.settings.types import EmbedderKind

if TYPE_CHECKING:
    from memory_mcp.services.embedding.services import Ollama, OpenAI

log = logging.getLogger(__name__)

DEFAULT_MODELS = {"ollama": "nomic-embed-text", "openai": "text-embedding-3-small"}


@dataclass(frozen=True)
class EmbeddingOptions:
    kind: EmbedderKind
    model: str | None  # of Ollama or the service; None: the default
    ollama_host: str
    openai_base_url: str
    openai_api_key: str | None
    model_folder: Path  # of the built-in model


class Embedders:
    """The embedders this server may use."""

    def __init__(self, options: EmbeddingOptions) -> None:
        self._options = options
        self._builtin = Builtin(options.model_folder)
        self._ollamas: dict[str, Ollama] = {}
        self._openais: dict[str, OpenAI] = {}
        self._first_warning = threading.Lock()
        self._has_warned = False

    @property
    def are_off(self) -> bool:
        return self._options.kind == "none"

    @property
    def lacks_model(self) -> bool:
        """Whether embedding needs `memory-mcp models pull` or Ollama."""
        return self._options.kind in ("auto", "builtin") and not self._builtin.is_installed()

    def choose(self, recorded: Space | None) -> Embedder | None:
        """The embedder for new texts: the configured one; with auto the one that made the existing vectors, else Ollama
        if it answers, else the built-in one if it is installed."""
        kind = self._options.kind
        if kind == "auto":
            return self.of(recorded) if recorded else self._detect()
        return self._embedder(kind, self._options.model)

    def of(self, space: Space) -> Embedder | None:
        """The embedder that made the vectors of a space, if this server may use it."""
        if self._options.kind == "auto":
            return self._embedder(space.kind, space.model)
        chosen = self._embedder(self._options.kind, self._options.model)
        return chosen if chosen and (chosen.kind, chosen.model) == (space.kind, space.model) else None

    def backend(self, recorded: Space | None) -> Backend:
        """The embedder that makes the vectors, or would make the first. May send a request to a service."""
        embedder = None if self.are_off else self._expected(recorded)
        if embedder is None:
            return Backend(f"{recorded.kind}/{recorded.model}" if recorded else None, _dimensions(recorded), False)
        is_ready = embedder.is_installed() if isinstance(embedder, Builtin) else embedder.is_ready()
        is_recorded = recorded is not None and (recorded.kind, recorded.model) == (embedder.kind, embedder.model)
        known = embedder.dimensions if isinstance(embedder, Builtin) else None
        return Backend(f"{embedder.kind}/{embedder.model}", _dimensions(recorded) if is_recorded else known, is_ready)

    def _expected(self, recorded: Space | None) -> "Builtin | Ollama | OpenAI | None":
        if self._options.kind != "auto":
            return self._embedder(self._options.kind, self._options.model)
        if recorded:
            return self._embedder(recorded.kind, recorded.model)
        ollama = self._ollama(self._options.model)
        if ollama.is_ready():
            return ollama
        return self._builtin if self._builtin.is_installed() else None

    def are_ready(self, recorded: Space | None) -> bool:
        """Whether texts can be embedded now. Sends a request to Ollama only if the built-in model cannot be used."""
        kind = recorded.kind if recorded and self._options.kind == "auto" else self._options.kind
        model = recorded.model if recorded and self._options.kind == "auto" else self._options.model
        if kind in ("auto", "builtin") and self._builtin.is_installed():
            return True
        return kind == "openai" or (kind in ("auto", "ollama") and self._ollama(model).answers())

    def warn_disabled(self) -> None:
        """Log once that nothing is found by its meaning. Each family has a worker, which would log the same."""
        with self._first_warning:
            if not self._has_warned:
                log.warning("semantic search disabled (no embedding backend)")  # the text is fixed by the spec
            self._has_warned = True

    def _detect(self) -> Embedder | None:
        ollama = self._ollama(self._options.model)
        if ollama.answers():
            return ollama
        return self._builtin if self._builtin.is_installed() else None

    def _embedder(self, kind: str, model: str | None) -> "Builtin | Ollama | OpenAI | None":
        if kind == "builtin":
            return self._builtin
        if kind == "ollama":
            return self._ollama(model)
        if kind == "openai":
            return self._openai(model)
        return None

    # One instance of each: creating an HTTP client reads all certificates. Created on demand: the import takes a while,
    # and most servers never need it.

    def _ollama(self, model: str | None) -> "Ollama":
        from memory_mcp.services.embedding.services import Ollama

        name = model or DEFAULT_MODELS["ollama"]
        if name not in self._ollamas:
            self._ollamas[name] = Ollama(self._options.ollama_host, name)
        return self._ollamas[name]

    def _openai(self, model: str | None) -> "OpenAI":
        from memory_mcp.services.embedding.services import OpenAI

        name = model or DEFAULT_MODELS["openai"]
        if name not in self._openais:
            self._openais[name] = OpenAI(self._options.openai_base_url, self._options.openai_api_key, name)
        return self._openais[name]


def _dimensions(space: Space | None) -> int | None:
    return space.dimensions if space else None
