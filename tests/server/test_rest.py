"""What a person who is signed in can see and do, over real servers."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from memory_mcp.families.registry import FAMILIES
from tests.events import TIMEOUT_S, eventually
from tests.processes import run
from tests.wire import HELLO, MODERN, Http, Stdio, http_server, modern_meta

COOKIE = "memory_mcp_sign_in"
PROBLEM = "application/problem+json"
PASSWORD = "correct horse battery"


def cli(data_dir: Path, *arguments: str, given: str = "") -> dict[str, Any]:
    done = run(*arguments, "--data-dir", data_dir, "--json", check=True, stdin=given)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@dataclass
class Person:
    """A signed-in user of a server."""

    server: Http
    cookie: str
    name: str = "local"
    elsewhere: dict[str, str] = field(default_factory=dict)  # cookies at other servers, by URL
    usual: dict[str, str] = field(default_factory=dict)  # headers of every request

    def ask(self, method: str, path: str, *, at: Http | None = None, **more: Any) -> httpx.Response:
        more.setdefault("headers", {})
        cookie = self.cookie if at in (None, self.server) else self._cookie_at(at)
        more["headers"] = {"Cookie": f"{COOKIE}={cookie}"} | self.usual | more["headers"]
        return (at or self.server).client.request(method, path, **more)

    def _cookie_at(self, other: Http) -> str:
        """A cookie opens the origin it was made for: elsewhere the same person signs in, too."""
        if other.url not in self.elsewhere:
            link = cli(self.server.data_dir, "users", "link", self.name)["link"]
            self.elsewhere[other.url] = signed_in(other, link).cookie
        return self.elsewhere[other.url]

    def sessions(self, at: Http | None = None) -> list[dict[str, Any]]:
        answer = self.ask("GET", "/api/mcp/sessions", at=at)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["sessions"]
        return found

    def new_key(self, **fields: Any) -> dict[str, Any]:
        answer = self.ask("POST", "/api/mcp/keys", json={"name": "made", **fields})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def audit(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.ask("GET", "/api/mcp/audit").json()["entries"]
        return entries


def signed_in(server: Http, link: str) -> Person:
    token = link.partition("?")[2]
    answer = server.client.get(f"/sign-in?{token}")
    assert answer.status_code == 303, answer.text
    server.client.cookies.clear()
    return Person(server, answer.cookies[COOKIE])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("rest"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def other(server: Http) -> Iterator[Http]:
    """A second server on the same data."""
    with http_server(server.data_dir, "--embedder", "none") as running:
        yield replace(running, key=server.key)


@pytest.fixture(scope="module")
def me(server: Http) -> Person:
    return signed_in(server, server.link)


@pytest.fixture(scope="module")
def ann(server: Http) -> Person:
    cli(server.data_dir, "users", "add", "ann")
    return signed_in(server, cli(server.data_dir, "users", "link", "ann")["link"])


# Signing in


def test_the_printed_link_signs_in_once_with_a_protected_cookie(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        for ahead in ({"method": "HEAD"}, {"method": "GET", "headers": {"Sec-Purpose": "prefetch"}}):
            looked = server.client.request(url=server.link, **ahead)
            assert (looked.status_code, "set-cookie" in looked.headers) == (200, False)
        answer = server.client.get(server.link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert answer.headers["cache-control"] == "no-store"
        flags = answer.headers["set-cookie"].lower()
        assert "httponly" in flags
        assert "samesite=lax" in flags
        assert "path=/" in flags
        assert "max-age=2592000" in flags
        assert "secure" not in flags  # plain http on loopback
        again = httpx.get(server.link)
        assert again.status_code == 401
        assert "used before" in again.text
        assert "set-cookie" not in again.headers
        assert server.client.get("/api/me").json()["name"] == "local"
    with http_server(tmp_path) as second:
        assert "token=" not in second.printed


def test_the_form_signs_in_and_says_what_is_wrong(tmp_path: Path) -> None:
    cli(tmp_path, "users", "password", "--stdin", given=PASSWORD + "\n")
    with http_server(tmp_path) as server:
        assert "token=" not in server.printed
        form = server.client.get("/sign-in")
        assert (form.status_code, 'type="password"' in form.text) == (200, True)
        assert "form-action 'self'" in form.headers["content-security-policy"]
        wrong = server.client.post("/sign-in", data={"name": "local", "password": "<b>wrong"})
        unknown = server.client.post("/sign-in", data={"name": "stranger", "password": PASSWORD})
        assert (wrong.status_code, wrong.text) == (401, unknown.text)
        assert "role=alert" in wrong.text
        assert server.client.post("/sign-in", content=b"x" * 1_000_000).status_code == 413
        right = server.client.post("/sign-in", data={"name": "LOCAL", "password": PASSWORD})
        assert right.status_code == 303
        assert server.client.get("/api/me").status_code == 200
        server.client.cookies.clear()
        answer = server.client.post("/api/sign-in", json={"name": "local", "password": PASSWORD})
        assert answer.json()["name"] == "local"
        assert "httponly" in answer.headers["set-cookie"].lower()
        limited = refusal(server, "/sign-in", data={"name": "local", "password": "x"})
        assert 1 <= int(limited.headers["retry-after"]) <= 6
        limited = refusal(server, "/api/sign-in", json={"name": "local", "password": PASSWORD})
        assert limited.json()["error"] == "rate_limited"
        assert limited.headers["content-type"] == PROBLEM
        assert int(limited.headers["retry-after"]) == limited.json()["data"]["retry_after"]
        # A new password signs everybody out, in the running server too.
        cli(tmp_path, "users", "password", "--stdin", given="another password\n")
        assert server.client.get("/api/me").status_code == 401


def refusal(server: Http, path: str, **attempt: Any) -> httpx.Response:
    """The answer once there were too many attempts. One more is allowed every six seconds."""

    def refused() -> httpx.Response | None:
        answer = server.client.post(path, **attempt)
        return answer if answer.status_code == 429 else None

    return eventually(refused)


def test_signing_out_ends_it(server: Http) -> None:
    person = signed_in(server, cli(server.data_dir, "users", "link")["link"])
    answer = person.ask("POST", "/api/sign-out")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert person.ask("GET", "/api/me").status_code == 401


# Refusals


def test_refusals_are_problems(server: Http, me: Person) -> None:
    for method, path, status, word in (
        ("GET", "/api/me", 401, "not_signed_in"),
        ("GET", "/api/mcp/keys", 401, "not_signed_in"),
        ("DELETE", "/api/mcp/keys/x", 401, "not_signed_in"),
        ("GET", "/api/nothing", 404, "not_found"),
        ("PUT", "/api/mcp/keys", 405, "invalid"),
    ):
        answer = server.client.request(method, path)
        assert answer.headers["content-type"] == PROBLEM, path
        body = answer.json()
        assert (answer.status_code, body["status"], body["error"]) == (status, status, word)
        assert body["detail"]
        assert body["title"]
        assert body["type"] == "about:blank"
    assert server.client.put("/api/mcp/keys").headers["allow"] == "GET, POST"
    bearer = server.client.get("/api/me", headers=server.headers())
    assert bearer.status_code == 401  # a key opens none of it
    for body in (b"{", b'"text"', b'{"name": 1}', b'{"name": ""}', b'{"name": "a\\u202eb"}', b'{"name": "\\ud800"}'):
        answer = me.ask("POST", "/api/mcp/keys", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid"), body
        assert answer.headers["content-type"] == PROBLEM
    details = [me.ask("POST", "/api/mcp/keys", json=body).json()["detail"] for body in ({}, {"name": 1}, {"name": ""})]
    assert details == [
        "name: give it, it is required.",
        "name: give a text, not 1.",
        "name: give at least 1 character.",
    ]
    unknown = me.ask("POST", "/api/mcp/keys", json={"name": "x", "expires": "soon"})
    assert unknown.json()["data"] == {"field": "expires"}
    assert me.ask("POST", "/api/mcp/keys", json={"name": "x", "more": 1}).status_code == 422
    large = me.ask("POST", "/api/mcp/keys", content=b" " * 5_000_000, headers={"Content-Type": "application/json"})
    assert (large.status_code, large.json()["error"]) == (413, "too_large")


def test_another_origin_changes_nothing(server: Http, me: Person) -> None:
    port = httpx.URL(server.url).port
    before = me.ask("GET", "/api/mcp/keys").json()
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{(port or 0) + 1}"},
        {"Origin": f"http://localhost:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": server.url, "Sec-Fetch-Site": "same-site"},
    ):
        for method, path in (("POST", "/api/mcp/keys"), ("DELETE", "/api/mcp/keys/x"), ("POST", "/api/sign-out")):
            answer = me.ask(method, path, headers=headers)
            assert answer.status_code == 403, headers
            assert answer.headers["content-type"] == PROBLEM
        assert server.client.post("/sign-in", data={"name": "x"}, headers=headers).status_code == 403
    # A form of another site can send JSON as text/plain only, which is not taken for JSON.
    plain = me.ask("POST", "/api/mcp/keys", content=b'{"name": "x"}', headers={"Content-Type": "text/plain"})
    assert plain.status_code == 422
    untyped = me.ask("POST", "/api/mcp/keys", content=b'{"name": "x"}')
    assert untyped.status_code == 422
    assert me.ask("GET", "/api/mcp/keys").json() == before
    ours = me.ask("GET", "/api/me", headers={"Origin": server.url, "Sec-Fetch-Site": "same-origin"})
    assert ours.status_code == 200
    assert "access-control-allow-credentials" not in ours.headers


# Shapes


def test_each_answer_has_its_shape(server: Http, me: Person) -> None:
    who = me.ask("GET", "/api/me").json()
    assert set(who) == {"id", "name", "plan", "created_at", "is_owner", "may_back_up", "scopes"}
    assert who["scopes"] == ["delete_memory", "manage_links", "read_memory", "write_memory"]
    assert (who["id"], who["name"], who["plan"]) == ("local", "local", "community")
    note = server.modern_call("memory_create", content="words #tagged", namespace="here")
    server.modern_call("memory_get", id=note["id"])
    server.modern("tools/call", {"name": "memory_get", "arguments": {"id": "missing"}})

    stats = me.ask("GET", "/api/mcp/memory/embed-stats").json()
    assert stats["total"] >= 1
    assert set(stats) == {
        "queue_size",
        "total",
        "total_with_embedding",
        "backend_name",
        "backend_dim",
        "enabled",
    }
    again = me.ask("POST", "/api/mcp/memory/reindex")
    assert (again.status_code, again.json()) == (202, {"queued": stats["total"]})
    analytics = me.ask("GET", "/api/mcp/memory/analytics?days=1").json()
    assert set(analytics) == {"totals", "top_tags", "top_clients", "coverage", "calls"}
    assert set(analytics["totals"]) == {"memories", "namespaces", "embedded", "unembedded"}
    assert analytics["totals"]["memories"] == stats["total"]
    assert {"name": "wire", "count": stats["total"]} in analytics["top_clients"]
    assert analytics["calls"][-1]["calls"] >= 3
    assert analytics["calls"][-1]["errors"] >= 1
    assert set(analytics["calls"][-1]) == {"hour", "calls", "errors"}
    assert set(analytics["coverage"][-1]) == {"hour", "total", "embedded"}
    for days in (0, 401, "x"):
        assert me.ask("GET", f"/api/mcp/memory/analytics?days={days}").status_code == 422

    page = me.ask("GET", "/api/mcp/audit?limit=1").json()
    assert set(page) == {"entries", "next"}
    assert set(page["entries"][0]) == {"id", "at", "action", "key_id", "client", "ip", "details"}
    following = me.ask("GET", f"/api/mcp/audit?limit=1&before={page['next']}").json()
    assert following["entries"][0]["id"] < page["entries"][0]["id"]
    assert me.ask("GET", "/api/mcp/audit?limit=1000").json()["next"] is None


def test_a_key_is_shown_once_works_and_is_revoked(server: Http, me: Person) -> None:
    made = me.new_key(
        name="laptop", namespace="work", scopes=["write_memory", "read_memory"], families=["notes"], expires="90d"
    )
    listed = next(key for key in me.ask("GET", "/api/mcp/keys").json()["keys"] if key["id"] == made["id"])
    assert {**listed, "key": made["key"]} == made
    assert set(listed) == {
        *("id", "name", "key_prefix", "namespace", "confined", "scopes", "families"),
        *("created_at", "expires_at", "revoked_at", "last_used_at"),
    }
    assert made["key"].startswith(made["key_prefix"])
    assert (listed["scopes"], listed["families"]) == (["read_memory", "write_memory"], ["notes"])
    assert listed["expires_at"] > listed["created_at"]
    assert made["key"] not in me.ask("GET", "/api/mcp/keys").text

    client = replace(server, key=made["key"])
    assert client.modern_call("memory_create", content="a note")["namespace"] == "work"
    answer = me.ask("DELETE", f"/api/mcp/keys/{made['id']}")
    assert answer.json() == {"id": made["id"], "revoked": True}
    eventually(lambda: "error" in client.modern("tools/list"))
    refused = server.client.post("/mcp", headers=client.headers())
    assert (refused.status_code, refused.json()["error"]) == (401, "revoked")
    assert me.ask("DELETE", f"/api/mcp/keys/{made['id']}").status_code == 404
    actions = {entry["action"] for entry in me.audit() if made["id"] in (entry["key_id"], entry["details"].get("id"))}
    assert actions == {"key_created", "key_used", "key_revoked"}


def test_other_users_data_is_not_found(server: Http, me: Person, ann: Person) -> None:
    key = me.new_key()
    replace(server, key=key["key"]).modern("tools/list")
    session = next(session for session in me.sessions() if session["key_id"] == key["id"])
    for kind, mine in (("keys", key["id"]), ("sessions", session["id"])):
        missing = mine[::-1]
        hers, nothing = (ann.ask("DELETE", f"/api/mcp/{kind}/{id_}") for id_ in (mine, missing))
        assert hers.status_code == nothing.status_code == 404
        assert hers.text.replace(mine, "ID") == nothing.text.replace(missing, "ID")
        shown, expected = (
            {k: v for k, v in answer.headers.items() if k not in ("date", "x-request-id")} for answer in (hers, nothing)
        )
        assert shown == expected
    assert ann.ask("GET", "/api/mcp/keys").json() == {"keys": []}
    assert ann.sessions() == []
    assert [entry["action"] for entry in ann.audit()] == ["signed_in"]
    assert any(one["id"] == session["id"] for one in me.sessions())
    assert replace(server, key=key["key"]).modern("tools/list")["result"]


# Streams


class Stream:
    """An open stream, read by a thread of its own until it ends."""

    def __init__(self, server: Http, method: str, path: str, **more: Any) -> None:
        self.ended = threading.Event()
        self.lines: list[str] = []
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(server, method, path, more), daemon=True)
        self._thread.start()
        assert self._opened.wait(TIMEOUT_S)

    def _read(self, server: Http, method: str, path: str, more: dict[str, Any]) -> None:
        try:
            with httpx.stream(method, server.url + path, timeout=TIMEOUT_S, **more) as response:
                self.status = response.status_code
                self._opened.set()
                for line in response.iter_lines():
                    self.lines.append(line)
        except httpx.HTTPError:
            pass
        finally:
            self._opened.set()
            self.ended.set()


def legacy_stream(client: Http, name: str = "legacy") -> Stream:
    session = client.handshake({"name": name, "version": "1.5"})
    return Stream(client, "GET", "/mcp", headers=client.headers(**{"mcp-session-id": session}))


def silent_sse_stream(client: Http) -> Stream:
    stream = Stream(client, "GET", "/mcp/sse", headers=client.headers())
    eventually(lambda: any(line.startswith("data: /mcp/messages") for line in stream.lines))
    return stream


def sse_stream(client: Http, name: str = "sse") -> Stream:
    stream = silent_sse_stream(client)
    address = next(line.removeprefix("data: ") for line in stream.lines if line.startswith("data: /"))
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    hello["params"] = HELLO | {"clientInfo": {"name": name, "version": "1.5"}}
    client.client.post(address, json=hello, headers=client.headers()).raise_for_status()
    eventually(lambda: any("protocolVersion" in line for line in stream.lines))
    return stream


def listen_stream(client: Http, name: str = "modern") -> Stream:
    about = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1.5"}}
    params = {"notifications": {"resourcesListChanged": True}, "_meta": modern_meta(**about)}
    stream = Stream(
        client,
        "POST",
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params},
        headers=client.headers(**client.modern_headers("subscriptions/listen", {})),
    )
    eventually(lambda: bool(stream.lines))
    return stream


STREAMS = (legacy_stream, sse_stream, silent_sse_stream, listen_stream)


def all_end(streams: list[Stream]) -> bool:
    return all(stream.ended.wait(TIMEOUT_S) for stream in streams)


@pytest.mark.parametrize("namespace", ["a,b", " ", "a\nb", "a\u202eb", "x" * 129])
def test_no_key_and_no_note_gets_a_namespace_that_cannot_be_named(server: Http, me: Person, namespace: str) -> None:
    answer = me.ask("POST", "/api/mcp/keys", json={"name": "made", "namespace": namespace})
    assert (answer.status_code, answer.json()["data"]) == (422, {"field": "namespace"})
    for verb in (["keys", "create", "--name", "x"], ["add", "text"]):
        done = run(*verb, "--namespace", namespace, "--data-dir", str(server.data_dir), "--json")
        assert done.returncode in (1, 2)
        assert "no comma or line break" in json.loads(done.stderr)["message"]


def test_a_key_from_before_that_rule_finds_its_own_notes(server: Http, me: Person) -> None:
    made = me.new_key(namespace="old")
    with closing(apsw.Connection(str(server.data_dir / "server.db"))) as connection:
        connection.set_busy_timeout(10_000)
        connection.execute("UPDATE keys SET namespace = 'old,er' WHERE id = ?", (made["id"],))
    older = replace(server, key=made["key"])
    note = older.modern_call("memory_create", content="written before")
    assert note["namespace"] == "old,er"
    searches: dict[str, dict[str, Any]] = {"memory_search": {"query": "written before"}, "memory_recent": {}}
    for tool, arguments in searches.items():
        found = older.modern_call(tool, namespace="old,er", **arguments)["memories"]
        assert [one["id"] for one in found] == [note["id"]]


@pytest.mark.parametrize("by", ["rest", "the command line", "its time"])
def test_only_the_streams_of_a_revoked_key_end(server: Http, me: Person, by: str) -> None:
    made = me.new_key()
    client = replace(server, key=made["key"])
    streams = [open_stream(client) for open_stream in STREAMS]
    others = [open_stream(server) for open_stream in STREAMS]
    if by == "rest":
        me.ask("DELETE", f"/api/mcp/keys/{made['id']}")
    elif by == "the command line":
        cli(server.data_dir, "keys", "revoke", made["id"])
    else:
        expire(server.data_dir, made["id"])
    assert all_end(streams)
    word = "expired" if by == "its time" else "revoked"
    eventually(lambda: server.client.post("/mcp", headers=client.headers()).json().get("error") == word)
    assert not any(stream.ended.is_set() for stream in others)
    for session in me.sessions():
        assert session["key_id"] != made["id"]
        me.ask("DELETE", f"/api/mcp/sessions/{session['id']}")
    assert all_end(others)


def expire(data_dir: Path, key_id: str) -> None:
    """As if its time had come: the shortest lifetime is a minute."""
    import apsw

    connection = apsw.Connection(str(data_dir / "server.db"))
    connection.set_busy_timeout(5000)
    connection.execute("UPDATE keys SET expires_at = '2020-01-01T00:00:00Z' WHERE id = ?", (key_id,))
    connection.close()


# Sessions


def test_every_kind_of_client_is_listed_on_every_server_and_can_be_disconnected_from_each(
    server: Http, other: Http, me: Person
) -> None:
    made = me.new_key(name="laptop")
    client = replace(server, key=made["key"])
    streams = [legacy_stream(client), sse_stream(client), listen_stream(client)]
    stdio = Stdio.start(server.data_dir, "--embedder", "none", hello=False)
    stdio.ask("initialize", HELLO | {"clientInfo": {"name": "stdio", "version": "1.5"}})
    stdio.ask("tools/list")

    def found(at: Http) -> dict[str, dict[str, Any]]:
        return {s["client"]: s for s in me.sessions(at) if s["key_id"] == made["id"] or s["transport"] == "stdio"}

    eventually(lambda: set(found(server)) == set(found(other)) == {"legacy", "sse", "modern", "stdio"})
    for at in (server, other):
        for name, session in found(at).items():
            remote = name != "stdio"
            assert session["version"] == "1.5"
            assert session["ip"] == ("127.0.0.1" if remote else None)
            assert session["transport"] == {"stdio": "stdio", "sse": "sse"}.get(name, "streamable-http")
            assert session["protocol_version"] == (MODERN if name == "modern" else "2025-11-25")
            assert (session["key_id"], session["key_name"]) == ((made["id"], "laptop") if remote else (None, None))
            assert session["started_at"] <= session["last_call_at"]
            assert session["calls"] == (2 if name == "stdio" else 1)
            assert len(session) == 11

    sessions = found(server)
    for name, at in (("legacy", server), ("sse", other), ("modern", other), ("stdio", server)):
        answer = me.ask("DELETE", f"/api/mcp/sessions/{sessions[name]['id']}", at=at)
        assert answer.json() == {"id": sessions[name]["id"], "disconnected": True}
        if name == "stdio":
            assert stdio.process.wait(timeout=TIMEOUT_S) == 0
        eventually(lambda name=name, at=at: name not in found(at))  # type: ignore[misc]
    assert all_end(streams)
    stdio.kill()
    assert me.ask("DELETE", f"/api/mcp/sessions/{sessions['legacy']['id']}").status_code == 404


def test_a_disconnected_client_loses_its_session_and_may_reconnect(server: Http, me: Person) -> None:
    made = me.new_key()
    client = replace(server, key=made["key"])

    def mine() -> list[dict[str, Any]]:
        return [session for session in me.sessions() if session["key_id"] == made["id"]]

    session = client.handshake()
    scratch = {"scope": "session", "key": "k", "content": "scratch"}
    client.modern("tools/call", {"name": "commit_memory", "arguments": scratch})
    client.legacy(session, "tools/call", {"name": "commit_memory", "arguments": scratch})
    assert len(mine()) == 2
    for one in mine():
        me.ask("DELETE", f"/api/mcp/sessions/{one['id']}")
    assert mine() == []
    search: dict[str, Any] = {"query": "scratch", "scope": "session"}
    assert client.modern_call("search_memories", **search)["results"] == []

    def gone() -> bool:
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = client.headers(**{"mcp-session-id": session})
        return client.client.post("/mcp", json=ask, headers=headers).status_code == 404

    eventually(gone)
    (back,) = mine()
    assert back["calls"] == 1
    client.modern_call("commit_memory", scope="session", key="k", content="scratch")
    assert len(client.modern_call("search_memories", **search)["results"]) == 1
    assert [one["id"] for one in mine()] == [back["id"]]


# Limits


def test_two_servers_share_the_limit_of_a_plan(tmp_path: Path) -> None:
    flags = ("--rate-limits", "--families", "vault")
    with http_server(tmp_path, *flags) as one, http_server(tmp_path, *flags) as two:
        both = [one, replace(two, key=one.key)]
        ask = {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}}}
        answers: list[httpx.Response] = []

        def flood(server: Http) -> None:
            for _ in range(25):
                headers = server.headers(**server.modern_headers("tools/list", {}))
                answers.append(server.client.post("/mcp", headers=headers, **ask))  # type: ignore[arg-type]

        began = time.monotonic()
        threads = [threading.Thread(target=flood, args=(server,)) for server in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refilled = (time.monotonic() - began) / 2 + 1  # one comes back every two seconds
        let_through = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(let_through) + len(refused) == 50
        assert 30 <= len(let_through) <= 30 + refilled
        for answer in answers:
            assert answer.headers["ratelimit-limit"] == "30"
            assert answer.headers["ratelimit-policy"] == "30;w=60"
            assert 0 <= int(answer.headers["ratelimit-remaining"]) < 30
            assert 0 < int(answer.headers["ratelimit-reset"]) <= 60
        for answer in refused:
            assert answer.json()["error"] == "rate_limited"
            assert int(answer.headers["retry-after"]) == answer.json()["data"]["retry_after"] >= 1
        assert one.client.get("/mcp", headers=one.headers()).status_code != 429  # only what asks something counts
        assert one.client.get("/healthz").status_code == 200
        cli(tmp_path, "users", "plan", "local", "enterprise")
        eventually(lambda: "ratelimit-limit" not in one.client.post("/mcp", headers=one.headers()).headers)


def test_without_the_setting_nothing_is_limited(server: Http) -> None:
    headers = server.headers(**server.modern_headers("ping", {}))
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}}
    answers = [server.client.post("/mcp", json=ask, headers=headers) for _ in range(40)]
    assert all(answer.status_code != 429 and "ratelimit-limit" not in answer.headers for answer in answers)


# Metrics and proxies


def test_metrics_count_calls_by_tool_and_outcome_and_are_open_here_only(server: Http) -> None:
    server.modern_call("memory_recent")
    server.modern("tools/call", {"name": "memory_get", "arguments": {"id": "missing"}})
    near = server.client.get("/metrics")
    assert near.status_code == 200
    assert near.headers["content-type"].startswith("text/plain")
    for line in (
        r'memory_mcp_calls_total\{outcome="ok",tool="memory_recent"\} [1-9]',
        r'memory_mcp_calls_total\{outcome="not_found",tool="memory_get"\} [1-9]',
        r'memory_mcp_call_seconds_count\{tool="memory_recent"\} [1-9]',
        r"memory_mcp_clients [1-9]",
        r"memory_mcp_embed_queue [0-9]",
    ):
        assert re.search(f"^{line}", near.text, re.MULTILINE), line
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        far = server.client.get("/metrics", headers={header: "192.0.2.7"})
        assert (far.status_code, far.json()["error"]) == (401, "missing_bearer")
        assert far.headers["www-authenticate"].startswith("Bearer")
    keyed = server.client.get("/metrics", headers=server.headers(**{"X-Forwarded-For": "192.0.2.7"}))
    assert keyed.status_code == 200


def test_metrics_need_a_key_of_the_local_user(server: Http, ann: Person) -> None:
    hers = replace(server, key=ann.new_key()["key"])
    refused = server.client.get("/metrics", headers=hers.headers(**{"X-Forwarded-For": "192.0.2.7"}))
    assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")


def test_only_the_proxys_forwarded_headers_count(tmp_path: Path) -> None:
    url = ("--public-url", "https://memory.example.com", "--families", "vault")
    forwarded = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "Host": "memory.example.com"}
    with http_server(tmp_path, *url, "--forwarded-allow-ips", "127.0.0.1") as server:
        assert "https://memory.example.com/sign-in?token=" in server.printed
        assert server.client.get("/metrics").status_code == 401  # a public address needs a key everywhere
        token = re.search(r"token=(\S+)", server.printed)
        assert token is not None
        answer = server.client.get(f"/sign-in?token={token[1]}", headers=forwarded)
        assert answer.status_code == 303
        assert "; secure" in answer.headers["set-cookie"].lower()
        assert answer.headers["set-cookie"].startswith(f"__Host-{COOKIE}=")
        person = Person(server, "", usual={**forwarded, "Cookie": answer.headers["set-cookie"].partition(";")[0]})
        ours = {**forwarded, "Origin": "https://memory.example.com", "Sec-Fetch-Site": "same-origin"}
        assert person.ask("POST", "/api/mcp/keys", json={"name": "x"}, headers=ours).status_code == 201
        assert person.audit()[-1]["action"] != "signed_in"
        assert [entry["ip"] for entry in person.audit() if entry["action"] == "signed_in"] == ["192.0.2.7"]
        headers = server.headers(**server.modern_headers("tools/list", {}), **forwarded)
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}}
        assert server.client.post("/mcp", json=ask, headers=headers).status_code == 200
        assert [session["ip"] for session in person.sessions()] == ["192.0.2.7"]
    with http_server(tmp_path, "--forwarded-allow-ips", "192.0.2.1", "--families", "vault") as server:
        person = signed_in(server, cli(tmp_path, "users", "link")["link"])
        headers = server.headers(**server.modern_headers("tools/list", {}), **{"X-Forwarded-For": "192.0.2.7"})
        key = person.new_key()["key"]
        headers["Authorization"] = f"Bearer {key}"
        assert server.client.post("/mcp", json=ask, headers=headers).status_code == 200
        assert [session["ip"] for session in person.sessions()] == ["127.0.0.1"]


def test_a_cookie_works_for_its_origin_only(server: Http, other: Http, me: Person) -> None:
    name, port = server.url.removeprefix("http://").split(":")
    assert me.ask("GET", "/api/me", headers={"Host": f"{name}:{port}"}).status_code == 200
    for host in (f"localhost:{port}", f"{name}:{int(port) - 1}", name):
        assert me.ask("GET", "/api/me", headers={"Host": host}).status_code == 401
    taken_along = {"Cookie": f"{COOKIE}={me.cookie}"}  # as browsers do, to every port of the host
    assert other.client.get("/api/me", headers=taken_along).status_code == 401


# The audit log


RELATION = {"from": "x", "to": "y", "relation_type": "r"}


def store_in_every_family(server: Http) -> tuple[str, str]:
    """Something for each tool that deletes. Returns the ids of two linked notes."""
    call = server.modern_call
    call("commit_memory", scope="vault", key="k", content="c")
    note, second = (call("memory_create", content=text)["id"] for text in ("one", "two"))
    call("memory_link", source_id=note, target_id=second)
    call("add_memory", store="s", path="a/b", content="c")
    for project in ("house", "barn"):
        call("create_project", name=project)
    entities = [{"name": name, "entity_type": "t", "observations": ["o"]} for name in ("x", "y")]
    call("create_entities", project="house", entities=entities)
    call("create_relations", project="house", relations=[RELATION])
    return note, second


def test_every_tool_that_deletes_is_audited(tmp_path: Path) -> None:
    with http_server(tmp_path, "--embedder", "none") as server:
        me = signed_in(server, server.link)
        note, second = store_in_every_family(server)
        done: list[tuple[str, dict[str, Any]]] = [
            ("prune_memory", {"scope": "vault", "key": "k"}),
            ("memory_unlink", {"source_id": note, "target_id": second}),
            ("memory_delete", {"id": note, "soft": False}),
            ("remove_memory", {"store": "s", "path": "a/b"}),
            ("prune_memories", {"store": "s"}),
            ("delete_relations", {"project": "house", "relations": [RELATION]}),
            ("delete_observations", {"project": "house", "deletions": [{"entity_name": "x", "observations": ["o"]}]}),
            ("delete_entities", {"project": "house", "names": ["x"]}),
            ("archive_project", {"name": "barn"}),
            ("delete_project", {"name": "house"}),
        ]
        deleting = {name for family in FAMILIES.values() for name, tool in family.tools.items() if tool.deletes}
        assert deleting - {"portal_delete"} == {tool for tool, _ in done}
        for tool, arguments in done:
            answer = server.modern("tools/call", {"name": tool, "arguments": arguments})
            assert "result" in answer, answer
            assert not answer["result"].get("isError"), answer
        server.modern("tools/call", {"name": "memory_delete", "arguments": {"id": note}})  # is refused: no line
        lines = [entry for entry in me.audit() if entry["action"] in {tool for tool, _ in done}]
        assert [(line["action"], line["details"]) for line in reversed(lines)] == [
            (tool, {"arguments": arguments}) for tool, arguments in done
        ]
        for line in lines:
            assert (line["client"], line["ip"]) == ("wire", "127.0.0.1")
            assert server.key is not None
            assert line["key_id"] == server.key.split("_")[1]


# The web app's own routes


def test_a_person_can_call_every_tool_as_an_agent_could(server: Http, me: Person) -> None:
    made = me.ask("POST", "/api/tools/commit_memory", json={"scope": "vault", "key": "k", "content": "by hand"})
    assert (made.status_code, made.json()) == (200, {"committed": True, "key": "k", "scope": "vault"})
    assert server.modern_call("search_memories", query="hand")["results"][0]["key"] == "k"
    opened = me.ask("GET", "/api/open", params={"ref": "memory://vault/k"})
    assert opened.json()["content"] == "by hand"
    assert me.ask("GET", "/api/overview").json()["vault"]["memories"] >= 1
    unknown = me.ask("POST", "/api/tools/nothing", json={})
    assert (unknown.status_code, unknown.json()["error"]) == (404, "not_found")
    wrong = me.ask("POST", "/api/tools/commit_memory", json={"scope": "vault"})
    assert (wrong.status_code, wrong.json()["data"]["field"]) == (422, "key")
    broken = me.ask("POST", "/api/tools/commit_memory", content=b"\xff", headers={"Content-Type": "application/json"})
    assert (broken.status_code, broken.headers["content-type"]) == (422, PROBLEM)


def test_a_session_chosen_in_the_web_app_stays_chosen(me: Person) -> None:
    me.ask("POST", "/api/tools/set_session_id", json={"session_id": "desk"})
    me.ask("POST", "/api/tools/commit_memory", json={"scope": "session", "key": "s", "content": "scratch"})
    found = me.ask("POST", "/api/tools/search_memories", json={"query": "scratch", "scope": "session"}).json()
    assert [hit["key"] for hit in found["results"]] == ["s"]


def test_without_keys_scopes_limit_the_web_app(tmp_path: Path) -> None:
    with http_server(tmp_path, "--auth", "none", "--scopes", "read-only", "--families", "vault") as server:
        refused = server.client.post("/api/tools/commit_memory", json={"scope": "vault", "key": "k", "content": "c"})
        assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")
        assert server.client.post("/api/mcp/keys", json={"name": "more"}).status_code == 403
        assert server.client.get("/api/open", params={"ref": "stores:work/a"}).status_code == 404


@pytest.mark.parametrize("flag", ["--public-url=https://memory.example.com", "--allowed-hosts=memory.example.com"])
def test_auth_none_is_refused_for_public_addresses(tmp_path: Path, flag: str) -> None:
    refused = run("--transport", "http", "--port", "0", "--auth", "none", flag, "--data-dir", tmp_path)
    assert (refused.returncode, "--auth none works on loopback only" in refused.stderr) == (1, True)


@pytest.mark.parametrize("by", ["signing out", "a new password", "removal"])
def test_a_page_receives_its_own_changes_until_the_user_is_signed_out(server: Http, by: str) -> None:
    name = f"eve{by[:2]}".replace(" ", "")
    cli(server.data_dir, "users", "add", name)
    key = cli(server.data_dir, "keys", "create", "--user", name, "--name", "k")["key"]
    eve = signed_in(server, cli(server.data_dir, "users", "link", name)["link"])
    heard: list[str] = []
    ended = threading.Event()

    def listen() -> None:
        cookie = {"Cookie": f"{COOKIE}={eve.cookie}"}
        with httpx.stream("GET", f"{server.url}/api/events", headers=cookie, timeout=TIMEOUT_S) as stream:
            heard.extend(stream.iter_lines())
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    eventually(lambda: "event: hello" in heard)
    server.modern_call("commit_memory", scope="vault", key="anothers", content="c")
    replace(server, key=key).modern_call("commit_memory", scope="vault", key="mine", content="c")
    eventually(lambda: any("memory://vault/mine" in line for line in heard))
    assert not any("anothers" in line for line in heard)
    eventually(lambda: all(any(f'"{topic}"' in line for line in heard) for topic in ("clients", "keys", "vault")))
    if by == "signing out":
        assert eve.ask("POST", "/api/sign-out").status_code == 204
    elif by == "removal":
        cli(server.data_dir, "users", "remove", name)
    else:
        cli(server.data_dir, "users", "password", name, "--stdin", given=PASSWORD + "\n")
    assert ended.wait(TIMEOUT_S)


def test_a_link_from_another_site_needs_a_confirmation(server: Http) -> None:
    link = cli(server.data_dir, "users", "link")["link"]
    assert ":8765/" not in link  # it is where a server really runs
    led = httpx.get(link, headers={"Sec-Fetch-Site": "cross-site"})
    assert (led.status_code, "set-cookie" in led.headers, "<button>" in led.text) == (200, False, True)
    token = link.partition("token=")[2]
    confirmed = httpx.post(f"{server.url}/sign-in", data={"token": token})
    assert (confirmed.status_code, COOKIE in confirmed.cookies) == (303, True)


def test_audit_ids_reveal_nothing_about_other_users(me: Person, ann: Person) -> None:
    ids = [entry["id"] for entry in ann.audit()]
    assert ids == list(range(len(ids), 0, -1))
    me.new_key(name="in between")
    ann.new_key(name="next")
    assert ann.audit()[0]["id"] == len(ids) + 1


def test_a_removed_users_folder_stays_away(server: Http) -> None:
    user = cli(server.data_dir, "users", "add", "bob")["id"]
    key = cli(server.data_dir, "keys", "create", "--user", "bob", "--name", "k")["key"]
    replace(server, key=key).modern_call("memory_create", content="bob's")
    cli(server.data_dir, "users", "remove", "bob", "--delete-data")
    assert not (server.data_dir / "users" / user).exists()
    server.client.get("/metrics")  # asks how many notes wait
    assert not (server.data_dir / "users" / user).exists()
