"""A local embedding service with Ollama's and OpenAI's protocols, whose answers can be made faulty."""

import json
import math
import re
import socket
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import numpy as np

from memory_mcp.services.search.vectors import Floats

DIMENSIONS = 64
MAX_HANG_S = 30.0  # a test that waits this long has failed

Vectors = list[list[float]]


@dataclass(frozen=True)
class ServiceRequest:
    """A received request."""

    path: str
    model: str
    texts: tuple[str, ...]
    headers: dict[str, str]


@dataclass(frozen=True)
class Fault:
    """What is wrong with the answers."""

    status: int = 200
    body: bytes | None = None  # instead of JSON
    spoil: Callable[[Vectors], Any] = lambda vectors: vectors
    hangs: bool = False


HEALTHY = Fault()
FAULTS = {
    "status 500": Fault(status=500),
    "status 404": Fault(status=404, body=b'{"error": "model not found"}'),
    "hanging": Fault(hangs=True),
    "no JSON": Fault(body=b"<html>A proxy's page</html>"),
    "JSON of another form": Fault(body=b'["embeddings"]'),
    "an empty body": Fault(body=b""),
    "no vectors": Fault(spoil=lambda vectors: None),
    "one vector too few": Fault(spoil=lambda vectors: vectors[1:]),
    "one vector too many": Fault(spoil=lambda vectors: [*vectors, vectors[0]]),
    "unequal lengths": Fault(spoil=lambda vectors: [[*vectors[0], 0.5], *vectors[1:], vectors[0]][: len(vectors)]),
    "empty vectors": Fault(spoil=lambda vectors: [[] for _ in vectors]),
    "numbers instead of vectors": Fault(spoil=lambda vectors: [1.0 for _ in vectors]),
    "words instead of numbers": Fault(spoil=lambda vectors: [["x", *vector[1:]] for vector in vectors]),
    "NaN": Fault(spoil=lambda vectors: [[math.nan, *vector[1:]] for vector in vectors]),
    "infinity": Fault(spoil=lambda vectors: [[-math.inf, *vector[1:]] for vector in vectors]),
    "a number beyond all bounds": Fault(spoil=lambda vectors: [[10**400, *vector[1:]] for vector in vectors]),
    "a number too large for 32 bits": Fault(spoil=lambda vectors: [[1e200, *vector[1:]] for vector in vectors]),
    "vectors without a direction": Fault(spoil=lambda vectors: [[0.0] * len(vector) for vector in vectors]),
}


@dataclass
class HeldRequests:
    """Requests with this word in a text, for one model or any, wait until they are released."""

    code: str
    model: str | None = None
    arrived: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def is_for(self, request: ServiceRequest) -> bool:
        return self.model in (None, request.model) and any(self.code in text for text in request.texts)


class FakeService:
    """Its vectors are bags of hashed words: texts that share words are near. Can be stopped and restarted on the same
    port."""

    def __init__(self) -> None:
        self.requests: list[ServiceRequest] = []
        self.dimensions: dict[str, int] = {}  # of models with other than DIMENSIONS
        self.pause = 0.0  # seconds before each answer
        self.refused_word = ""  # requests with a text that has this word fail
        self._fault = HEALTHY
        self._held: list[HeldRequests] = []
        self._repaired = threading.Event()
        self._closed = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        self._closed.set()
        self.repair()
        self.release()
        self.stop()

    def set_fault(self, fault: Fault) -> None:
        self._repaired.clear()
        self._fault = fault

    def repair(self) -> None:
        self._fault = HEALTHY
        self._repaired.set()

    def hold(self, word: str, model: str | None = None) -> HeldRequests:
        held = HeldRequests(word, model)
        self._held.append(held)
        return held

    def release(self) -> None:
        for held in self._held:
            held.release.set()

    def texts(self, model: str | None = None) -> Counter[str]:
        """How often each text was received."""
        return Counter(
            text for request in list(self.requests) for text in request.texts if model in (None, request.model)
        )

    def vector(self, text: str, model: str = "") -> Floats:
        """The answer for a text, of unit length."""
        vector = np.array(self._vector(text, model), dtype=np.float32)
        return cast(Floats, vector / np.linalg.norm(vector))

    def _vector(self, text: str, model: str) -> list[float]:
        vector = [0.0] * self.dimensions.get(model, DIMENSIONS)
        for word in re.findall(r"\w+", text.lower()) or ["nothing"]:
            vector[zlib.crc32(word.encode()) % len(vector)] += 1.0
        return vector

    def answer(self, request: ServiceRequest) -> tuple[int, bytes]:
        self.requests.append(request)
        fault = self._fault
        if fault.hangs:
            self._repaired.wait(MAX_HANG_S)
        for held in [held for held in self._held if held.is_for(request)]:
            held.arrived.set()
            held.release.wait(MAX_HANG_S)
        self._closed.wait(self.pause)
        if self.refused_word and any(self.refused_word in text for text in request.texts):
            return 400, b'{"error": "input"}'
        if fault.body is not None or fault.status != 200:
            return fault.status, fault.body or b""
        vectors = fault.spoil([self._vector(text, request.model) for text in request.texts])
        form = _as_ollama if request.path == "/api/embed" else _as_openai
        return 200, json.dumps(form(vectors)).encode()


def _as_ollama(vectors: Any) -> dict[str, Any]:
    return {"model": "fake", "embeddings": vectors}


def _as_openai(vectors: Any) -> dict[str, Any]:
    """In reverse: the protocol guarantees an index, not an order."""
    entries = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors or [])]
    return {"object": "list", "data": entries[::-1]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: tests have clients that time out."""


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path not in ("/api/embed", "/v1/embeddings"):
                self.send_error(404)
                return
            request = ServiceRequest(self.path, body["model"], tuple(body["input"]), dict(self.headers.items()))
            status, answer = service.answer(request)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base class
            """Log nothing."""

    return Handler


@contextmanager
def running_service() -> Iterator[FakeService]:
    service = FakeService()
    try:
        yield service
    finally:
        service.close()


def closed_port() -> int:
    """A port on which no process listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
