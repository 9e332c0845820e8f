"""Every kind of answer waits until it may be made: with and without a handshake, in legacy SSE, and of the REST API."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from starlette.types import Message

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES
from memory_mcp.importers.operations import Importers
from memory_mcp.server import admission, http
from memory_mcp.server.admission import Admission
from memory_mcp.server.middleware import admission as middleware
from memory_mcp.server.tool_calls import ToolCalls
from tests.wire import HELLO, Http, modern_meta

pytestmark = pytest.mark.anyio
CALL = {"name": "list_projects", "arguments": {}}
Request = Callable[[], Any]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Admission:
    """The admission of the server that is started next, in which no request loses its permit by waiting."""
    made = Admission()
    monkeypatch.setattr(middleware, "Admission", lambda: made)
    monkeypatch.setattr(admission, "MAX_START_S", 3600.0)
    return made


@dataclass
class Eve:
    """A user with a key, and what she sends requests with."""

    app: App
    server: http.HttpServer
    client: httpx.AsyncClient
    has_left: asyncio.Event = field(default_factory=asyncio.Event)
    streams: list[asyncio.Task[None]] = field(default_factory=list)


@pytest.fixture
async def eve(app: App, gate: Admission) -> AsyncIterator[Eve]:
    key = app.access.keys.create(name="k", user=app.access.users.add("eve").id, scopes=ALL_SCOPES).raw
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {key}"}
    server = http.HttpServer(app)
    transport = httpx.ASGITransport(server.app, client=("127.0.0.1", 1))
    async with (
        server.app.router.lifespan_context(server.app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
    ):
        yield (eve := Eve(app, server, client))
        eve.has_left.set()
        await asyncio.gather(*eve.streams)
        await server.close_streams()


async def modern_call(eve: Eve) -> Request:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL | {"_meta": modern_meta()}}
    return lambda: eve.client.post("/mcp", json=body, headers=Http.modern_headers("tools/call", CALL))


async def call_in_session(eve: Eve) -> Request:
    hello = await eve.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    session = {"mcp-session-id": hello.headers["mcp-session-id"]}
    await eve.client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL}
    return lambda: eve.client.post("/mcp", json=body, headers=session)


async def rest_request(eve: Eve) -> Request:
    [user] = [user for user in eve.app.access.users.all() if user.name == "eve"]
    await eve.client.get("/sign-in", params={"token": eve.app.access.sign_ins.create_link_token(user.id)})
    return lambda: eve.client.get("/api/imports")


async def call_in_sse_stream(eve: Eve) -> Request:
    received: list[str] = []
    headers = [(name.encode(), value.encode()) for name, value in {**eve.client.headers, "host": "127.0.0.1"}.items()]
    scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/mcp/sse", "raw_path": b"/mcp/sse"}
    scope |= {"query_string": b"", "root_path": "", "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http"}

    async def receive() -> Message:
        await eve.has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        received.append(message.get("body", b"").decode())

    async def until(text: str) -> str:
        while text not in "".join(received):
            await anyio.lowlevel.checkpoint()
        return "".join(received)

    eve.streams.append(asyncio.create_task(eve.server.app(scope, receive, send)))
    path = (await until("\r\n\r\n")).partition("data: ")[2].split()[0]
    await eve.client.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    await until('"id":1')
    await eve.client.post(path, json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call() -> str:
        await eve.client.post(path, json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL})
        return await until('"id":2')

    return call


@pytest.mark.parametrize("prepare", [modern_call, call_in_session, call_in_sse_stream, rest_request])
async def test_an_answer_waits_until_it_may_be_made(
    eve: Eve, gate: Admission, prepare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = await prepare(eve)
    begun, may_end = threading.Event(), threading.Event()
    for owner, name in ((ToolCalls, "run"), (Importers, "history")):
        monkeypatch.setattr(owner, name, _blocking(getattr(owner, name), begun, may_end))
    answer = asyncio.ensure_future(send())
    while not begun.is_set():
        await anyio.lowlevel.checkpoint()
    other = await gate.acquire("another user")
    may_end.set()
    while not answer.done() and not gate._waiting:
        await anyio.lowlevel.checkpoint()
    assert not answer.done()
    other.release()
    assert await answer
    assert not gate._is_held


def _blocking(function: Callable[..., Any], begun: threading.Event, may_end: threading.Event) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        begun.set()
        may_end.wait()
        return function(*arguments)

    return call
