"""Whatever is sent, the server stays up, answers, blames the caller, and says nothing of its insides.

`make soak-fuzz` sends ten times as much.
"""

import io
import json
import os
import queue
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import httpx
import pytest

from tests.conftest import ERAS
from tests.events import TIMEOUT_S
from tests.processes import Process
from tests.server.fuzz_messages import Fuzz, Sent
from tests.wire import HELLO, Http, http_server, modern_meta

MESSAGES = int(os.environ.get("MEMORY_MCP_FUZZ_MESSAGES", "1000"))  # over each transport
SEED = int(os.environ.get("MEMORY_MCP_FUZZ_SEED", "20260728"))
AT_ONCE = 20  # lines sent before one waits for answers

INSIDES = re.compile(
    r"""/src/|site-packages|Traceback|File\ \\?"|pydantic|\.py\b
    |\w+\.db\b|apsw|SQLITE|no\ such\ (?:table|column)|constraint\ failed
    |\b(?-i:FROM|INTO|UPDATE)\ (?:notes|vault|session|project|entit|observ|relation|api_keys|keys|users|servers|holds)
    |The\ server\ failed\ here""",
    re.VERBOSE | re.IGNORECASE,
)


def indiscretions(text: str, data_dir: Path) -> list[str]:
    return INSIDES.findall(text) + ([str(data_dir)] if str(data_dir) in text else [])


def failures(log: str) -> list[str]:
    """What the server itself takes for its own mistake."""
    return [line for line in log.splitlines() if '"level": "error"' in line or "Traceback" in line]


@dataclass
class Client:
    """One that sends bad requests, and opens a new session when it has spoilt the old one."""

    server: Http
    modern: bool
    session: str | None = None

    def headers(self) -> dict[str, str]:
        if not self.modern and self.session is None:
            self.session = self.server.handshake()
        return self.server.headers(**({"mcp-session-id": self.session} if self.session else {}))

    def send(self, sent: Sent) -> tuple[int, str]:
        try:
            with self.server.client.stream(
                sent.method, sent.path, headers=_wire(sent.headers), content=sent.body
            ) as answer:
                text = _read(sent, answer)
        except httpx.LocalProtocolError:  # the client's own library does not send this
            return 400, ""
        if "mcp-session-id" in answer.headers:
            self._leave(answer.headers["mcp-session-id"])
        if sent.method == "DELETE":
            self.session = None
        return answer.status_code, text

    def _leave(self, session: str) -> None:
        """One that a bad request has opened."""
        if session != self.session:
            self.server.client.delete("/mcp", headers=self.server.headers(**{"mcp-session-id": session}))


def _wire(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]


def _read(sent: Sent, answer: httpx.Response) -> str:
    """All of it, or what a stream that stays open begins with."""
    if sent.method == "GET" and answer.headers.get("content-type", "").startswith("text/event-stream"):
        return ""
    text = ""
    for some in answer.iter_text():
        text += some
        assert not some.startswith(": ping"), (sent, text)  # it has been silent for long, and would be for ever
        if "notifications/subscriptions/acknowledged" in text:
            break
    return text


def raw_answer(server: Http, sent: bytes) -> str:
    address = httpx.URL(server.url)
    text = b""
    with (
        socket.create_connection((address.host, address.port or 80), timeout=TIMEOUT_S) as line,
        suppress(ConnectionError),
    ):
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)
        while some := line.recv(65536):
            text += some
    return text.decode("latin-1")


@pytest.mark.parametrize("era", ERAS)
def test_random_http_requests_do_not_break_it(tmp_path: Path, era: str, capfd: pytest.CaptureFixture[str]) -> None:
    with http_server(tmp_path, "--embedder", "none") as server:
        tools = server.modern("tools/list")["result"]["tools"]
        fuzz = Fuzz(SEED, tools, modern=era != "legacy")
        client = Client(server, modern=era != "legacy")
        for number in range(MESSAGES // 2):
            sent = fuzz.sent(client.headers())
            status, text = client.send(sent)
            assert status < 500, (number, sent, text)
            assert indiscretions(text, tmp_path) == [], (number, sent, text)
        for number in range(MESSAGES // 50):
            raw = fuzz.raw()
            text = raw_answer(server, raw)
            assert not text.startswith("HTTP/1.1 5"), (number, raw, text)
            assert indiscretions(text, tmp_path) == [], (number, raw, text)
        assert server.process.poll() is None
        assert server.client.get("/healthz").json()["status"] == "ok"
        assert server.modern_call("commit_memory", scope="vault", key="after all", content="c")["committed"]
    assert failures(capfd.readouterr().err) == []


@dataclass
class Pipe:
    """A stdio server, and all it says."""

    process: Process
    modern: bool
    lines: "queue.Queue[bytes]" = field(default_factory=queue.Queue)

    def write(self, line: bytes) -> None:
        stdin = cast(io.TextIOWrapper, self.process.stdin).buffer
        stdin.write(line + b"\n")
        stdin.flush()

    def request(self, id_: str, method: str, params: dict[str, Any]) -> None:
        whole = params | ({"_meta": modern_meta()} if self.modern else {})
        self.write(json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": whole}).encode())

    def until(self, id_: str) -> Iterator[str]:
        """Every line up to the answer to this request."""
        while True:
            line = self.lines.get(timeout=TIMEOUT_S).decode()
            yield line
            if json.loads(line).get("id") == id_:
                return

    def listen(self) -> None:
        for line in cast(IO[bytes], cast(io.TextIOWrapper, self.process.stdout).buffer):
            self.lines.put(line)


@contextmanager
def stdio_server(data_dir: Path, *, modern: bool) -> Iterator[Pipe]:
    arguments = ["--data-dir", data_dir, "--embedder", "none"]
    with Process(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        pipe = Pipe(process, modern)
        listening = threading.Thread(target=pipe.listen)
        listening.start()
        try:
            if not modern:
                pipe.request("hello", "initialize", HELLO)
                list(pipe.until("hello"))
                pipe.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
            yield pipe
        finally:
            process.kill()
            listening.join()


@pytest.mark.parametrize("era", ERAS)
def test_random_stdio_messages_do_not_break_it(tmp_path: Path, era: str, capfd: pytest.CaptureFixture[str]) -> None:
    with stdio_server(tmp_path, modern=era != "legacy") as server:
        server.request("tools", "tools/list", {})
        *_, listed = server.until("tools")
        fuzz = Fuzz(SEED, json.loads(listed)["result"]["tools"], modern=era != "legacy")
        for number in range(0, MESSAGES // 2, AT_ONCE):
            sent = [fuzz.body() for _ in range(AT_ONCE)]
            for body in sent:
                server.write(body)
            server.request(f"still there {number}", "prompts/list", {})
            for text in server.until(f"still there {number}"):
                assert json.loads(text)["jsonrpc"] == "2.0"
                assert indiscretions(text, tmp_path) == [], (sent, text)
        cast(IO[bytes], server.process.stdin).close()
        assert server.process.wait(timeout=TIMEOUT_S) == 0
    assert failures(capfd.readouterr().err) == []
