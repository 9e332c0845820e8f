"""A hostile hub: a real HTTP server that speaks the protocol with answers chosen by a test."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from memory_mcp.clock import precise_stamp

ChangeAnswer = Callable[[str, dict[str, Any]], dict[str, Any]]


@dataclass
class HostileHub:
    """`records` go into the next answer; `change` edits any answer; `send` writes anything else."""

    url: str = ""
    records: list[Any] = field(default_factory=list)
    change: ChangeAnswer = lambda verb, answer: answer
    send: Callable[[BaseHTTPRequestHandler, str], bool] = lambda request, verb: False
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cursor: int = 0

    @property
    def received(self) -> str:
        """Everything that nodes have sent."""
        return json.dumps(self.requests, ensure_ascii=False)

    def pushed(self) -> dict[str, Any]:
        """The last record of each note that nodes have pushed."""
        return {one["id"]: one for verb, arguments in self.requests if verb == "push" for one in arguments["records"]}

    def answer(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((verb, arguments))
        given = {"now": precise_stamp(datetime.now(UTC)), "ticket": f"t{len(self.requests)}"}
        is_exchange = verb == "pull" and arguments["namespace"] != "?"  # `sync link` pulls "?" and merges nothing
        records, self.records = (self.records, []) if is_exchange else ([], self.records)
        if verb == "push":
            return self.change(verb, {**given, "refused": [], "merged": records})
        self.cursor = max(self.cursor, arguments["after"]) + len(records)
        return self.change(verb, {**given, "cursor": self.cursor, "records": records, "left": 0})


@contextmanager
def hostile_hub() -> Iterator[HostileHub]:
    hub = HostileHub()

    class Request(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            verb = self.path.rpartition("/")[2]
            hub.headers.append(dict(self.headers))
            arguments = json.loads(gzip.decompress(body))
            if not hub.send(self, verb):
                reply(self, json.dumps(hub.answer(verb, arguments)).encode())

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(request: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    request.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)


def constant_reply(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler, str], bool]:
    """For `send`: the same answer to everything."""

    def send(request: BaseHTTPRequestHandler, verb: str) -> bool:
        reply(request, body, status, **headers)
        return True

    return send
