"""The hub over HTTP."""

import gzip
import json
import re
import select
import socket
import time
import zlib
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from memory_mcp.caller import Scope
from memory_mcp.services.sync.records import DELETION
from tests.bombs import gzip_bomb
from tests.events import TIMEOUT_S, eventually
from tests.postgres import everything_stored
from tests.services.sync.processes import Hub


def stamp(seconds_ahead: float = -1, node: str = "a") -> str:
    return f"{int((time.time() + seconds_ahead) * 1000):015d}:00000:{node}"


def record(id_: str = "n1", content: Any = "text", namespace: str = "default", **more: Any) -> dict[str, Any]:
    at = stamp()
    return {"id": id_, "registers": {"content": [at, content], "namespace": [at, namespace]}, **more}


def test_the_hub_prints_how_to_begin(hub: Hub) -> None:
    assert "keys create" in hub.printed
    assert f"sync link {hub.url}" in hub.printed


@pytest.mark.parametrize("verb", ["push", "pull"])
@pytest.mark.parametrize(
    ("header", "word"),
    [
        ({}, "missing_bearer"),
        ({"Authorization": "Basic abc"}, "missing_bearer"),
        ({"Authorization": "Bearer mmcp_nobody_knows"}, "invalid_token"),
    ],
)
def test_every_request_needs_a_key(hub: Hub, verb: str, header: dict[str, str], word: str) -> None:
    refused = httpx.post(f"{hub.url}/api/sync/{verb}", json={}, headers=header)
    assert (refused.status_code, refused.json()["error"]) == (401, word)
    assert "WWW-Authenticate" in refused.headers


def test_a_revoked_key_opens_nothing(hub: Hub, key: str) -> None:
    assert hub.post("push", key, records=[]).is_success
    hub.command("keys", "revoke", key.split("_")[1])
    eventually(lambda: not hub.post("push", key, records=[]).is_success)  # within a second
    refused = hub.post("push", key, records=[])
    assert (refused.status_code, refused.json()["error"]) == (401, "revoked")


def test_a_read_only_key_cannot_push(hub: Hub) -> None:
    key = hub.key("reader", [Scope.READ])
    refused = hub.post("push", key, records=[record()])
    assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")
    assert hub.post("pull", key, namespace="default").is_success


@pytest.mark.parametrize("arguments", [("push", {"records": []}), ("pull", {"namespace": "default"})])
def test_a_confined_key_does_not_sync(hub: Hub, arguments: tuple[str, dict[str, Any]]) -> None:
    verb, more = arguments
    refused = hub.post(verb, hub.key("narrow", is_confined=True), **more)
    assert refused.status_code == 403
    assert "--confined" in refused.text


def test_one_node_pulls_the_notes_that_another_pushed(hub: Hub, key: str) -> None:
    records = [record("n1", "one"), record("n2", "two"), record("n3", "elsewhere", namespace="other")]
    pushed = hub.post("push", key, node="a", records=records).json()
    assert (pushed["refused"], pushed["merged"]) == ([], [])
    pulled = hub.post("pull", key, node="b", namespace="default").json()
    assert [one["id"] for one in pulled["records"]] == ["n1", "n2"]
    assert pulled["records"][0] == records[0]
    assert pulled["left"] == 0
    again = hub.post("pull", key, node="b", ticket=pulled["ticket"], namespace="default", after=pulled["cursor"]).json()
    assert again["records"] == []


def test_pages_follow_each_other_and_lose_nothing(hub: Hub, key: str) -> None:
    hub.post("push", key, node="a", records=[record(f"n{number}") for number in range(7)])
    seen, after, ticket = [], 0, None
    while True:
        page = hub.post("pull", key, node="b", ticket=ticket, namespace="default", after=after, limit=3).json()
        seen += [one["id"] for one in page["records"]]
        after, ticket = page["cursor"], page["ticket"]
        assert page["left"] == 7 - len(seen)
        if not page["left"]:
            break
    assert seen == [f"n{number}" for number in range(7)]


