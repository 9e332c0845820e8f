"""Which embedder makes the vectors."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.embedding.builtin import Builtin
from memory_mcp.embedding.model import Backend, Embedder, Space
from memory_mcp.settings import EmbedderKind

if TYPE_CHECKING:
    from memory_mcp.embedding.services import Ollama, OpenAI

DEFAULT_MODELS = {"ollama": "nomic-embed-text", "openai": "text-embedding-3-small"}


@dataclass(frozen=True)
class Options:
    kind: EmbedderKind
    model: str | None  # of Ollama or the service; None: its usual one
    ollama_host: str
    openai_base_url: str
    openai_api_key: str | None
    model_folder: Path  # of the built-in one


class Embedders:
    """The embedders this server may use."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._builtin = Builtin(options.model_folder)
        self._ollamas: dict[str, Ollama] = {}
        self._openais: dict[str, OpenAI] = {}

    @property
    def are_off(self) -> bool:
        return self._options.kind == "none"

    @property
    def lack_a_model(self) -> bool:
        """Whether only `memory-mcp models pull`, or Ollama, could help."""
        return self._options.kind in ("auto", "builtin") and not self._builtin.is_there()

    def choose(self, recorded: Space | None) -> Embedder | None:
        """The embedder for new texts: the one asked for; with auto the one that made the vectors so far, else Ollama if
        it answers, else the built-in one if it is installed."""
        kind = self._options.kind
        if kind == "auto":
            return self.of(recorded) if recorded else self._found()
        return self._named(kind, self._options.model)

    def of(self, space: Space) -> Embedder | None:
        """The embedder whose vectors may be compared with those of a space, if this server may use it."""
        if self._options.kind == "auto":
            return self._named(space.kind, space.model)
        asked = self._named(self._options.kind, self._options.model)
        return asked if asked and (asked.kind, asked.model) == (space.kind, space.model) else None

    def backend(self, recorded: Space | None) -> Backend:
        """The embedder that makes the vectors, or would make the first. May send a request to a service, but rarely."""
        embedder = None if self.are_off else self._expected(recorded)
        if embedder is None:
            return Backend(f"{recorded.kind}/{recorded.model}" if recorded else None, _dimensions(recorded), False)
        is_ready = embedder.is_there() if isinstance(embedder, Builtin) else embedder.is_ready()
        is_recorded = recorded is not None and (recorded.kind, recorded.model) == (embedder.kind, embedder.model)
        known = embedder.dimensions if isinstance(embedder, Builtin) else None
        return Backend(f"{embedder.kind}/{embedder.model}", _dimensions(recorded) if is_recorded else known, is_ready)

    def _expected(self, recorded: Space | None) -> "Builtin | Ollama | OpenAI | None":
        if self._options.kind != "auto":
            return self._named(self._options.kind, self._options.model)
        if recorded:
            return self._named(recorded.kind, recorded.model)
        ollama = self._ollama(self._options.model)
        if ollama.is_ready():
            return ollama
        return self._builtin if self._builtin.is_there() else None

    def are_ready(self, recorded: Space | None) -> bool:
        """Whether texts could be embedded now. May ask Ollama, but not where the built-in model would do."""
        kind = recorded.kind if recorded and self._options.kind == "auto" else self._options.kind
        model = recorded.model if recorded and self._options.kind == "auto" else self._options.model
        if kind in ("auto", "builtin") and self._builtin.is_there():
            return True
        return kind == "openai" or (kind in ("auto", "ollama") and self._ollama(model).answers())

    def _found(self) -> Embedder | None:
        ollama = self._ollama(self._options.model)
        if ollama.answers():
            return ollama
        return self._builtin if self._builtin.is_there() else None

    def _named(self, kind: str, model: str | None) -> "Builtin | Ollama | OpenAI | None":
        if kind == "builtin":
            return self._builtin
        if kind == "ollama":
            return self._ollama(model)
        if kind == "openai":
            return self._openai(model)
        return None

    # One of each: making an HTTP client reads all of the machine's certificates. And only where one is needed: it takes
    # a while to import, and most servers never do.

    def _ollama(self, model: str | None) -> "Ollama":
        from memory_mcp.embedding.services import Ollama

        name = model or DEFAULT_MODELS["ollama"]
        if name not in self._ollamas:
            self._ollamas[name] = Ollama(self._options.ollama_host, name)
        return self._ollamas[name]

    def _openai(self, model: str | None) -> "OpenAI":
        from memory_mcp.embedding.services import OpenAI

        name = model or DEFAULT_MODELS["openai"]
        if name not in self._openais:
            self._openais[name] = OpenAI(self._options.openai_base_url, self._options.openai_api_key, name)
        return self._openais[name]


def _dimensions(space: Space | None) -> int | None:
    return space.dimensions if space else None
