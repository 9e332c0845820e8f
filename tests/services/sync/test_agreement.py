"""Nodes agree after exchanges that need more than merging records."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app, open_hub
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.clock import utc_now
from memory_mcp.families.notes.model import Author, NewNote, Note, Revision
from memory_mcp.services.sync import node as nodes
from memory_mcp.services.sync import worker as workers
from memory_mcp.services.sync.hub import Hub
from memory_mcp.services.sync.hub_client import HubAnswer
from memory_mcp.services.sync.records import NoteRecord, as_json, parse
from memory_mcp.services.sync.worker import SyncWorker

CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
AUTHOR = Author("mcp", "test")
NAMESPACES = ("default", "work")


class Line:
    """Sends requests to a hub in this process, as JSON."""

    hub: Hub

    def __init__(self, url: str, key: str) -> None:
        pass

    def close(self) -> None:
        pass

    def push(self, node: str, ticket: str | None, seal: str | None, records: Sequence[NoteRecord]) -> HubAnswer:
        fields = json.loads(json.dumps([as_json(record) for record in records]))
        answer = self.hub.push(CALLER, node, ticket, seal, fields)
        refused = {str(one.id): one.message for one in answer.refused}
        return HubAnswer(answer.now, answer.ticket, _parsed(answer.merged), refused)

    def pull(
        self, node: str, ticket: str | None, seal: str | None, namespace: str, after: int, *, own: bool, limit: int
    ) -> HubAnswer:
        answer = self.hub.pull(CALLER, node, ticket, seal, namespace, after, own=own, limit=limit)
        return HubAnswer(answer.now, answer.ticket, _parsed(answer.records), {}, answer.cursor, answer.left)


def _parsed(fields: list[dict[str, Any]]) -> list[NoteRecord]:
    return [parse(json.loads(json.dumps(one))) for one in fields]


class Node:
    """A node that syncs on demand."""

    def __init__(self, app: App) -> None:
        self.app = app
        app.sync.link(LOCAL_USER, "http://hub", "key")
        for namespace in NAMESPACES:
            app.sync.enable(LOCAL_USER, namespace)

    def create(self, content: str, **fields: Any) -> str:
        return self.app.notes.writer.create(CALLER, AUTHOR, NewNote(content=content, **fields)).id

    def update(self, id_: str, **fields: Any) -> None:
        self.app.notes.writer.update(CALLER, AUTHOR, id_, Revision(**fields))

    def archive(self, id_: str) -> None:
        self.app.notes.writer.delete(CALLER, id_, soft=True)

    def note(self, id_: str) -> Note:
        return self.app.notes.reader.read(CALLER, id_, include_links=True)

    def targets(self, id_: str) -> list[str]:
        links = self.note(id_).links
        return [link.id for link in links.outgoing] if links else []

    def sync(self) -> nodes.ExchangeResult:
        return self.app.sync.run(LOCAL_USER)


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """The clock of the last one is an hour ahead."""

    def ahead() -> datetime:
        return utc_now() + timedelta(hours=1)

    with ExitStack() as stack:
        hub = stack.enter_context(open_hub(_settings(tmp_path / "hub"))).hub
        monkeypatch.setattr(Line, "hub", hub, raising=False)
        monkeypatch.setattr(nodes, "HubClient", Line)
        monkeypatch.setattr(workers, "START_DELAY_S", 3600.0)
        apps = [
            stack.enter_context(open_app(_settings(tmp_path / f"node{number}"), clock=clock))
            for number, clock in enumerate((utc_now, utc_now, ahead))
        ]
        yield [Node(app) for app in apps]


def _settings(data_dir: Path) -> settings.Settings:
    return settings.load({"data_dir": data_dir, "embedder": "none"}, environ={}).settings


def settle(*several: Node) -> None:
    """Sync all until nothing is left."""
    while any((done := node.sync()).pushed or done.pulled for node in several):
        pass


def shown(node: Node, id_: str) -> dict[str, Any]:
    """The fields that must be the same on every node."""
    fields = asdict(node.note(id_))
    for own in ("source", "version", "tags", "origin"):
        del fields[own]
    return fields


def test_times_of_a_clock_that_runs_ahead_are_the_same_on_every_node(three: list[Node]) -> None:
    first, second, fast = three
    id_ = fast.create("written in an hour")
    fast.app.notes.reader.get(CALLER, id_)
    settle(*three)
    assert shown(first, id_) == shown(second, id_) == shown(fast, id_)
    assert fast.note(id_).updated_at <= utc_now().isoformat()


def test_a_restored_note_gets_its_greatest_importance_on_every_node(three: list[Node]) -> None:
    first, second, _ = three
    id_ = first.create("old", importance=0.5)
    settle(*three)
    first.archive(id_)
    first.update(id_, importance=0.75)
    settle(*three)
    assert [node.note(id_).importance for node in three] == [0.0, 0.0, 0.0]
    second.update(id_, remove_tags=("archived",))
    settle(*three)
    assert [node.note(id_).importance for node in three] == [0.75, 0.75, 0.75]


def test_a_link_to_a_note_that_moved_away_dangles_in_any_order(three: list[Node]) -> None:
    first, second, third = three
    target = first.create("the plan", title="Plan")
    settle(*three)
    source = second.create("see [[Plan]]")
    third.update(target, namespace="work")
    settle(*three)
    assert [node.targets(source) for node in three] == [[], [], []]
    first.update(target, title="Other", namespace="default")
    settle(*three)
    assert [node.targets(source) for node in three] == [[target], [target], [target]]


def test_nodes_that_resolve_a_link_differently_agree(three: list[Node]) -> None:
    first, second, third = three
    source = first.create("see [[Plan]]")
    one, other = second.create("one", title="Plan"), third.create("other", title="Plan")
    settle(*three)
    assert first.targets(source) in ([one], [other])
    assert first.targets(source) == second.targets(source) == third.targets(source)


def test_a_link_waits_for_its_note_despite_another_of_that_title(three: list[Node]) -> None:
    first, second, third = three
    target = first.create("meant", title="Plan")
    source = first.create("see [[Plan]]")
    settle(first, second)
    first.update(target, title="Plan B")
    second.update(source, folder="later")  # from now on the hub has it before the other
    third.create("not meant", title="Plan")
    settle(*three)
    assert [node.targets(source) for node in three] == [[target], [target], [target]]


def test_of_two_superseding_notes_the_newest_wins_everywhere(three: list[Node]) -> None:
    first, second, third = three
    old = first.create("old")
    settle(*three)
    first.create("newer", supersedes=(old,))
    newest = second.create("newest", supersedes=(old,))
    third.sync()
    settle(*three)
    assert {node.note(old).superseded_by for node in three} == {newest}


def test_a_server_retries_soon_when_another_one_syncs(three: list[Node], caplog: pytest.LogCaptureFixture) -> None:
    node = three[0]
    worker = SyncWorker(node.app.sync, lambda: [LOCAL_USER], every=10)
    node.create("to be sent")
    with node.app.sync._lock(LOCAL_USER, 0):
        worker._exchange(LOCAL_USER)
        with pytest.raises(nodes.SyncBusy):
            node.app.sync.run(LOCAL_USER, wait=0)
    assert worker._pause() <= workers.BUSY_DELAY_S
    assert not [record for record in caplog.records if record.name == workers.__name__]
