"""What a hub that means harm, or anyone who has its key, can do to a node: real nodes, over real HTTP."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.notes.model import Author, NewNote, Note, Revision
from tests.sync.hostile import HostileHub, hostile_hub
from tests.sync.processes import Node

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}), namespace="shared")


@pytest.fixture(scope="module")
def serving() -> Iterator[HostileHub]:
    with hostile_hub() as hub:
        yield hub


@pytest.fixture
def hub(serving: HostileHub) -> HostileHub:
    """The server of all tests, with nothing in mind yet."""
    url = serving.url
    serving.__init__()  # type: ignore[misc]
    serving.url = url
    return serving


@pytest.fixture
def node(hub: HostileHub, tmp_path: Path) -> Node:
    """Syncs `shared`, and nothing else."""
    made = Node(tmp_path / "node")
    made.say("link", hub.url, "--key", "mmcp_key")
    made.say("enable", "shared")
    return made


@contextmanager
def opened(node: Node) -> Iterator[App]:
    chosen = settings.load({"data_dir": node.data_dir, "embedder": "none"}, environ={}).settings
    with open_app(chosen, serving=False) as app:
        yield app


def write(node: Node, content: str, namespace: str, **more: Any) -> str:
    with opened(node) as app:
        return app.notes.create(ME, Author(), NewNote(content, namespace=namespace, **more)).id


def read(node: Node, id_: str) -> Note:
    with opened(node) as app:
        return app.notes.read(ME, id_, include_links=True)


def everything(node: Node) -> dict[str, str]:
    """Namespace and text of every note, by id."""
    with opened(node) as app:
        return {note.id: f"{note.namespace}: {note.content}" for note, _, _ in app.notes.everything(ME)}


def stamp(ms: int = 0) -> str:
    return f"{int(time.time() * 1000) + ms:015d}:00000:evil"


def forged(id_: str, **registers: Any) -> dict[str, Any]:
    """Written by the hub, a moment after everything else."""
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
        {"id": id_, "dead": at},
        {"id": id_, "registers": {"namespace": [at, "shared"]}, "dead": at},
        {"id": id_, "registers": {"namespace": [at, "private"]}, "dead": at},
    ]


@pytest.mark.parametrize("where", ["never enabled", "disabled", "cleared"])
def test_a_note_outside_of_the_enabled_namespaces_is_neither_read_nor_changed(
    hub: HostileHub, node: Node, where: str
) -> None:
    id_ = write(node, SECRET, "private", title="Safe", tags=("mine",), metadata={"kept": 1}, expires_at="2040-01-01")
    if where != "never enabled":
        node.say("enable", "private")
        node.say("disable" if where == "disabled" else "clear-state", "private")
    before = read(node, id_)
    bait = write(node, "Bait", "shared")
    node.say("now")
    hub.records = [*attacks(id_), forged(bait, **{f"link__{id_}": id_, f"supersedes__{id_}": id_})]
    node.say("now")
    assert read(node, id_) == before
    node.say("resync", "shared")
    node.say("now")
    assert read(node, id_) == before
    assert "combination" not in hub.received
    assert id_ not in hub.pushed()


def test_a_new_note_comes_only_into_an_enabled_namespace(hub: HostileHub, node: Node) -> None:
    hub.records = [
        forged("new-1", content="Injected", namespace="private", folder=""),
        forged("new-2", content="Welcome", namespace="shared", folder=""),
        forged("new-3", content="Nowhere", folder=""),
    ]
    node.say("now")
    assert everything(node) == {"new-2": "shared: Welcome"}


def test_a_note_is_not_moved_out_of_the_enabled_namespaces(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Shared text", "shared")
    node.say("now")
    hub.records = [forged(id_, namespace="private"), forged(id_, content="Changed there", namespace="private")]
    node.say("now")
    assert everything(node) == {id_: "shared: Changed there"}  # its text is the hub's to change, not its place
    node.say("enable", "other")
    hub.records = [forged(id_, namespace="other")]
    node.say("now")
    assert everything(node)[id_].startswith("other:")


def test_a_note_that_its_owner_moves_away_is_the_nodes_alone_from_then_on(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Shared text", "shared")
    node.say("now")
    with opened(node) as app:
        app.notes.update(ME, Author(), id_, Revision(namespace="private", content=SECRET))
    hub.asked.clear()
    hub.records = [forged(id_, content="Overwritten", namespace="shared"), {"id": id_, "dead": stamp(1000)}]
    node.say("now")
    node.say("resync", "shared")
    node.say("now")
    assert everything(node) == {id_: f"private: {SECRET}"}
    with opened(node) as app:
        app.notes.delete(ME, id_, soft=False)
    node.say("now")
    assert id_ not in hub.received
    assert "private" not in hub.received
    assert "combination" not in hub.received


def test_a_note_comes_back_to_sync_when_its_owner_moves_it_back(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "Private at first", "private")
    node.say("now")
    assert "Private at first" not in hub.received
    with opened(node) as app:
        app.notes.update(ME, Author(), id_, Revision(namespace="shared"))
    node.say("now")
    assert hub.pushed()[id_]["registers"]["content"][1] == "Private at first"


def test_what_came_while_a_namespace_was_disabled_comes_when_it_is_enabled_again(hub: HostileHub, node: Node) -> None:
    id_ = write(node, "First", "shared")
    node.say("now")
    node.say("disable", "shared")
    node.say("enable", "other")
    hub.records = [forged(id_, content="Second", namespace="shared")]
    node.say("now")
    assert everything(node) == {id_: "shared: First"}
    node.say("enable", "shared")
    node.say("now")
    assert hub.asked[-2][1]["after"] == 0  # from the beginning
    assert id_ in hub.pushed()  # so that the hub says what it knows beyond that
