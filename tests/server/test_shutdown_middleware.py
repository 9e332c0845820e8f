"""Requests to a server that ends: refused, or answered as unavailable, or without their connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.server.middleware.error_format import ErrorFormatMiddleware
from memory_mcp.server.middleware.shutdown import ShutdownMiddleware
from memory_mcp.server.unanswered_requests import UnansweredRequests


class SlowApp:
    """Answers when it is allowed to."""

    def __init__(self) -> None:
        self.is_reached, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.is_reached.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


@asynccontextmanager
async def write_under_way(app: SlowApp, requests: UnansweredRequests) -> "AsyncIterator[asyncio.Task[httpx.Response]]":
    """A request that has reached the app, which has not answered."""
    async with client_of(ShutdownMiddleware(app, requests)) as client:
        write = asyncio.create_task(client.post("/mcp"))
        await app.is_reached.wait()
        yield write


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/mcp", "/api/notes"])
async def test_a_server_that_ends_refuses_requests(path: str) -> None:
    requests = UnansweredRequests()
    requests.end()
    async with client_of(ErrorFormatMiddleware(ShutdownMiddleware(SlowApp(), requests))) as client:
        refused = await client.post(path)
    assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
    assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
    assert "may_have_happened" not in refused.json()["data"]


@pytest.mark.anyio
async def test_a_server_that_ends_waits_for_the_requests_that_change_something() -> None:
    requests, app = UnansweredRequests(), SlowApp()
    async with write_under_way(app, requests) as write:
        requests.end()
        waiting = asyncio.create_task(requests.wait_until_answered(60))
        app.may_answer.set()
        await waiting
        assert (await write).text == "done"


@pytest.mark.anyio
async def test_a_request_that_is_cut_off_is_answered_as_unavailable() -> None:
    requests, app = UnansweredRequests(), SlowApp()
    async with write_under_way(app, requests) as write:
        requests.end()
        write.cancel()  # as uvicorn cancels its task
        refused = await write
    assert (refused.status_code, refused.json()["data"]["may_have_happened"]) == (503, True)


@pytest.mark.anyio
async def test_a_request_that_is_cancelled_while_the_server_runs_stays_cancelled() -> None:
    async with write_under_way(SlowApp(), UnansweredRequests()) as write:
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write


@pytest.mark.anyio
async def test_an_answer_that_has_begun_is_not_completed_by_another_one() -> None:
    requests, sent = UnansweredRequests(), list[Message]()

    async def begin(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        requests.end()
        raise asyncio.CancelledError

    async def keep(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await ShutdownMiddleware(begin, requests)({"type": "http", "method": "POST"}, receive, keep)
    assert [message["type"] for message in sent] == ["http.response.start"]