def test_a_node_pulls_its_own_records_only_with_own(hub: Hub, key: str) -> None:
    ticket = hub.post("push", key, records=[record()]).json()["ticket"]
    arguments = {"ticket": ticket, "namespace": "default"}
    assert hub.post("pull", key, **arguments).json()["records"] == []
    assert len(hub.post("pull", key, **arguments, own=True).json()["records"]) == 1


def test_of_a_moved_note_only_the_namespace_is_sent(hub: Hub, key: str) -> None:
    ticket = hub.post("push", key, records=[record("n1", "secret plan")]).json()["ticket"]
    hub.post("push", key, ticket=ticket, records=[{"id": "n1", "registers": {"namespace": [stamp(), "private"]}}])
    [received] = hub.post("pull", key, node="b", namespace="default").json()["records"]
    assert list(received["registers"]) == ["namespace"]


def test_one_users_notes_are_invisible_to_another(hub: Hub, key: str) -> None:
    mine, theirs = key, hub.key("another")
    hub.post("push", mine, node="a", records=[record("n1", "mine")])
    assert hub.post("pull", theirs, node="zz", namespace="default", own=True).json()["records"] == []
    pushed = hub.post("push", theirs, node="zy", records=[record("n1", "theirs")]).json()
    assert pushed["merged"] == []  # nothing of mine comes back
    [kept] = hub.post("pull", mine, node="b", namespace="default").json()["records"]
    assert kept["registers"]["content"][1] == "mine"
    # Tickets and sealed namespaces are separate, too.
    assert hub.post("push", theirs, node="a", records=[]).is_success


def test_deleting_a_user_deletes_their_notes(hub: Hub) -> None:
    hub.post("push", hub.key("leaving"), records=[record("n1", "of one who leaves")])
    assert b"of one who leaves" in everything_stored(hub.data_dir, hub.database_url)
    hub.command("users", "remove", "leaving", "--delete-data")
    assert hub.post("pull", hub.key("leaving"), node="b", namespace="default").json()["records"] == []
    hub.post("push", hub.key("staying"), records=[record()])  # the WAL is written over
    if hub.database_url is None:
        with closing(apsw.Connection(str(hub.data_dir / "hub.db"))) as connection:
            connection.pragma("wal_checkpoint", "truncate")
    assert b"of one who leaves" not in everything_stored(hub.data_dir, hub.database_url)


def test_more_than_120_pushes_a_minute_are_refused_with_retry_after(hub: Hub, key: str) -> None:
    with httpx.Client(base_url=hub.url, headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT_S) as client:
        ticket, allowed, refused = None, 0, None
        started = time.monotonic()
        while refused is None and allowed < 400:
            answer = client.post("/api/sync/push", json={"node": "a", "ticket": ticket, "records": []})
            if answer.status_code == 429:
                refused = answer
            else:
                ticket = answer.json()["ticket"]
                allowed += 1
        regained = 2 * (time.monotonic() - started)  # two a second
        assert refused is not None
        assert 120 <= allowed <= 121 + regained
        assert refused.json()["error"] == "rate_limited"
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        # Pulling goes on, and the ticket is still good.
        pulled = client.post("/api/sync/pull", json={"node": "a", "ticket": ticket, "namespace": "default"})
        assert pulled.is_success


def test_a_push_of_more_than_200_records_is_refused(hub: Hub, key: str) -> None:
    refused = hub.post("push", key, records=[record(f"n{number}") for number in range(201)])
    assert refused.status_code == 422
    assert "200" in refused.json()["detail"]
    assert hub.post("push", key, records=[record(f"n{number}") for number in range(200)]).json()["refused"] == []


