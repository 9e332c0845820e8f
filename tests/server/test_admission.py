"""Requests start and are answered in a fair order: a user who sends many delays their own, not those of others."""

import asyncio
import threading

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Message, Receive, Scope, Send

from memory_mcp.caller import ALL_SCOPES, Caller
from memory_mcp.server import admission
from memory_mcp.server.admission import Admission, RecentUse, release_current
from memory_mcp.server.middleware.admission import AdmissionMiddleware
from memory_mcp.server.request_context import CALLER, owner_of
from memory_mcp.server.thread_pools import Workers

pytestmark = pytest.mark.anyio


async def test_the_user_with_the_least_recent_use_goes_first() -> None:
    gate, order = Admission(), []
    held = await gate.acquire("another user")
    for _ in range(3):
        gate._usage.add("eve", 1)

    async def start(user: str) -> None:
        permit = await gate.acquire(user)
        order.append(user)
        permit.release()

    waiting = [asyncio.ensure_future(start(user)) for user in ("eve", "eve", "ann", "bob", "ann")]
    await anyio.wait_all_tasks_blocked()
    held.release()
    await asyncio.gather(*waiting)
    assert order == ["ann", "bob", "ann", "eve", "eve"]


async def test_a_long_body_counts_more() -> None:
    gate = Admission()
    (await gate.acquire("eve", 1_000_000)).release()
    for _ in range(5):
        (await gate.acquire("ann")).release()
    assert gate._usage.of("eve") > gate._usage.of("ann")


async def test_a_cancelled_request_passes_its_permit_on() -> None:
    gate = Admission()
    held = await gate.acquire("another user")
    left, granted, last = (asyncio.ensure_future(gate.acquire(user)) for user in ("a", "b", "c"))
    await anyio.wait_all_tasks_blocked()
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    held.release()  # to b, who is cancelled before it notices
    granted.cancel()
    (await last).release()
    assert not gate._is_held
    await gate.acquire("d")
    held.release()  # only the first counts
    assert gate._is_held


async def test_a_request_that_waits_for_something_else_lets_others_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_START_S", 0.0)
    gate = Admission()
    await gate.acquire("another user")
    await gate.acquire("ann")


def test_use_counts_less_after_a_while() -> None:
    now = [100.0]
    usage = RecentUse(lambda: now[0])
    usage.add("eve", 8)
    now[0] += admission.HALF_LIFE_S * 3
    assert usage.of("eve") == pytest.approx(1)
    assert usage.of("an unknown user") == 0


def test_the_oldest_users_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_USERS", 2)
    usage = RecentUse(lambda: 0.0)
    for user in ("a", "b", "a", "c"):
        usage.add(user, 1)
    assert (usage.of("a"), usage.of("b"), usage.of("c")) == (2, 0, 1)


class Request:
    """A POST of one user, whose body comes in the given parts."""

    def __init__(self, user: str, *parts: bytes) -> None:
        self.scope: Scope = {"type": "http", "method": "POST", CALLER: Caller(user, ALL_SCOPES, frozenset())}
        self._parts = list(parts)

    async def receive(self) -> Message:
        return {"type": "http.request", "body": self._parts.pop(0), "more_body": bool(self._parts)}

    async def send(self, message: Message) -> None:
        raise AssertionError("nothing is answered here")


async def test_a_request_whose_body_has_not_come_holds_nothing() -> None:
    held: list[bool] = []

    async def read_body(scope: Scope, receive: Receive, send: Send) -> None:
        is_complete = False
        while not is_complete:
            is_complete = not (await receive())["more_body"]
            held.append(middleware._admission._is_held)
        release_current()  # as at the start of its thread
        held.append(middleware._admission._is_held)

    middleware = AdmissionMiddleware(read_body)
    request = Request("ann", b"a", b"b", b"c")
    await middleware(request.scope, request.receive, request.send)
    assert held == [False, False, True, False]


async def test_the_requests_of_another_user_start_before_a_flood() -> None:
    started: list[str] = []

    async def read_body(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        started.append(scope[CALLER].user)

    middleware = AdmissionMiddleware(read_body)
    held = await middleware._admission.acquire("another user")
    requests = [Request(user, b"{}") for user in ["eve"] * 6 + ["ann"] * 2]
    calls = [asyncio.ensure_future(middleware(sent.scope, sent.receive, sent.send)) for sent in requests]
    await anyio.wait_all_tasks_blocked()
    held.release()
    await asyncio.gather(*calls)
    assert started == ["eve", "ann", "eve", "ann", *["eve"] * 4]  # by turns: both have used nothing before


async def test_the_requests_of_another_user_start_before_the_answers_to_a_flood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer of a megabyte takes the event loop as long as many requests."""
    monkeypatch.setattr(admission, "MAX_START_S", 60.0)
    done: list[str] = []
    workers, may_end = Workers("reading", 32), threading.Event()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if (user := scope[CALLER].user) == "eve":
            await workers.run(may_end.wait, user=user, family="notes")
        done.append(user)

    middleware = AdmissionMiddleware(answer)
    eve = [Request("eve", b"{}") for _ in range(4)]
    calls = [asyncio.ensure_future(middleware(sent.scope, sent.receive, sent.send)) for sent in eve]
    await anyio.wait_all_tasks_blocked()
    held = await middleware._admission.acquire("another user")
    may_end.set()
    while not done and sum(map(len, middleware._admission._waiting.values())) < 4:
        await anyio.lowlevel.checkpoint()
    assert workers.slots.held == 4  # results that wait count as threads
    ann = Request("ann", b"{}")
    calls.append(asyncio.ensure_future(middleware(ann.scope, ann.receive, ann.send)))
    await anyio.wait_all_tasks_blocked()
    assert done == []
    held.release()
    await asyncio.gather(*calls)
    assert done == ["ann", *["eve"] * 4]
    assert workers.slots.held == 0


async def test_the_permit_of_a_request_that_has_ended_is_not_held_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is begun in the context of its first request, and outlives it."""
    monkeypatch.setattr(admission, "MAX_START_S", 60.0)
    gate = Admission()
    permit = await gate.acquire("ann")
    permit.end()
    await permit.reacquire()
    assert not gate._is_held
    left = await gate.acquire("ann")
    left.release()
    held = await gate.acquire("another user")
    waiting = asyncio.ensure_future(left.reacquire())
    await anyio.wait_all_tasks_blocked()
    left.end()
    held.release()
    await waiting
    assert not gate._is_held


async def test_a_long_answer_counts_more() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.body", "body": b"x" * 1_000_000})

    async def ignore(message: Message) -> None: ...

    middleware = AdmissionMiddleware(answer)
    request = Request("eve", b"{}")
    await middleware(request.scope, request.receive, ignore)
    assert middleware._admission._usage.of(owner_of(request.scope)) > 10
