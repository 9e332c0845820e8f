"""An embedding service on this machine that speaks Ollama's and OpenAI's protocol, and can be given trouble."""

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

from memory_mcp.search.vectors import Floats

DIMENSIONS = 64
MAX_HANG_S = 30.0  # seconds; a test that waits this long has failed anyway

Vectors = list[list[float]]


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    path: str
    model: str
    texts: tuple[str, ...]
    headers: dict[str, str]


@dataclass(frozen=True)
class Trouble:
    """What is wrong with the answers."""

    status: int = 200
    body: bytes | None = None  # instead of JSON
    spoil: Callable[[Vectors], Any] = lambda vectors: vectors
    hangs: bool = False


WELL = Trouble()
TROUBLES = {
    "status 500": Trouble(status=500),
    "status 404": Trouble(status=404, body=b'{"error": "model not found"}'),
    "hanging": Trouble(hangs=True),
    "no JSON": Trouble(body=b"<html>A proxy's page</html>"),
    "JSON of another form": Trouble(body=b'["embeddings"]'),
    "an empty body": Trouble(body=b""),
    "no vectors": Trouble(spoil=lambda vectors: None),
    "one vector too few": Trouble(spoil=lambda vectors: vectors[1:]),
    "one vector too many": Trouble(spoil=lambda vectors: [*vectors, vectors[0]]),
    "unequal lengths": Trouble(spoil=lambda vectors: [[*vectors[0], 0.5], *vectors[1:], vectors[0]][: len(vectors)]),
    "empty vectors": Trouble(spoil=lambda vectors: [[] for _ in vectors]),
    "numbers instead of vectors": Trouble(spoil=lambda vectors: [1.0 for _ in vectors]),
    "words instead of numbers": Trouble(spoil=lambda vectors: [["x", *vector[1:]] for vector in vectors]),
    "NaN": Trouble(spoil=lambda vectors: [[math.nan, *vector[1:]] for vector in vectors]),
    "infinity": Trouble(spoil=lambda vectors: [[-math.inf, *vector[1:]] for vector in vectors]),
    "a number beyond all bounds": Trouble(spoil=lambda vectors: [[10**400, *vector[1:]] for vector in vectors]),
    "a number too large for 32 bits": Trouble(spoil=lambda vectors: [[1e200, *vector[1:]] for vector in vectors]),
    "vectors without a direction": Trouble(spoil=lambda vectors: [[0.0] * len(vector) for vector in vectors]),
}


@dataclass
class Held:
    """Requests that have this word in a text, of one model or of any, wait until they are let go."""

    code: str
    model: str | None = None
    arrived: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def is_for(self, asked: Asked) -> bool:
        return self.model in (None, asked.model) and any(self.code in text for text in asked.texts)


class FakeService:
    """Its vectors are bags of hashed words: texts that share words are near. May be stopped, and started again on the
    same port."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.dimensions: dict[str, int] = {}  # of models that have others than most
        self.pause = 0.0  # seconds that each answer takes
        self.refused_word = ""  # a text that has it spoils the request it is in
        self._trouble = WELL
        self._held: list[Held] = []
        self._mended = threading.Event()
        self._over = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = _Listening(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        self._over.set()
        self.mend()
        self.let_go()
        self.stop()

    def get_into(self, trouble: Trouble) -> None:
        self._mended.clear()
        self._trouble = trouble

    def mend(self) -> None:
        self._trouble = WELL
        self._mended.set()

    def hold(self, word: str, model: str | None = None) -> Held:
        held = Held(word, model)
        self._held.append(held)
        return held

    def let_go(self) -> None:
        for held in self._held:
            held.let_go.set()

    def texts(self, model: str | None = None) -> Counter[str]:
        """How often each text came in."""
        return Counter(text for asked in list(self.asked) for text in asked.texts if model in (None, asked.model))

    def vector(self, text: str, model: str = "") -> Floats:
        """What it answers for a text, of unit length."""
        vector = np.array(self._vector(text, model), dtype=np.float32)
        return cast(Floats, vector / np.linalg.norm(vector))

    def _vector(self, text: str, model: str) -> list[float]:
        vector = [0.0] * self.dimensions.get(model, DIMENSIONS)
        for word in re.findall(r"\w+", text.lower()) or ["nothing"]:
            vector[zlib.crc32(word.encode()) % len(vector)] += 1.0
        return vector

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        self.asked.append(asked)
        trouble = self._trouble
        if trouble.hangs:
            self._mended.wait(MAX_HANG_S)
        for held in [held for held in self._held if held.is_for(asked)]:
            held.arrived.set()
            held.let_go.wait(MAX_HANG_S)
        self._over.wait(self.pause)
        if self.refused_word and any(self.refused_word in text for text in asked.texts):
            return 400, b'{"error": "input"}'
        if trouble.body is not None or trouble.status != 200:
            return trouble.status, trouble.body or b""
        vectors = trouble.spoil([self._vector(text, asked.model) for text in asked.texts])
        form = _as_ollama if asked.path == "/api/embed" else _as_openai
        return 200, json.dumps(form(vectors)).encode()


def _as_ollama(vectors: Any) -> dict[str, Any]:
    return {"model": "fake", "embeddings": vectors}


def _as_openai(vectors: Any) -> dict[str, Any]:
    """The last first: the protocol promises an index and no order."""
    entries = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors or [])]
    return {"object": "list", "data": entries[::-1]}


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that lost its patience is what the tests are about."""


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path not in ("/api/embed", "/v1/embeddings"):
                self.send_error(404)
                return
            asked = Asked(self.path, body["model"], tuple(body["input"]), dict(self.headers.items()))
            status, answer = service.answer(asked)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base class
            """Tests read what the product logs, not this."""

    return Handler


@contextmanager
def running_service() -> Iterator[FakeService]:
    service = FakeService()
    try:
        yield service
    finally:
        service.close()


def closed_port() -> int:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
