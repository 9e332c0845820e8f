"""The product as a process, spoken to over its raw wire."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import httpx

from tests.events import TIMEOUT_S, eventually
from tests.processes import COMMAND, Process, environment

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}
MODERN = "2026-07-28"
FORCED = "without waiting for the work"  # in the log of a server that did not end by itself


def modern_meta(**more: Any) -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
        **more,
    }


@dataclass
class Stdio:
    """A stdio server and the one client it has."""

    process: Process | subprocess.Popen[str]
    notifications: list[dict[str, Any]] = field(default_factory=list)
    received: int = 0  # messages
    _ids: int = 0

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *flags: str,
        env: dict[str, str] | None = None,
        stderr: IO[str] | None = None,
        hello: bool = True,
        is_fresh: bool = False,
    ) -> "Stdio":
        """`is_fresh`: in an interpreter of its own, for tests of what it reads at its start."""
        arguments, pipe = ["--data-dir", str(data_dir), *flags], subprocess.PIPE
        process: Process | subprocess.Popen[str]
        if is_fresh:
            command = [*COMMAND, *arguments]
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, env=env, encoding="utf-8")
        else:
            process = Process(arguments, stdin=pipe, stdout=pipe, stderr=stderr, env=env)
        server = cls(process)
        if hello:
            server.ask("initialize", HELLO)
            server.send({"method": "notifications/initialized"})
        return server

    def send(self, message: dict[str, Any]) -> None:
        stdin = cast(IO[str], self.process.stdin)
        stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        stdin.flush()

    def post(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request without waiting for its answer."""
        self._ids += 1
        self.send({"id": self._ids, "method": method, "params": params or {}})
        return self._ids

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The whole answer, with its result or error."""
        id_ = self.post(method, params)
        while (message := self.receive()).get("id") != id_:
            self.notifications.append(message)
        return message

    def receive(self) -> dict[str, Any]:
        line = cast(IO[str], self.process.stdout).readline()
        if not line:
            raise EOFError("the server closed its stdout")
        self.received += 1
        return cast(dict[str, Any], json.loads(line))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a tool call that must succeed."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        return cast(dict[str, Any], answer["result"]["structuredContent"])

    def read(self, uri: str) -> Any:
        return json.loads(self.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"])

    def close(self) -> int:
        """Close stdin, as a client does, and wait for the server to end by itself."""
        cast(IO[str], self.process.stdin).close()
        code = self.process.wait(timeout=TIMEOUT_S)
        cast(IO[str], self.process.stdout).close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                cast(IO[str], stream).close()


def kill_after(server: Stdio, messages: int) -> threading.Thread:
    """SIGKILL once the server has sent so many more, from a thread: whatever it does then may be hit."""
    wanted = server.received + messages

    def kill() -> None:
        eventually(lambda: server.received >= wanted)
        server.process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    return killer


def _message(response: httpx.Response) -> Any:
    """The answer, as JSON or, if the call took long, as the last message of an event stream."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        data = [line for line in response.text.splitlines() if line.startswith("data: ")]
        return json.loads(data[-1].removeprefix("data: "))
    return response.json()


@dataclass
class Http:
    """An HTTP server as a process, and a plain HTTP client connected to it."""

    process: Process | subprocess.Popen[str]
    url: str
    key: str | None
    client: httpx.Client
    printed: str
    data_dir: Path

    def headers(self, **more: str) -> dict[str, str]:
        bearer = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Accept": "application/json, text/event-stream", **bearer, **more}

    def modern(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """One request of the protocol without a handshake."""
        response = self.client.post(
            "/mcp",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": method,
                "params": {**(params or {}), "_meta": modern_meta(**meta)},
            },
            headers=self.headers(**self.modern_headers(method, params or {})),
        )
        return cast(dict[str, Any], _message(response))

    @staticmethod
    def modern_headers(method: str, params: dict[str, Any]) -> dict[str, str]:
        name = params.get("name") or params.get("uri")
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})

    def modern_call(self, tool: str, _meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        answer = self.modern("tools/call", {"name": tool, "arguments": arguments}, **(_meta or {}))
        assert "result" in answer, answer
        return cast(dict[str, Any], answer["result"]["structuredContent"])

    def handshake(self, client_info: dict[str, Any] | None = None) -> str:
        """Open a session by a handshake and return its id."""
        hello = HELLO | ({"clientInfo": client_info} if client_info else {})
        response = self.client.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, headers=self.headers()
        )
        response.raise_for_status()
        session = response.headers["mcp-session-id"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.client.post("/mcp", json=note, headers=self.headers(**{"mcp-session-id": session}))
        return str(session)

    def legacy(self, session: str, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self.client.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}},
            headers=self.headers(**{"mcp-session-id": session}),
        )
        response.raise_for_status()
        answers = [json.loads(data) for data in re.findall(r"^data: (.+)$", response.text, re.MULTILINE)]
        return next(cast(dict[str, Any], answer) for answer in answers if "id" in answer)

    @property
    def link(self) -> str:
        """The sign-in link that the first start prints."""
        found = re.search(r"http://\S+/sign-in\?token=\S+", self.printed)
        assert found is not None, self.printed
        return found[0]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=TIMEOUT_S)


@contextmanager
def http_server(data_dir: Path, *flags: str, port: int = 0, **more: Any) -> Iterator[Http]:
    """`port` is needed where a public URL is all that is printed. With `more`, subprocess.Popen starts it; `command` is
    that of another installation."""
    arguments = ["--transport", "http", "--port", str(port), "--data-dir", str(data_dir), *flags]
    process: Process | subprocess.Popen[str]
    if more:
        command = [*more.pop("command", COMMAND), *arguments]
        options = {"env": environment(), "encoding": "utf-8"} | more
        process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
    else:
        process = Process(arguments, stdout=subprocess.PIPE)
    printed = _read_banner(process)
    url = re.search(r"http://\S+?:\d+", f"http://127.0.0.1:{port}" if port else printed)
    key = re.search(r"^  (mmcp_\S+)$", printed, re.MULTILINE)
    assert url is not None, printed
    try:
        with httpx.Client(base_url=url[0], timeout=TIMEOUT_S) as client:
            _wait_until_up(client, process)
            yield Http(process, url[0], key[1] if key else None, client, printed, data_dir)
    finally:
        process.kill()
        process.wait()
        cast(IO[str], process.stdout).close()


def _read_banner(process: Process | subprocess.Popen[str]) -> str:
    lines: list[str] = []
    for line in cast(IO[str], process.stdout):
        lines.append(line)
        if "VS Code" in line:
            break
    return "".join(lines)


class ServerEnded(Exception):
    """A server ended before it answered a request."""


def _wait_until_up(client: httpx.Client, process: Process | subprocess.Popen[str]) -> None:
    def is_up() -> bool:
        try:
            return client.get("/healthz").is_success
        except httpx.ConnectError:
            if process.poll() is not None:
                raise ServerEnded from None
            return False

    eventually(is_up)