def test_a_record_ahead_of_the_hubs_clock_is_refused_alone(hub: Hub, key: str) -> None:
    late = record("late")
    late["registers"]["content"][0] = stamp(75)
    deleted = {"id": "deleted", DELETION: stamp(3600)}
    fine = record("fine")
    fine["registers"]["content"][0] = stamp(45)
    pushed = hub.post("push", key, records=[late, record("other"), deleted, fine]).json()
    assert {one["id"]: one["error"] for one in pushed["refused"]} == {"late": "clock_ahead", "deleted": "clock_ahead"}
    assert re.search(r"7\d s ahead", pushed["refused"][0]["message"])
    pulled = hub.post("pull", key, node="b", namespace="default").json()
    assert [one["id"] for one in pulled["records"]] == ["other", "fine"]


def test_the_hub_limits_times_ahead_of_it(hub: Hub, key: str) -> None:
    future = "2099-01-01T00:00:00.000Z"
    hub.post("push", key, records=[record(updated_at=future, last_referenced_at=future)])
    [kept] = hub.post("pull", key, node="b", namespace="default").json()["records"]
    assert kept["updated_at"] < "2099"
    assert kept["last_referenced_at"] < "2099"


def test_an_invalid_record_is_refused_alone(hub: Hub, key: str) -> None:
    bad = [7, None, {}, {"id": "x", "registers": {"content": ["soon", "x"]}}, {"id": "y", "registers": {}}]
    pushed = hub.post("push", key, records=[*bad, record("fine")]).json()
    assert [one["id"] for one in pushed["refused"]] == [None, None, None, "x", "y"]
    assert all(one["message"] for one in pushed["refused"])
    assert [one["id"] for one in hub.post("pull", key, node="b", namespace="default").json()["records"]] == ["fine"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"node": "a"}', b'{"node": "A B", "records": []}']
)
def test_an_invalid_request_is_refused_with_a_reason(hub: Hub, key: str, body: bytes) -> None:
    refused = httpx.post(f"{hub.url}/api/sync/push", content=body, headers=_headers(key))
    assert refused.status_code in (400, 422)
    assert refused.json()["error"] == "invalid"
    assert refused.json()["detail"]


def _headers(key: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **more}


def test_deeply_nested_bodies_are_refused(hub: Hub, key: str) -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    body = b'{"node": "a", "records": [{"id": "n1", "registers": {"content": ["' + stamp().encode() + b'", ' + deep
    refused = httpx.post(f"{hub.url}/api/sync/push", content=body + b"]}}]}", headers=_headers(key))
    assert refused.status_code in (200, 400, 422)
    if refused.is_success:
        assert refused.json()["refused"]
    assert hub.post("push", key, records=[]).status_code != 500


def test_bodies_and_answers_travel_in_gzip(hub: Hub, key: str) -> None:
    arguments = {"node": "a", "records": [record(content="words " * 10_000)]}
    packed = gzip.compress(json.dumps(arguments).encode())
    pushed = httpx.post(
        f"{hub.url}/api/sync/push", content=packed, headers=_headers(key, **{"Content-Encoding": "gzip"})
    )
    assert pushed.json()["refused"] == []
    with httpx.stream(
        "POST", f"{hub.url}/api/sync/pull", json={"node": "b", "namespace": "default"}, headers=_headers(key)
    ) as pulled:
        raw = b"".join(pulled.iter_raw())
    assert pulled.headers["Content-Encoding"] == "gzip"
    assert len(raw) < 5_000
    assert json.loads(gzip.decompress(raw))["records"][0]["registers"]["content"][1] == "words " * 10_000


def test_a_body_too_large_when_decompressed_is_refused(hub: Hub, key: str) -> None:
    bomb = gzip_bomb(megabytes=200)
    assert len(bomb) < 300_000
    for body, headers in (
        (bomb, _headers(key, **{"Content-Encoding": "gzip"})),
        (b" " * (33 * 1024 * 1024), _headers(key)),
        (b'{"node": "a", "records": [[' + b"[]," * 10_000_000 + b"0]]}", _headers(key)),
    ):
        refused = httpx.post(f"{hub.url}/api/sync/push", content=body, headers=headers, timeout=60)
        assert (refused.status_code, refused.json()["error"]) == (413, "too_large")
    assert _memory(hub) < 600_000_000


