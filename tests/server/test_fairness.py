"""No caller holds more than its share of the server's threads, waiting ends, and hanging up cancels."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx
import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.errors import Unavailable
from memory_mcp.server import http
from memory_mcp.server.http import HANDSHAKE_BURST
from memory_mcp.server.middleware.pace import Pace
from memory_mcp.server.thread_pools import HASHING_NICENESS, ONE_USER, Pools, Shares, Slots, Workers
from memory_mcp.services.access.sign_ins import MAX_ATTEMPTS_PER_ADDRESS
from memory_mcp.settings import Settings
from tests.events import TIMEOUT_S, eventually
from tests.processes import run
from tests.wire import HELLO, MODERN, Http, Stdio, http_server, modern_meta

pytestmark = pytest.mark.anyio
WRITE_THREADS = 8
T = TypeVar("T")


# The mechanism


async def test_users_and_families_have_their_shares() -> None:
    slots = Slots(16, Shares(), 0.001)
    for _ in range(4):
        await slots.acquire("eve", "portals")
    with pytest.raises(Unavailable) as refused:
        await slots.acquire("eve", "portals")
    assert refused.value.data["retry_after"] > 0
    for _ in range(4):
        await slots.acquire("eve", "notes")
    with pytest.raises(Unavailable):
        await slots.acquire("eve", "vault")  # half of the threads are hers
    for user in ("mallory", "trent"):
        for _ in range(4):
            await slots.acquire(user, "portals")
    with pytest.raises(Unavailable):
        await slots.acquire("ann", "portals")  # three quarters of all threads are in this family
    assert slots.held == 16
    slots.release("eve", "notes")
    await slots.acquire("ann", "notes")
    assert slots.waiting == 0


async def test_free_threads_go_round_robin_to_waiting_users() -> None:
    slots = Slots(2, Shares(user=1.0, user_family=1.0, family=1.0), 60)
    await slots.acquire("eve", "notes")
    await slots.acquire("eve", "notes")
    order: list[str] = []

    async def wait(user: str) -> None:
        await slots.acquire(user, "notes")
        order.append(user)
        slots.release(user, "notes")

    waiting = [asyncio.ensure_future(wait(user)) for user in ("eve", "eve", "eve", "ann", "bob")]
    await anyio.wait_all_tasks_blocked()  # each is in the queue now
    slots.release("eve", "notes")
    await asyncio.gather(*waiting)
    assert order == ["eve", "ann", "bob", "eve", "eve"]


async def test_a_cancelled_call_leaves_the_queue_but_keeps_its_thread_once_begun() -> None:
    workers = Workers("test", 2, shares=Shares(user=0.5, user_family=0.5, family=1.0))
    began, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        let_go.wait(TIMEOUT_S)

    first = asyncio.ensure_future(workers.run(hold, user="eve", family="notes"))
    await asyncio.to_thread(began.wait, TIMEOUT_S)
    second = asyncio.ensure_future(workers.run(lambda: 1 / 0, user="eve", family="notes"))
    await anyio.wait_all_tasks_blocked()
    assert workers.slots.waiting == 1
    for given_up in (second, first):
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    assert (workers.slots.waiting, workers.slots.held) == (0, 1)
    let_go.set()
    assert await workers.run(lambda: 42, user="eve", family="notes") == 42
    assert workers.drain(30)


async def test_one_local_user_with_many_quick_calls_is_never_refused() -> None:
    workers = Workers("test", 4, shares=ONE_USER)
    answers = await asyncio.gather(*(workers.run(lambda n=n: n, user="local", family="notes") for n in range(1000)))  # type: ignore[misc]
    assert answers == list(range(1000))


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of each thread")
async def test_only_the_threads_that_compare_unknown_keys_have_a_low_priority() -> None:
    """Every call of a known key passes the others, again and again."""
    pools, own = Pools.from_settings(Settings(transport="http")), os.getpriority(os.PRIO_PROCESS, 0)

    def added() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) - own

    given = {
        pool.name: await pool.run(added, user="eve", family="keys")
        for pool in (pools.reading, pools.writing, pools.access, pools.hashing)
    }
    assert given == {"reading": 0, "writing": 0, "access": 0, "hashing": HASHING_NICENESS}


# Over the wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    flags = ["--embedder", "none", "--queue-seconds", "2", "--write-threads", str(WRITE_THREADS)]
    with http_server(tmp_path_factory.mktemp("fair"), *flags) as running:
        yield running


def cli(server: Http, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--data-dir", server.data_dir, "--json", check=True).stdout)


@pytest.fixture(scope="module")
def eve(server: Http) -> Http:
    cli(server, "users", "add", "eve")
    key = cli(server, "keys", "create", "--user", "eve", "--name", "k")["key"]
    made = replace(server, key=key)
    made.modern_call("commit_memory", scope="vault", key="there", content="c")
    return made


@contextmanager
def locked_vault(server: Http) -> Iterator[None]:
    """Another process writes to eve's file and does not finish: whatever writes there waits."""
    [file] = server.data_dir.glob("users/*/memory.db")
    lock = Path(f"{file}.lock")
    assert lock.exists()
    with FileLock(lock).acquire():
        yield


