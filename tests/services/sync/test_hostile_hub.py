"""Attacks on a node by a hostile hub, or by anyone with its key: real nodes, over real HTTP."""

import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.clock import precise_stamp
from memory_mcp.errors import AppError
from memory_mcp.families.notes.model import Author, NewNote, Note, Revision
from memory_mcp.services.sync import hub_client
from memory_mcp.services.sync import node as nodes
from memory_mcp.services.sync.records import DELETION
from tests.bombs import gzip_bomb
from tests.exhaustive import rounds, sample
from tests.processes import COMMAND, environment
from tests.services.sync.hostile import HostileHub, constant_reply, hostile_hub
from tests.services.sync.processes import Node

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}), namespace="shared")


@pytest.fixture(scope="module")
def serving() -> Iterator[HostileHub]:
    with hostile_hub() as hub:
        yield hub


@pytest.fixture
def hub(serving: HostileHub) -> HostileHub:
    """The server of all tests, reset."""
    url = serving.url
    serving.__init__()  # type: ignore[misc]
    serving.url = url
    return serving


@pytest.fixture
def node(hub: HostileHub, tmp_path: Path) -> Node:
    """Syncs `shared`, and nothing else."""
    made = Node(tmp_path / "node")
    made.run("link", hub.url, "--key", "mmcp_key")
    made.run("enable", "shared")
    return made


@contextmanager
def opened(node: Node) -> Iterator[App]:
    chosen = settings.load({"data_dir": node.data_dir, "embedder": "none"}, environ={}).settings
    with open_app(chosen, serving=False) as app:
        yield app


def write(node: Node, content: str, namespace: str, **more: Any) -> str:
    with opened(node) as app:
        return app.notes.writer.create(ME, Author(), NewNote(content, namespace=namespace, **more)).id


def read(node: Node, id_: str) -> Note:
    with opened(node) as app:
        return app.notes.reader.read(ME, id_, include_links=True)


def everything(node: Node) -> dict[str, str]:
    """Namespace and text of every note, by id."""
    with opened(node) as app:
        notes = [one.note for one in app.notes.transfer.everything(ME)]
    return {note.id: f"{note.namespace}: {note.content}" for note in notes}


def stamp(ms: int = 0) -> str:
    return f"{int(time.time() * 1000) + ms:015d}:00000:evil"


def forged(id_: str, **registers: Any) -> dict[str, Any]:
    """A record written by the hub, a moment after everything else."""
    at = stamp(1000)
    return {"id": id_, "registers": {name.replace("__", "/"): [at, value] for name, value in registers.items()}}


SECRET = "The combination is 12-34-56."


def attacks(id_: str) -> list[dict[str, Any]]:
    at = stamp(1000)
    removed = {name: [at] for name in ("title", "expires_at", "tag/mine", "metadata/kept")}
    return [
        forged(id_, namespace="shared"),
        forged(id_, content="Overwritten", namespace="shared"),
        forged(id_, content="Overwritten"),
        forged(id_, content="Overwritten", namespace="private"),
        forged(id_, tag__evil=["evil", "user"], metadata__evil=1, archived=True, folder="evil"),
        {"id": id_, "registers": removed},
        {"id": id_, "importance": 1.0, "updated_at": "2020-01-01T00:00:00.000Z"},
        {"id": id_, DELETION: at},
        {"id": id_, "registers": {"namespace": [at, "shared"]}, DELETION: at},
        {"id": id_, "registers": {"namespace": [at, "private"]}, DELETION: at},
    ]


@pytest.mark.parametrize("where", ["never enabled", "disabled", "cleared"])
def test_a_note_outside_of_the_enabled_namespaces_is_neither_read_nor_changed(
    hub: HostileHub, node: Node, where: str
) -> None:
    id_ = write(node, SECRET, "private", title="Safe", tags=("mine",), metadata={"kept": 1}, expires_at="2040-01-01")
    if where != "never enabled":
        node.run("enable", "private")
        node.run("disable" if where == "disabled" else "clear-state", "private")
    before = read(node, id_)
    bait = write(node, "Bait", "shared")
    node.run("now")
    hub.records = [*attacks(id_), forged(bait, **{f"link__{id_}": id_, f"supersedes__{id_}": id_})]
    node.run("now")
    assert read(node, id_) == before
    node.run("resync", "shared")
    node.run("now")
    assert read(node, id_) == before
    assert "combination" not in hub.received
    assert id_ not in hub.pushed()