def _memory(hub: Hub) -> int:
    """Peak memory in bytes."""
    status = Path(f"/proc/{hub.process.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    [peak] = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(peak) * 1024


def test_unfinished_bodies_of_one_user_take_up_limited_memory(hub: Hub, key: str) -> None:
    """One more than fit, unpacked, is refused, whichever comes last; another user's push is taken."""
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b'{"records":["' + b"x" * 31_000_000) + packer.flush(zlib.Z_SYNC_FLUSH)
    headers = {**_headers(key, **{"Content-Encoding": "gzip"}), "Host": "127.0.0.1", "Content-Length": "1000000"}
    lines = ["POST /api/sync/push HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    host, port = hub.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        bodies = [stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S)) for _ in range(3)]
        for connection in bodies:
            connection.sendall("\r\n".join(lines).encode() + packed)
        answered, _, _ = select.select(bodies, [], [], TIMEOUT_S)
        assert answered[0].recv(100).startswith(b"HTTP/1.1 503")
        assert hub.post("push", hub.key("neighbor"), records=[]).is_success


def test_a_body_that_is_not_gzip_is_refused(hub: Hub, key: str) -> None:
    refused = httpx.post(
        f"{hub.url}/api/sync/push", content=b"{}" * 20, headers=_headers(key, **{"Content-Encoding": "gzip"})
    )
    assert refused.status_code in (400, 422)
    assert "gzip" in refused.json()["detail"]


def test_bytes_after_the_end_of_a_gzip_body_are_refused(hub: Hub, key: str) -> None:
    """zlib would collect them, uncounted, for as long as they come."""
    body = gzip.compress(json.dumps({"node": "a", "records": []}).encode())
    headers = _headers(key, **{"Content-Encoding": "gzip"})
    assert httpx.post(f"{hub.url}/api/sync/push", content=body, headers=headers).is_success
    for more in (b"\0", body, b"\0" * 1_000_000):
        refused = httpx.post(f"{hub.url}/api/sync/push", content=body + more, headers=headers)
        assert refused.status_code == 422
        assert "gzip" in refused.json()["detail"]


def test_a_namespace_is_sealed_with_one_secret_or_with_none(hub: Hub, key: str) -> None:
    one, other = "0" * 16, "1" * 16
    assert hub.post("push", key, seal=one, records=[record()]).json()["refused"] == []
    for node, seal in (("b1", other), ("b2", None)):
        [refused] = hub.post("push", key, node=node, seal=seal, records=[record("n2")]).json()["refused"]
        assert (refused["id"], refused["error"]) == ("n2", "other_secret")
        assert "--secret" in refused["message"]
        refusal = hub.post("pull", key, node="c", seal=seal, namespace="default")
        assert (refusal.status_code, refusal.json()["error"]) == (409, "other_secret")
    assert hub.post("pull", key, node="d", seal=one, namespace="default").is_success
    assert hub.post("pull", key, node="e", seal=None, namespace="another").is_success


def test_an_old_ticket_is_refused(hub: Hub, key: str) -> None:
    first = hub.post("push", key, records=[record("n1")]).json()["ticket"]
    second = hub.post("push", key, ticket=first, records=[record("n2")]).json()["ticket"]
    hub.post("push", key, ticket=second, records=[record("n3")])
    for verb, arguments in (("push", {"records": [record("n4")]}), ("pull", {"namespace": "default"})):
        for ticket in (first, None, "made up"):
            refused = hub.post(verb, key, ticket=ticket, **arguments)
            assert (refused.status_code, refused.json()["error"]) == (409, "node_forked")
    assert len(hub.post("pull", key, node="b", namespace="default").json()["records"]) == 3


def test_a_restored_hub_does_not_know_later_tickets(hub: Hub, key: str) -> None:
    first = hub.post("pull", key, node="b", namespace="default").json()
    hub.post("push", key, node="a", records=[record(namespace="another")])
    moved = hub.post("pull", key, node="b", ticket=first["ticket"], namespace="default").json()
    assert moved["records"] == []
    assert moved["cursor"] > first["cursor"]
    assert moved["ticket"] != first["ticket"]
    arguments = {"ticket": moved["ticket"], "namespace": "default", "after": moved["cursor"]}
    assert hub.post("pull", key, node="b", **arguments).json()["ticket"] == moved["ticket"]


def test_a_request_with_a_lost_answer_can_be_repeated(hub: Hub, key: str) -> None:
    first = hub.post("push", key, records=[record("n1")]).json()["ticket"]
    hub.post("push", key, ticket=first, records=[record("n2")])  # its answer gets lost
    again = hub.post("push", key, ticket=first, records=[record("n2")])
    assert again.is_success
    assert hub.post("push", key, ticket=again.json()["ticket"], records=[]).is_success


def test_a_copy_of_a_node_gets_the_others_records_and_one_is_detected(hub: Hub, key: str) -> None:
    ticket = hub.post("push", key, records=[record("before")]).json()["ticket"]
    # Both have the ticket now. One goes on, the other comes later, page by page.
    mine = hub.post("push", key, ticket=ticket, records=[record("n1"), record("n2"), record("n3")]).json()["ticket"]
    page = hub.post("pull", key, ticket=ticket, namespace="default", after=1, limit=1).json()
    seen = [one["id"] for one in page["records"]]
    while page["left"]:
        page = hub.post("pull", key, ticket=page["ticket"], namespace="default", after=page["cursor"], limit=1).json()
        seen += [one["id"] for one in page["records"]]
    assert seen == ["n1", "n2", "n3"]
    assert hub.post("push", key, ticket=mine, records=[]).json()["error"] == "node_forked"


def test_unknown_tickets_and_cursors_are_refused(hub: Hub, key: str) -> None:
    assert hub.post("push", key, ticket="of another", records=[]).json()["error"] == "node_forked"
    assert hub.post("pull", key, namespace="default", after=5).json()["error"] == "node_forked"


def test_a_deletion_wins_over_later_writes(hub: Hub, key: str) -> None:
    ticket = hub.post("push", key, records=[record("n1")]).json()["ticket"]
    ticket = hub.post("push", key, ticket=ticket, records=[{"id": "n1", DELETION: stamp()}]).json()["ticket"]
    [merged] = hub.post("push", key, ticket=ticket, records=[record("n1", "again")]).json()["merged"]
    assert merged[DELETION]
    assert "content" not in merged["registers"]
    [received] = hub.post("pull", key, node="b", namespace="default").json()["records"]
    assert received[DELETION]


@pytest.mark.parametrize(
    "bad",
    [
        {"created": ["0000-00-00T00:00:00.000Z", None]},
        {"updated_at": "2030-02-30T00:00:00.000Z"},
        {"importance": True},
        {"importance": "0.5"},
        {"id": "a/b"},
        {"id": "\x1b[2J"},
        {"registers": {"content": ["999999999999999:00000:a", "x"]}},
        {"registers": {"namespace": [stamp(), "default"], "content": [stamp(), 7]}},
        {"registers": {"namespace": [stamp(), "default"], "archived": [stamp(), "yes"]}},
        {"registers": {"namespace": [stamp(), "default"], "expires_at": [stamp(), "soon"]}},
        {"registers": {"namespace": [stamp(), "default"], "tag/x": [stamp(), "x"]}},
        {"registers": {"namespace": [stamp(), "default"], "link/n2": [stamp(), {"id": "n2"}]}},
        {"registers": {"namespace": [stamp(), "a,b"]}},
    ],
)
def test_a_record_with_invalid_values_is_refused(hub: Hub, key: str, bad: dict[str, Any]) -> None:
    pushed = hub.post("push", key, records=[{**record("odd"), **bad}, record("fine")]).json()
    [refused] = pushed["refused"]
    assert refused["error"] == "invalid"
    assert refused["message"]
    assert [one["id"] for one in hub.post("pull", key, node="b", namespace="default").json()["records"]] == ["fine"]


def test_a_merged_note_cannot_grow_beyond_the_limit(hub: Hub, key: str) -> None:
    def with_tags(first: int) -> dict[str, Any]:
        tags = {f"tag/{number}": [stamp(), [f"{number}", "user"]] for number in range(first, first + 6000)}
        return {"id": "n1", "registers": {**record()["registers"], **tags}}

    ticket = hub.post("push", key, records=[with_tags(0)]).json()["ticket"]
    [refused] = hub.post("push", key, ticket=ticket, records=[with_tags(6000)]).json()["refused"]
    assert "10,000 fields" in refused["message"]
    [kept] = hub.post("pull", key, node="b", namespace="default").json()["records"]
    assert len(kept["registers"]) == 6002


def _make_invalid(hub: Hub, ticket: str) -> None:
    """Write a time that no version accepts now into the records of the user who has this ticket."""
    where = f"id IN ('odd', 'gone') AND user_id = (SELECT user_id FROM nodes WHERE ticket = '{ticket}')"
    if hub.database_url:
        import psycopg

        with psycopg.connect(hub.database_url, options="-c search_path=memory_hub") as postgres:
            found = "jsonb_set(record::jsonb, '{created}', '[\"0000-00-00T00:00:00.000Z\", null]')::text"
            postgres.execute(f"UPDATE records SET record = {found} WHERE {where}".encode())
        return
    with closing(apsw.Connection(str(hub.data_dir / "hub.db"))) as connection:
        connection.set_busy_timeout(30_000)
        found = "json_set(record, '$.created', json('[\"0000-00-00T00:00:00.000Z\", null]'))"
        connection.execute(f"UPDATE records SET record = {found} WHERE {where}")


def test_invalid_records_of_earlier_versions_block_nothing(hub: Hub, key: str) -> None:
    records = [record("odd"), record("gone"), record("fine")]
    ticket = hub.post("push", key, records=records).json()["ticket"]
    moved = {"id": "gone", "registers": {"namespace": [stamp(), "elsewhere"]}}
    ticket = hub.post("push", key, ticket=ticket, records=[moved]).json()["ticket"]
    _make_invalid(hub, ticket)
    pulled = hub.post("pull", key, node="b", namespace="default").json()["records"]
    assert sorted(one["id"] for one in pulled) == ["fine", "gone", "odd"]
    again = hub.post("push", key, ticket=ticket, records=[record("odd", "repaired")]).json()
    assert again["refused"] == []
    [odd] = [
        one for one in hub.post("pull", key, node="c", namespace="default").json()["records"] if one["id"] == "odd"
    ]
    assert "created" not in odd
    assert odd["registers"]["content"][1] == "repaired"


def test_answers_to_a_push_are_limited_in_size(hub: Hub, key: str) -> None:
    large = [record(f"n{number}", "x" * 1_000_000) for number in range(8)]
    hub.post("push", key, node="a", records=large)
    small = [{"id": f"n{number}", "registers": {"folder": [stamp(), "f"]}} for number in range(8)]
    answer = hub.post("push", key, node="b", records=small).json()
    assert len(answer["merged"]) + len(answer["refused"]) == 8
    assert {one["error"] for one in answer["refused"]} == {"unavailable"}
    left = [one for one in small if one["id"] in {refused["id"] for refused in answer["refused"]}]
    assert hub.post("push", key, node="b", ticket=answer["ticket"], records=left).json()["refused"] == []


def test_the_hub_has_no_other_routes(hub: Hub) -> None:
    assert httpx.get(f"{hub.url}/healthz").is_success
    for path in ("/", "/mcp", "/api/mcp/search", "/metrics", "/api/sync/push"):
        assert httpx.get(f"{hub.url}{path}").status_code in (401, 404, 405)


def test_openapi_describes_the_answers(hub: Hub) -> None:
    paths = httpx.get(f"{hub.url}/api/openapi.json").json()["paths"]
    assert {"/api/sync/push", "/api/sync/pull"} <= paths.keys()
