"""Embedding services: Ollama, and services with OpenAI's protocol."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from memory_mcp.errors import Unavailable

if TYPE_CHECKING:
    from memory_mcp.services.embedding.model import Floats

CONNECT_TIMEOUT_S = 2.0
BATCH_TIMEOUT_S = 60.0  # enough for a laptop to embed a batch of long notes
QUERY_TIMEOUT_S = 5.0  # a client waits for the search
PROBE_TIMEOUT_S = 10.0  # Ollama loads a model at its first request
READY_TTL_S = 60.0  # how long a service counts as ready after a request that succeeded
NOT_READY_TTL_S = 5.0  # how long it counts as not ready after one that failed


class Prefixes(NamedTuple):
    """The prefixes that a model expects before queries and documents."""

    query: str = ""
    document: str = ""


KNOWN_PREFIXES = {
    "nomic-embed-text": Prefixes("search_query: ", "search_document: "),
    "snowflake-arctic-embed2": Prefixes("query: "),
    "snowflake-arctic-embed": Prefixes("Represent this sentence for searching relevant passages: "),
    "mxbai-embed-large": Prefixes("Represent this sentence for searching relevant passages: "),
}


class Service:
    """A JSON service over HTTP."""

    def __init__(
        self, name: str, url: str, headers: Mapping[str, str] | None = None, *, uses_proxy: bool = True
    ) -> None:
        self.name = name
        self._url = url
        self._client = httpx2.Client(headers=headers, trust_env=uses_proxy)

    def post(
        self, path: str, body: Mapping[str, Any], seconds: float, advice: Mapping[int, str] | None = None
    ) -> dict[str, Any]:
        """Raises Unavailable unless a JSON object comes back in time. `advice`: hints for the user, by status."""
        timeout = httpx2.Timeout(seconds, connect=CONNECT_TIMEOUT_S)
        try:
            response = self._client.post(self._url + path, json=body, timeout=timeout)
        except httpx2.TimeoutException as exc:
            raise Unavailable(f"{self.name} does not answer in time.") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as exc:
            raise Unavailable(f"{self.name} cannot be reached.") from exc
        if not response.is_success:
            hint = (advice or {}).get(response.status_code, "")
            raise Unavailable(f"{self.name} answered with status {response.status_code}. {hint}".rstrip())
        try:
            answer = response.json()
        except ValueError as exc:
            raise Unavailable(f"{self.name} answered with something that is not JSON.") from exc
        if not isinstance(answer, dict):
            raise Unavailable(f"{self.name} answered in an unknown format.")
        return answer

    def vectors(self, found: Any, expected: int) -> "Floats":
        """Unit vectors from lists of numbers of the same length. Raises Unavailable if they are not."""
        import numpy as np

        if not isinstance(found, list) or len(found) != expected:
            raise Unavailable(f"{self.name} did not answer with {expected} vectors.")
        try:
            with np.errstate(over="ignore"):
                vectors = np.array(found, dtype=np.float32)
                lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        except (ValueError, TypeError, OverflowError) as exc:
            raise Unavailable(f"{self.name} answered with vectors of different lengths.") from exc
        if vectors.ndim != 2 or not vectors.size or not np.isfinite(lengths).all() or not lengths.all():
            raise Unavailable(f"{self.name} answered with an invalid vector.")
        units: Floats = vectors / lengths
        return units


class _ServiceEmbedder(ABC):
    """A model behind a service."""

    batch_size = 32

    def __init__(self, model: str, service: Service) -> None:
        self.model = model
        self._service = service
        self._prefixes = _prefixes(model)
        self._last: tuple[bool, float] | None = None  # whether the last request succeeded, and when

    def is_ready(self) -> bool:
        """Whether the service makes vectors. Sends a request only if the last one was too long ago."""
        if self._last is not None:
            succeeded, at = self._last
            if time.monotonic() - at < (READY_TTL_S if succeeded else NOT_READY_TTL_S):
                return succeeded
        return self.answers()

    def answers(self) -> bool:
        """Whether the service answers and has the model. Sends a request."""
        try:
            self._embed(["hello"], PROBE_TIMEOUT_S)
        except Unavailable:
            return False
        return True

    def documents(self, texts: Sequence[str]) -> "Floats":
        return self._embed([self._prefixes.document + text for text in texts], BATCH_TIMEOUT_S)

    def query(self, text: str) -> "Floats":
        vector: Floats = self._embed([self._prefixes.query + text], QUERY_TIMEOUT_S)[0]
        return vector

    def _embed(self, texts: list[str], seconds: float) -> "Floats":
        """Unit vectors, one row each."""
        try:
            vectors = self._request(texts, seconds)
        except Unavailable:
            self._last = False, time.monotonic()
            raise
        self._last = True, time.monotonic()
        return vectors

    @abstractmethod
    def _request(self, texts: list[str], seconds: float) -> "Floats":
        """The same, in the service's protocol."""


class Ollama(_ServiceEmbedder):
    kind = "ollama"

    def __init__(self, host: str, model: str) -> None:
        super().__init__(model, Service("Ollama", ollama_url(host), uses_proxy=False))

    def _request(self, texts: list[str], seconds: float) -> "Floats":
        body = {"model": self.model, "input": texts, "truncate": True}
        answer = self._service.post("/api/embed", body, seconds, {404: f"Run `ollama pull {self.model}`."})
        return self._service.vectors(answer.get("embeddings"), len(texts))


class OpenAI(_ServiceEmbedder):
    kind = "openai"

    def __init__(self, base_url: str, api_key: str | None, model: str) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(model, Service("The embedding service", base_url.rstrip("/"), headers))

    def is_ready(self) -> bool:
        """A request may cost money, so one is sent only after a failure."""
        return self._last is None or super().is_ready()

    def _request(self, texts: list[str], seconds: float) -> "Floats":
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        check_key = "Check OPENAI_API_KEY."
        answer = self._service.post("/embeddings", body, seconds, {401: check_key, 403: check_key})
        try:
            found = [entry["embedding"] for entry in sorted(answer["data"], key=lambda entry: entry["index"])]
        except (KeyError, TypeError) as exc:
            raise Unavailable(f"{self._service.name} answered in an unknown format.") from exc
        return self._service.vectors(found, len(texts))


def ollama_url(host: str) -> str:
    """OLLAMA_HOST as Ollama itself reads it: scheme and port may be missing, 0.0.0.0 means this machine."""
    host = host.strip()
    bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") and "://" not in host else host
    try:
        address = urlsplit(bare if "://" in bare else f"//{bare}")
        port = address.port or {"http": 80, "https": 443}.get(address.scheme, 11434)
    except ValueError:  # not an address: the first request fails
        return host
    name = address.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104
    shown = f"[{name}]" if ":" in name else name
    return f"{address.scheme or 'http'}://{shown}:{port}{address.path.rstrip('/')}"


def _prefixes(model: str) -> Prefixes:
    name = model.rsplit("/", 1)[-1]
    return next((found for known, found in KNOWN_PREFIXES.items() if name.startswith(known)), Prefixes())