def commit(key: str) -> dict[str, Any]:
    return {"name": "commit_memory", "arguments": {"scope": "vault", "key": key, "content": "c"}}


def gauge(server: Http, name: str, pool: str) -> int:
    found = re.search(rf'^{name}{{pool="{pool}"}} (\S+)$', server.client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def until_gauge(server: Http, name: str, value: int) -> None:
    eventually(lambda: gauge(server, name, "writing") == value)


def first_done(under_way: list[Future[T]], count: int) -> list[T]:
    return [one.result() for one in islice(as_completed(under_way), count)]


def test_a_user_who_blocks_threads_gets_retry_after_and_blocks_no_other(server: Http, eve: Http) -> None:
    def attack(number: int) -> dict[str, Any]:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            return replace(eve, client=client).modern("tools/call", commit(f"attack-{number}"))

    with ThreadPoolExecutor(24) as attackers:
        with locked_vault(server):
            under_way = [attackers.submit(attack, number) for number in range(24)]
            until_gauge(server, "memory_mcp_threads_busy", 2)  # a quarter of eight, for one user in one family
            assert server.modern_call("commit_memory", scope="vault", key="mine", content="c")["committed"]
            assert eve.modern("tools/call", {"name": "list_projects", "arguments": {}})["result"]
            for refused in first_done(under_way, 22):
                assert refused["error"]["data"] == {"error": "unavailable", "retry_after": 5}
        assert sum("result" in one.result() for one in under_way) == 2  # what had begun is done in the end


def test_wrong_keys_wait_in_threads_of_their_own(server: Http, eve: Http) -> None:
    create = [sys.executable, "-m", "memory_mcp", "keys", "create", "--user", "eve", "--name", "slow", "--json"]
    created = subprocess.run([*create, "--data-dir", server.data_dir], check=True, capture_output=True)
    wrong = json.loads(created.stdout)["key"][:-4] + "zzzz"  # of a process whose hashes are not the tests' cheap ones

    def attack(_: int) -> int:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            return client.post("/mcp", headers={"Authorization": f"Bearer {wrong}"}, json={}).status_code

    with ThreadPoolExecutor(24) as attackers:
        under_way = [attackers.submit(attack, number) for number in range(24)]
        eventually(lambda: gauge(server, "memory_mcp_calls_waiting", "hashing") > 0)
        assert gauge(server, "memory_mcp_threads_busy", "hashing") == 4  # half of eight, for one address
        assert gauge(server, "memory_mcp_calls_waiting", "access") == 0
        assert eve.modern_call("commit_memory", scope="vault", key="there", content="c")["committed"]
        # The others waited for longer than queue_seconds.
        assert {one.result() for one in under_way} <= {401, 503}


def test_passwords_are_compared_in_the_same_threads_as_wrong_keys(server: Http, eve: Http) -> None:
    def guess(number: int) -> int:
        body = {"name": f"unknown-{number}", "password": "a wrong password"}
        return httpx.post(f"{server.url}/api/sign-in", json=body, timeout=60).status_code

    guesses = MAX_ATTEMPTS_PER_ADDRESS - 4  # other tests sign in from the same address
    with ThreadPoolExecutor(guesses) as attackers:
        under_way = [attackers.submit(guess, number) for number in range(guesses)]
        eventually(lambda: gauge(server, "memory_mcp_calls_waiting", "hashing") > 0)
        assert gauge(server, "memory_mcp_calls_waiting", "access") == 0
        assert eve.modern_call("commit_memory", scope="vault", key="there", content="c")["committed"]
        assert {one.result() for one in under_way} <= {401, 503}


async def test_handshakes_of_one_user_beyond_a_rate_wait(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other request: neither of another user, nor one in a session, nor one without a handshake."""
    monkeypatch.setattr(http, "Pace", lambda _, burst: Pace(1 / 3600, burst, now=lambda: 0.0))
    users = {name: app.access.users.add(name).id for name in ("eve", "ann")}
    keys = {name: app.access.keys.create(name="k", user=user, scopes=ALL_SCOPES).raw for name, user in users.items()}
    server = http.HttpServer(app)
    transport = httpx.ASGITransport(server.app, client=("127.0.0.1", 1))
    async with (
        server.app.router.lifespan_context(server.app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        anyio.create_task_group() as attackers,
    ):

        async def post(user: str, message: dict[str, Any], **headers: str) -> httpx.Response:
            accept = "application/json, text/event-stream"
            own = {"Accept": accept, "Authorization": f"Bearer {keys[user]}", **headers}
            answer = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, **message}, headers=own)
            return answer.raise_for_status()

        shake_hands = {"method": "initialize", "params": HELLO}
        sessions = [(await post("eve", shake_hands)).headers["mcp-session-id"] for _ in range(HANDSHAKE_BURST + 1)]
        opened: list[httpx.Response] = []

        async def attack() -> None:
            opened.append(await post("eve", shake_hands))

        for _ in range(8):
            attackers.start_soon(attack)
        assert "mcp-session-id" in (await post("ann", shake_hands)).headers
        assert "result" in (await post("eve", {"method": "ping"}, **{"mcp-session-id": sessions[0]})).text
        modern = {"method": "tools/call", "params": commit("k") | {"_meta": modern_meta()}}
        assert "committed" in (await post("eve", modern, **Http.modern_headers("tools/call", commit("k")))).text
        assert not opened
        attackers.cancel_scope.cancel()
    await server.close_streams()


def test_rest_has_the_same_shares_and_says_retry_after(server: Http, eve: Http) -> None:
    printed = cli(server, "users", "link", "eve")
    answer = httpx.get(f"{server.url}/sign-in", params={"token": str(printed).partition("token=")[2][:43]})
    cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    def post(number: int) -> httpx.Response:
        body = {"scope": "vault", "key": f"rest-{number}", "content": "c"}
        return httpx.post(f"{server.url}/api/tools/commit_memory", json=body, headers=cookie, timeout=60)

    with ThreadPoolExecutor(8) as people:
        with locked_vault(server):
            under_way = [people.submit(post, number) for number in range(8)]
            assert httpx.get(f"{server.url}/api/me", headers=cookie).status_code == 200
            for refused in first_done(under_way, 6):
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                assert refused.json()["error"] == "unavailable"
        assert sorted(one.result().status_code for one in under_way) == [200] * 2 + [503] * 6


def raw_post(server: Http, who: Http, message: dict[str, Any], headers: dict[str, str]) -> socket.socket:
    """A request whose connection a test can close while it is under way."""
    body = json.dumps(message).encode()
    host, port = server.url.removeprefix("http://").split(":")
    lines = {
        **{"Host": f"{host}:{port}", "Authorization": f"Bearer {who.key}", "Content-Type": "application/json"},
        **{"Accept": "application/json, text/event-stream", "Content-Length": str(len(body))},
        **headers,
    }
    connection = socket.create_connection((host, int(port)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("era", ["handshake", "modern", "cancelled"])
def test_a_call_leaves_the_queue_when_its_client_disconnects(server: Http, eve: Http, era: str) -> None:
    params: dict[str, Any] = commit(f"hung-up-{era}")
    headers = {}
    session = eve.handshake()
    if era == "modern":
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "commit_memory"}
        params["_meta"] = modern_meta()
    else:
        headers = {"mcp-session-id": session}
    with ThreadPoolExecutor(2) as pool, locked_vault(server):
        blocking = [pool.submit(eve.modern, "tools/call", commit(f"holds-{n}")) for n in range(2)]
        until_gauge(server, "memory_mcp_threads_busy", 2)
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        connection = raw_post(server, eve, message, headers)
        until_gauge(server, "memory_mcp_calls_waiting", 1)
        if era == "cancelled":
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            eve.client.post("/mcp", json=note, headers=eve.headers(**{"mcp-session-id": session}))
        else:
            connection.close()
        until_gauge(server, "memory_mcp_calls_waiting", 0)
        assert gauge(server, "memory_mcp_threads_busy", "writing") == 2
    connection.close()
    assert all("result" in one.result() for one in blocking)
    found = eve.modern("resources/read", {"uri": f"memory://vault/hung-up-{era}"})
    assert found["error"]["data"]["error"] == "not_found"


def test_over_stdio_256_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--embedder", "none")
    for number in range(256):
        server.post("tools/call", commit(f"k-{number}"))
    answers = [server.receive() for _ in range(256)]
    assert all(answer["result"]["structuredContent"]["committed"] for answer in answers if "id" in answer)
    server.close()