def test_a_new_note_comes_only_into_an_enabled_namespace(hub: HostileHub, node: Node) -> None:
    hub.records = [
        forged("new-1", content="Injected", namespace="private", folder=""),
        forged("new-2", content="Welcome", namespace="shared", folder=""),
        forged("new-3", content="Nowhere", folder=""),
    ]
    node.run("now")
    assert everything(node) == {"new-2": "shared: Welcome"}


def test_a_note_is_not_moved_out_of_the_enabled_namespaces(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Shared text", "shared")
    node.run("now")
    hub.records = [forged(id_, namespace="private"), forged(id_, content="Changed there", namespace="private")]
    node.run("now")
    assert everything(node) == {id_: "shared: Changed there"}  # the hub may change its text, not its namespace
    node.run("enable", "other")
    hub.records = [forged(id_, namespace="other")]
    node.run("now")
    assert everything(node)[id_].startswith("other:")


def test_a_note_moved_to_a_private_namespace_stays_on_the_node(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Shared text", "shared")
    node.run("now")
    with opened(node) as app:
        app.notes.writer.update(ME, Author(), id_, Revision(namespace="private", content=SECRET))
    hub.requests.clear()
    hub.records = [forged(id_, content="Overwritten", namespace="shared"), {"id": id_, DELETION: stamp(1000)}]
    node.run("now")
    node.run("resync", "shared")
    node.run("now")
    assert everything(node) == {id_: f"private: {SECRET}"}
    with opened(node) as app:
        app.notes.writer.delete(ME, id_, soft=False)
    node.run("now")
    assert id_ not in hub.received
    assert "private" not in hub.received
    assert "combination" not in hub.received


def test_a_note_moved_back_syncs_again(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Private at first", "private")
    node.run("now")
    assert "Private at first" not in hub.received
    with opened(node) as app:
        app.notes.writer.update(ME, Author(), id_, Revision(namespace="shared"))
    node.run("now")
    assert hub.pushed()[id_]["registers"]["content"][1] == "Private at first"


def test_records_missed_while_disabled_arrive_when_enabled(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "First", "shared")
    node.run("now")
    node.run("disable", "shared")
    node.run("enable", "other")
    hub.records = [forged(id_, content="Second", namespace="shared")]
    node.run("now")
    assert everything(node) == {id_: "shared: First"}
    node.run("enable", "shared")
    node.run("now")
    assert hub.requests[-2][1]["after"] == 0  # from the beginning
    assert id_ in hub.pushed()  # so that the hub sends its newer values


# A record that cannot be merged does not stop the others


def test_a_record_that_cannot_be_merged_is_skipped_and_named(hub: HostileHub, node: Node) -> None:
    fine = forged("fine", content="Fine", namespace="shared", folder="")
    bad = {
        "bad-time": {**fine, "id": "bad-time", "created": ["0000-00-00T00:00:00.000Z", None]},
        "bad-day": {**fine, "id": "bad-day", "updated_at": "2030-02-30T00:00:00.000Z"},
        "bad-stamp": {"id": "bad-stamp", "registers": {"content": ["999999999999999:00000:a", "x"]}},
        "bad-text": forged("bad-text", content=7, namespace="shared"),
        "bad-tag": forged("bad-tag", content="x", namespace="shared", folder="", tag__x=["y", "user"]),
        "bad-place": forged("bad-place", content="x", namespace=["shared"]),
        "bad-depth": forged(
            "bad-depth", content="x", namespace="shared", metadata__k=json.loads("[" * 500 + "]" * 500)
        ),
        "bad-tags": {"id": "bad-tags", "registers": {f"tag/{n}": [stamp(), [f"{n}", "user"]] for n in range(20_000)}},
    }
    hub.records = [*bad.values(), "no record", {"id": "\x1b[2J" * 99}, fine]
    cursor = len(hub.records)
    node.run("now")
    status = node.run_json("status")
    assert everything(node) == {"fine": "shared: Fine"}
    assert {one["id"] for one in status["set_aside"]} == {*bad, ""}
    assert all(one["reason"] for one in status["set_aside"])
    assert status["namespaces"][0]["cursor"] == cursor
    shown = node.run("status").stdout
    assert all(id_ in shown for id_ in bad)
    assert "resync" in shown
    assert "\x1b" not in shown
    hub.records = [forged("later", content="Later", namespace="shared", folder="")]
    assert "1 received" in node.run("now").stdout
    node.run("resync", "shared")
    assert node.run_json("status")["set_aside"] == []
    hub.records = [forged("bad-time", content="Repaired", namespace="shared", folder=""), bad["bad-day"]]
    node.run("now")
    assert [one["id"] for one in node.run_json("status")["set_aside"]] == ["bad-day"]
    assert everything(node)["bad-time"] == "shared: Repaired"


def test_the_list_of_skipped_records_is_limited(hub: HostileHub, node: Node) -> None:
    def page(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
        if verb == "pull":
            bad = [{"id": f"{answer['ticket']}-{n}", "surprise": 1} for n in range(200)]
            answer |= {"records": bad, "cursor": answer["cursor"] + 200}
        return answer

    hub.change = page
    for _ in range(3):
        node.run("now")
    with opened(node) as app, app.notes._files.of(LOCAL_USER).db.read() as tx:
        assert tx.number("SELECT count(*) FROM sync_set_aside") == 200
    assert len(node.run_json("status")["set_aside"]) == 20


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | st.just("x" * 5000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["mine", "a", "b", "\0", "x" * 64, "../x"]) | st.text(max_size=4)
stamps = st.builds(
    lambda ms, count, who: f"{ms:015d}:{count:05d}:{who}",
    st.sampled_from([0, 1, 1_800_000_000_000, 4_000_000_000_000, 7_258_118_399_999, 10**15 - 1]),
    st.sampled_from([0, 99999]),
    st.sampled_from(["a", "evil"]),
)
names = st.sampled_from(
    ["content", "title", "folder", "namespace", "archived", "expires_at", "tag/x", "tag/", "tag/ns/shared", "metadata/",
     "metadata/\ud800", "metadata/k", "link/mine", "link/a", "link/", "supersedes/mine", "supersedes/b", "wikilink/t",
     "new/x"]
) | st.text(max_size=6)  # fmt: skip
likely: st.SearchStrategy[Any] = st.sampled_from(
    ["shared", "other", "", "text [[t]] #x", None, True, ["x", "user"], ["X", "system"], ["archived", "user"], "mine",
     "a", "b", "9999-12-31T23:59:59+00:00", "0001-01-01", "9999-12-31T23:59:59-23:00", 10**400, {"a": [1]}]
)  # fmt: skip
registers = st.one_of(st.tuples(stamps, likely), st.tuples(stamps, likely), st.tuples(stamps), anything)
times = st.sampled_from(
    ["2030-01-01T00:00:00.000Z", "0000-00-00T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "1000-01-01T00:00:00.000Z"]
)
base: dict[str, Any] = {
    "content": ("001800000000000:00000:a", "text"),
    "namespace": ("001800000000000:00000:a", "shared"),
    "folder": ("001800000000000:00000:a", ""),
}
records = anything | st.fixed_dictionaries(
    {"id": ids, "registers": st.dictionaries(names, registers, max_size=6).map(lambda more: base | more)},
    optional={
        "importance": anything | st.floats(0, 1),
        "created": anything | st.tuples(times, st.none() | st.text(max_size=3)),
        "updated_at": times | anything,
        "last_referenced_at": times | anything,
        DELETION: stamps | anything,
    },
)
answers = st.fixed_dictionaries(
    {"records": st.lists(records, max_size=4)},
    optional={
        "now": times | anything,
        "ticket": anything,
        "cursor": anything,
        "left": anything,
        "refused": st.lists(st.fixed_dictionaries({"id": ids | anything, "message": anything}), max_size=2),
    },
)


@pytest.mark.parametrize("link", [(), ("--encrypt",)], ids=["plain", "sealed"])
def test_a_node_survives_any_answer(hub: HostileHub, tmp_path: Path, link: tuple[str, ...]) -> None:
    """Each exchange ends, with a plain message if it fails."""
    node = Node(tmp_path)
    node.run("link", hub.url, "--key", "mmcp_key", *link)
    node.run("enable", "shared")
    with opened(node) as app:

        @given(pulled=answers, pushed=answers)
        @hypothesis_settings(
            max_examples=EXAMPLES,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        def goes_on(pulled: dict[str, Any], pushed: dict[str, Any]) -> None:
            def change(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
                output = dict(pulled if verb == "pull" else pushed)
                given = output.pop("records")
                return {**answer, ("records" if verb == "pull" else "merged"): given, **output}

            hub.change = change
            with suppress(AppError):
                app.notes.writer.create(ME, Author(), NewNote("text [[t]]", title="t", tags=("x",)))
                app.sync.run(LOCAL_USER)
            hub.change = lambda verb, answer: answer
            done = app.sync.run(LOCAL_USER)
            assert done.refused == 0
            app.sync.status(LOCAL_USER)
            for one in app.notes.transfer.everything(ME):
                app.notes.reader.read(ME, one.note.id, include_links=True)

        goes_on()


EXAMPLES = rounds(25, soak=int(os.environ.get("MEMORY_MCP_HOSTILE_EXAMPLES", "60")))


# Answers are limited in size and time


def test_an_answer_that_decompresses_to_gigabytes_is_refused(hub: HostileHub, node: Node) -> None:
    bomb = gzip_bomb(megabytes=600)
    hub.send = constant_reply(bomb, Content_Encoding="gzip")
    output, peak_bytes = sync_measured(node)
    assert "bytes" in output
    assert peak_bytes < 400_000_000
    for encoding in ("gzip, gzip", "deflate", "br"):
        hub.send = constant_reply(bomb, Content_Encoding=encoding)
        assert "is not a hub" in _flat(node.run("now", check=False).stderr)


def test_an_answer_that_goes_on_after_its_gzip_data_is_refused(hub: HostileHub, node: Node) -> None:
    """zlib would collect the rest, uncounted, for as long as it comes."""
    answer = {"now": precise_stamp(datetime.now(UTC)), "ticket": "t", "cursor": 1, "left": 0, "records": []}
    body = packed([json.dumps(answer).encode()])
    for more, is_refused in ((b"", False), (b"\0" * 100_000, True)):
        hub.send = constant_reply(body + more, Content_Encoding="gzip")
        assert ("is not a hub" in _flat(node.run("now", check=False).stderr)) is is_refused


@pytest.mark.parametrize("value", sample(["[]", "{}", '{"":0}', '"\\\\"', "[[1]]"], every=2))
def test_an_answer_with_very_many_values_needs_little_memory(hub: HostileHub, node: Node, value: str) -> None:
    head, tail = json.dumps(
        {
            "now": precise_stamp(datetime.now(UTC)),
            "ticket": "t",
            "cursor": 1,
            "left": 0,
            "records": [forged("a", content='\\"[', namespace="shared", folder="", metadata__k=["HERE"])],
        }
    ).split('"HERE"')
    block = (value + ",") * 20_000
    blocks = 23 * 1024 * 1024 // len(block)
    parts = [head.encode(), *[block.encode()] * blocks, value.encode(), tail.encode()]
    hub.send = constant_reply(packed(parts), Content_Encoding="gzip")
    output, peak_bytes = sync_measured(node)
    assert "values" in output
    assert peak_bytes < 400_000_000


def test_another_encoding_does_not_hide_values(hub: HostileHub, node: Node) -> None:
    hub.send = constant_reply(json.dumps({"\u2200": 1}, ensure_ascii=False).encode("utf-16-le"))
    assert "is not a hub" in _flat(node.run("now", check=False).stderr)


def packed(parts: Iterable[bytes]) -> bytes:
    """In gzip, bit by bit."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([*map(packer.compress, parts), packer.flush()])


MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(status)
"""


def sync_measured(node: Node) -> tuple[str, int]:
    """The error of `sync now`, and its peak memory in bytes. A small process starts it, as a child's peak begins with
    its parent's memory."""
    command = [*COMMAND, "sync", "now", "--data-dir", str(node.data_dir)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr, int(done.stdout.splitlines()[-1])


def _flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("what", ["headers", "body"])
def test_a_slow_answer_is_cut_off(hub: HostileHub, node: Node, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    ended = threading.Event()

    def drip(request: BaseHTTPRequestHandler, verb: str) -> bool:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        request.wfile.write(b"X-Slow: " if what == "headers" else b"Content-Length: 100000\r\n\r\n")
        with suppress(OSError):
            while not ended.wait(0.02):
                request.wfile.write(b" ")
        request.close_connection = True
        return True

    hub.send = drip
    monkeypatch.setattr(hub_client, "ANSWER_TIMEOUT_S", 0.4)
    try:
        refused = node.run("now", check=False)
    finally:
        ended.set()
    assert refused.returncode == 1
    assert "does not answer" in _flat(refused.stderr)
    hub.send = lambda request, verb: False
    monkeypatch.undo()
    node.run("now")


PAGES_THAT_LEAD_NOWHERE: list[dict[str, Any]] = [
    {"left": 1},
    {"left": 1, "records": [{"id": "a"}]},
    {"cursor": 3},
    {"cursor": 2**63},
    {"cursor": -1},
    {"cursor": "9"},
    {"left": -1, "cursor": 10},
    {"left": 2**70, "cursor": 10},
    {"records": [{"id": "a"}] * 201, "cursor": 500},
    {"records": {"id": "a"}},
    {"ticket": "x" * 65},
    {"ticket": None},
    {"now": "9999-01-01T00:00:00.000Z"},
    {"now": "1970-01-01T00:00:00.000Z"},
    {"now": "0000-00-00T00:00:00.000Z"},
    {"now": 7},
]


def pulling(pages: dict[str, Any]) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    return lambda verb, answer: answer | pages if verb == "pull" else answer


def test_pages_that_lead_nowhere_are_refused(hub: HostileHub, node: Node) -> None:
    hub.cursor = 5
    node.run("now")
    assert node.run_json("status")["namespaces"][0]["cursor"] == 5
    for pages in PAGES_THAT_LEAD_NOWHERE:
        hub.change = pulling(pages)
        refused = node.run("now", check=False)
        assert refused.returncode == 1, pages
        assert "is not a hub" in _flat(refused.stderr), pages
        assert node.run_json("status")["namespaces"][0]["cursor"] == 5, pages


def test_endless_pages_end_the_exchange(hub: HostileHub, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def more(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
        if verb != "pull":
            return answer
        hub.cursor += 1
        note = forged(f"n{hub.cursor}", content="More", namespace="shared", folder="")
        return answer | {"records": [note], "cursor": hub.cursor, "left": 1}

    hub.change = more
    monkeypatch.setattr(nodes, "MAX_PAGES", 4)
    left = node.run("now", check=False)
    assert left.returncode == 1
    assert "4 received" in left.stdout


def test_endless_merges_do_not_keep_a_node_sending(
    hub: HostileHub, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = write(node, "Text", "shared")

    def differ(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
        old = "000000000000000:00000:a"
        claim = {"id": id_, "registers": {"content": [old, "Old"], "folder": [old, "x"], "namespace": [old, "shared"]}}
        return answer | {"merged": [claim]} if verb == "push" else answer

    hub.change = differ
    monkeypatch.setattr(nodes, "MAX_EXTRA_PUSHES", 5)
    node.run("now", check=False)
    assert len([verb for verb, _ in hub.requests if verb == "push"]) < 10
    assert everything(node) == {id_: "shared: Text"}


def test_a_redirect_is_not_followed(hub: HostileHub, node: Node) -> None:
    with hostile_hub() as elsewhere:
        for status in (301, 302, 303, 307, 308):
            hub.send = constant_reply(b"{}", status, Location=f"{elsewhere.url}/api/sync/pull")
            assert node.run("now", check=False).returncode == 1
        assert elsewhere.headers == []


def test_messages_of_a_hub_are_printed_on_one_line_without_control_characters(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Text", "shared")
    evil = "\x1b[2J\nSynced   all is well\n" * 500
    hub.change = lambda verb, answer: (
        answer | {"refused": [{"id": id_, "error": "invalid", "message": evil}]} if verb == "push" else answer
    )
    refused = node.run("now", check=False)
    hub.send = constant_reply(json.dumps({"error": "invalid", "detail": evil}).encode(), 422)
    failed = node.run("now", check=False)
    for text in (refused.stdout + refused.stderr, failed.stderr, node.run("status").stdout):
        assert "\x1b[2J" not in text
        assert "\nSynced   all is well" not in text
        assert len(text) < 5000


def test_a_very_long_retry_after_is_limited(hub: HostileHub, node: Node) -> None:
    waited: list[float] = []
    hub.send = constant_reply(b"{}", 429, Retry_After="9" * 300)
    with opened(node) as app, pytest.raises(AppError):
        app.sync.run(LOCAL_USER, pause=waited.append)
    hub.send = constant_reply(b"{}", 429, Retry_After="99999")
    with opened(node) as app, pytest.raises(AppError):
        app.sync.run(LOCAL_USER, pause=waited.append)
    assert sum(waited) < 2 * nodes.MAX_PAUSE_S


# Encrypted, a hub can make up nothing


def encrypted_node(hub: HostileHub, folder: Path) -> tuple[Node, str, str, str]:
    """A node that has sent two linked notes: the node, its secret, and the ids of both."""
    node = Node(folder)
    secret = node.run_json("link", hub.url, "--key", "mmcp_key", "--encrypt")["secret"]
    node.run("enable", "shared")
    node.run("enable", "other")
    id_ = write(node, "Text", "shared", title="Title", tags=("kept",), metadata={"k": 1}, expires_at="2040-01-01")
    target = write(node, "Target", "shared")
    with opened(node) as app:
        app.notes.writer.link(ME, id_, target, bidirectional=False)
    node.run("now")
    return node, secret, id_, target


def forgeries(sealed: dict[str, Any], foreign: dict[str, Any], id_: str, target: str) -> list[dict[str, Any]]:
    """Records that a hub can make of two sealed ones without the secret."""
    at, registers = stamp(1000), sealed["registers"]
    return [
        *({"id": id_, "registers": {name: [at]}} for name in registers),  # as if it had been removed
        *({"id": id_, "registers": {name: [at, value]}} for name, (_, value) in registers.items()),  # replayed
        {"id": id_, "registers": {"content": foreign["registers"]["content"]}},  # swapped
        {"id": id_, "registers": {"title": registers["content"]}},
        forged(id_, archived=True),
        forged(id_, namespace="other"),
        forged(id_, namespace={**registers["namespace"][1], "open": "other"}),
        forged(id_, content="Made up"),
        {"id": id_, "registers": {f"link/{target}": [at]}},
        {"id": id_, "registers": {f"supersedes/{target}": [at, target]}},
        {"id": id_, DELETION: at},
        {"id": id_, "registers": {DELETION: [at, registers["content"][1]]}, DELETION: at},
        forged("new", content="Made up", namespace="shared", folder=""),
        {**sealed, "id": "copied"},
    ]


def test_a_hub_without_the_secret_cannot_forge_anything(hub: HostileHub, tmp_path: Path) -> None:
    node, _, id_, target = encrypted_node(hub, tmp_path / "node")
    before = read(node, id_), read(node, target)
    for attack in forgeries(hub.pushed()[id_], hub.pushed()[target], id_, target):
        hub.records = [attack]
        node.run("now")
        [aside] = [one for one in node.run_json("status")["set_aside"] if one["id"] == attack["id"]]
        assert "seal" in aside["reason"].lower()
        assert (read(node, id_), read(node, target)) == before, attack
        node.run("resync", "shared")  # which deletes the list of skipped records
    assert everything(node).keys() == {id_, target}


def test_a_node_with_the_secret_gets_every_change(hub: HostileHub, tmp_path: Path) -> None:
    node, secret, id_, target = encrypted_node(hub, tmp_path / "node")
    other = Node(tmp_path / "other")
    other.run("link", hub.url, "--key", "mmcp_key", "--secret", secret)
    other.run("enable", "shared")
    hub.records = [hub.pushed()[id_], hub.pushed()[target]]
    other.run("now")
    assert other.run_json("status")["set_aside"] == []
    assert everything(other) == everything(node)
    with opened(node) as app:
        app.notes.writer.update(
            ME, Author(), id_, Revision(remove_tags=("kept",), metadata_patch={"k": None}, expires_at="")
        )
        app.notes.writer.delete(ME, target, soft=False)
    hub.records = []
    node.run("now")
    hub.records = [hub.pushed()[id_], hub.pushed()[target]]
    other.run("now")
    assert other.run_json("status")["set_aside"] == []
    assert everything(other).keys() == {id_}
    arrived = read(other, id_)
    assert (arrived.metadata, arrived.expires_at, "kept" in arrived.tags) == ({}, None, False)


# A hub that lies about the time


def lying(ms: int) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """For `change`: an offset of the hub's clock."""
    now = precise_stamp(datetime.now(UTC) + timedelta(milliseconds=ms))
    return lambda verb, answer: {**answer, "now": now}


YEAR_MS = 365 * 86_400_000


@pytest.mark.parametrize(
    ("way", "link"),
    [
        ("acknowledged", ()),
        ("acknowledged", ("--encrypt",)),
        ("answer lost", ("--encrypt",)),
        ("first ahead", ("--encrypt",)),
        ("disabled", ("--encrypt",)),
    ],
)
def test_a_hub_that_sets_its_clock_back_does_not_roll_notes_back(
    hub: HostileHub, tmp_path: Path, way: str, link: tuple[str, ...]
) -> None:
    node = Node(tmp_path / "node")
    node.run("link", hub.url, "--key", "mmcp_key", *link)
    node.run("enable", "shared")
    node.run("enable", "other")
    if way == "first ahead":
        hub.change = lying(YEAR_MS)
        node.run("now")
    id_ = write(node, "Version one", "other", tags=("old",), metadata={"a": 1})
    if way == "answer lost":
        hub.change = lambda verb, answer: {} if verb == "push" else answer
    node.run("now", check=False)
    old = hub.pushed()[id_]
    with opened(node) as app:
        revision = Revision(content="Version two", namespace="shared", remove_tags=("old",), metadata_patch={"a": 2})
        app.notes.writer.update(ME, Author(), id_, revision)
    node.run("now", check=False)
    before = read(node, id_)
    if way == "disabled":
        node.run("disable", "shared")
    for ms in (-20 * YEAR_MS, -100_000, 0):
        hub.records, hub.change = [old], lying(ms)
        refused = node.run("now", check=False)
        assert read(node, id_) == before
        if ms:
            assert "clock is behind" in _flat(refused.stderr)
            assert "clock is behind" in node.run_json("status")["error"]
            if way == "disabled":
                node.run("enable", "shared")
    node.run("now")
    assert read(node, id_) == before
    assert node.run_json("status")["error"] is None


def test_unsent_changes_get_stamps_later_than_all_sent_ones(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "One", "shared")
    node.run("now")
    [sent, *_] = hub.pushed()[id_]["registers"]["content"]
    with opened(node) as app, app.notes._files.of(LOCAL_USER).db.write() as tx:
        tx.all("UPDATE sync_node SET offset_ms = :ms", {"ms": YEAR_MS})  # as if this computer's clock were ahead
    with opened(node) as app:
        app.notes.writer.update(ME, Author(), id_, Revision(content="Two"))
    node.run("now")
    [again, *_] = hub.pushed()[id_]["registers"]["content"]
    assert sent < again < stamp(60_000)
