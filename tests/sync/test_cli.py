"""memory-mcp sync, as a person says it: real processes, a real hub."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote
from tests.sync.processes import Hub, Node, command, running_hub


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


def write(data_dir: Path, *texts: str, user: str = LOCAL_USER) -> None:
    with open_app(_settings(data_dir), serving=False) as app:
        who = Caller(app.access.users.get(user).id, ALL_SCOPES, frozenset({"notes"}))
        app.notes.writer.create_all(who, Author(), [NewNote(text) for text in texts])


def texts(data_dir: Path, user: str = LOCAL_USER) -> set[str]:
    with open_app(_settings(data_dir), serving=False) as app:
        who = Caller(app.access.users.get(user).id, ALL_SCOPES, frozenset({"notes"}))
        return {note.content for note, _, _ in app.notes.transfer.everything(who)}


def _settings(data_dir: Path) -> settings.Settings:
    return settings.load({"data_dir": data_dir, "embedder": "none"}, environ={}).settings


def test_five_lines_are_enough(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    write(node.data_dir, "one", "two")
    assert "enable" in node.say("link", hub.url, "--key", key).stdout
    node.say("enable", "default")
    assert "2 sent" in node.say("now").stdout
    other = Node(tmp_path / "other").join(hub, key, "default")
    assert "2 received" in other.say("now").stdout
    assert texts(other.data_dir) == {"one", "two"}
    status = other.told("status")
    assert (status["linked"], status["outbox"], status["error"]) == (True, 0, None)
    assert [(one["namespace"], one["enabled"], one["notes"]) for one in status["namespaces"]] == [("default", True, 2)]
    shown = other.say("status").stdout
    assert hub.url in shown
    assert "default" in shown


def test_the_link_is_readable_by_its_owner_only(hub: Hub, key: str, node: Node) -> None:
    node.say("link", hub.url, "--key", key)
    assert stat.S_IMODE((node.data_dir / "sync.json").stat().st_mode) == 0o600


def test_the_key_may_come_from_the_environment(hub: Hub, key: str, node: Node) -> None:
    node.say("link", hub.url, MEMORY_MCP_HUB_KEY=key)
    assert node.told("status")["url"] == hub.url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("hub.example.com", "https://hub.example.com"),
        ("ftp://hub.example.com", "https://hub.example.com"),
        ("http://127.0.0.1:9", "does not answer"),
        ("http://no-such-host.invalid", "does not answer"),
    ],
)
def test_a_wrong_address_is_noticed_and_nothing_is_linked(node: Node, url: str, says: str) -> None:
    refused = node.say("link", url, "--key", "mmcp_x", check=False)
    assert refused.returncode == 1
    assert says in _flat(refused.stderr)
    assert not (node.data_dir / "sync.json").exists()


def test_a_wrong_key_is_noticed_and_the_former_link_stays(hub: Hub, key: str, node: Node) -> None:
    node.say("link", hub.url, "--key", key)
    refused = node.say("link", hub.url, "--key", "mmcp_nobody_knows", check=False)
    assert refused.returncode == 1
    assert "does not take the key" in _flat(refused.stderr)
    assert json.loads((node.data_dir / "sync.json").read_text())["key"] == key


def test_what_is_no_hub_is_noticed(node: Node, tmp_path: Path) -> None:
    from tests.wire import http_server

    with http_server(tmp_path / "server") as server:
        refused = node.say("link", server.url, "--key", str(server.key), check=False)
    assert refused.returncode == 1
    assert "hub" in _flat(refused.stderr)


def _flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("verb", ["enable", "now", "unlink"])
def test_without_a_hub_it_says_how_to_get_one(node: Node, verb: str) -> None:
    words = [verb, "default"] if verb == "enable" else [verb]
    refused = node.say(*words, check=False)
    assert refused.returncode == 1
    assert "sync link" in _flat(refused.stderr)


@pytest.mark.parametrize("verb", ["disable", "resync", "clear-state"])
def test_a_namespace_that_is_not_synced_is_named(hub: Hub, key: str, node: Node, verb: str) -> None:
    node.say("link", hub.url, "--key", key)
    refused = node.say(verb, "nowhere", check=False)
    assert refused.returncode == 1
    assert "sync enable nowhere" in _flat(refused.stderr)


def test_what_is_disabled_waits(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    node.join(hub, key, "default").say("now")
    node.say("disable", "default")
    write(node.data_dir, "meanwhile")
    assert "0 sent" in node.say("now").stdout  # and nothing is left that could go
    other = Node(tmp_path / "other").join(hub, key, "default")
    other.say("now")
    assert texts(other.data_dir) == set()
    [one] = node.told("status")["namespaces"]
    assert (one["enabled"], one["outbox"]) == (False, 1)
    node.say("enable", "default")
    assert "1 sent" in node.say("now").stdout
    other.say("now")
    assert texts(other.data_dir) == {"meanwhile"}


def test_resync_and_clear_state_lose_nothing(hub: Hub, key: str, node: Node) -> None:
    write(node.data_dir, "one")
    node.join(hub, key, "default").say("now")
    node.say("resync", "default")
    assert "1 sent, 1 received" in node.say("now").stdout
    node.say("clear-state", "default")
    assert node.told("status")["namespaces"] == []
    write(node.data_dir, "two")
    assert "0 sent" in node.say("now").stdout
    node.say("enable", "default")
    assert "2 sent" in node.say("now").stdout
    assert texts(node.data_dir) == {"one", "two"}


def test_unlinked_it_syncs_with_no_hub_and_what_waited_goes_to_the_next_hub(
    hub: Hub, key: str, node: Node, tmp_path: Path
) -> None:
    write(node.data_dir, "one")
    node.join(hub, key, "default").say("now")
    node.say("unlink")
    assert not (node.data_dir / "sync.json").exists()
    write(node.data_dir, "two")
    assert node.say("now", check=False).returncode == 1
    with running_hub(tmp_path / "next") as following:
        node.say("link", following.url, "--key", following.key())
        assert "2 sent" in node.say("now").stdout


def test_while_the_hub_is_down_nothing_is_lost(tmp_path: Path, node: Node) -> None:
    with running_hub(tmp_path / "hub") as hub:
        node.join(hub, hub.key(), "default")
        port = int(hub.url.rpartition(":")[2])
    write(node.data_dir, "meanwhile")
    failed = node.say("now", check=False)
    assert failed.returncode == 1
    assert "does not answer" in _flat(failed.stderr)
    status = node.told("status")
    assert status["outbox"] == 1
    assert "does not answer" in status["error"]
    with running_hub(tmp_path / "hub", port):
        assert "1 sent" in node.say("now").stdout
    assert node.told("status")["error"] is None


def test_what_is_refused_is_left_and_says_why(hub: Hub, key: str, node: Node) -> None:
    node.join(hub, key, "default").say("now")
    with open_app(_settings(node.data_dir), serving=False) as app:
        who = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
        app.notes.writer.create_all(who, Author(), [NewNote("fine"), NewNote("odd", metadata={"k" * 5000: 1})])
    left: Any = node.say("now", check=False)
    assert left.returncode == 1
    assert "1 sent, 0 received, 1 refused, 1 left" in left.stdout
    assert "registers" in left.stderr
    assert node.told("now", check=False)["left"] == 1


def test_each_user_of_a_server_has_a_hub_of_their_own(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    command("users", "add", "anna", "--data-dir", str(node.data_dir))
    write(node.data_dir, "of anna", user="anna")
    write(node.data_dir, "of local")
    node.say("link", hub.url, "--key", key, "--user", "anna")
    node.say("enable", "default", "--user", "anna")
    assert "1 sent" in node.say("now", "--user", "anna").stdout
    assert node.told("status")["linked"] is False
    other = Node(tmp_path / "other").join(hub, key, "default")
    other.say("now")
    assert texts(other.data_dir) == {"of anna"}
    unknown = node.say("status", "--user", "nobody", check=False)
    assert unknown.returncode == 1
    assert "nobody" in unknown.stderr


def test_sealed_notes_are_read_with_the_secret_only(tmp_path: Path, node: Node) -> None:
    with running_hub(tmp_path / "hub") as hub:
        key = hub.key()
        write(node.data_dir, "# Wombat plans\n\n#wombattag [[Wombat Den]]")
        secret = node.told("link", hub.url, "--key", key, "--encrypt")["secret"]
        assert secret.startswith("mms_")
        node.say("enable", "default")
        node.say("now")
        other = Node(tmp_path / "other").join(hub, key, "default", link=("--secret", secret))
        other.say("now")
        assert texts(other.data_dir) == texts(node.data_dir)
        stranger = Node(tmp_path / "stranger").join(hub, key, "default")
        write(stranger.data_dir, "plain")
        refused = stranger.say("now", check=False)
        assert refused.returncode == 1
        assert "--secret" in _flat(refused.stderr)
        assert texts(stranger.data_dir) == {"plain"}
        bad = stranger.say("link", hub.url, "--key", key, "--secret", "guess", check=False)
        assert bad.returncode == 1
        assert "no secret" in _flat(bad.stderr)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "hub").rglob("*") if path.is_file())
    assert b"wombat" not in kept.lower()
    assert secret.encode() not in kept
