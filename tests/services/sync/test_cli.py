"""memory-mcp sync on the command line: real processes, a real hub."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote
from tests.services.sync.processes import Hub, Node, command, running_hub


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
        return {one.note.content for one in app.notes.transfer.everything(who)}


def _settings(data_dir: Path) -> settings.Settings:
    return settings.load({"data_dir": data_dir, "embedder": "none"}, environ={}).settings


def test_five_commands_set_up_sync(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    write(node.data_dir, "one", "two")
    assert "enable" in node.run("link", hub.url, "--key", key).stdout
    node.run("enable", "default")
    assert "2 sent" in node.run("now").stdout
    other = Node(tmp_path / "other").join(hub, key, "default")
    assert "2 received" in other.run("now").stdout
    assert texts(other.data_dir) == {"one", "two"}
    status = other.run_json("status")
    assert (status["linked"], status["outbox"], status["error"]) == (True, 0, None)
    assert [(one["namespace"], one["enabled"], one["notes"]) for one in status["namespaces"]] == [("default", True, 2)]
    shown = other.run("status").stdout
    assert hub.url in shown
    assert "default" in shown


def test_the_link_is_readable_by_its_owner_only(hub: Hub, key: str, node: Node) -> None:
    node.run("link", hub.url, "--key", key)
    assert stat.S_IMODE((node.data_dir / "sync.json").stat().st_mode) == 0o600


def test_the_key_may_come_from_the_environment(hub: Hub, key: str, node: Node) -> None:
    node.run("link", hub.url, MEMORY_MCP_HUB_KEY=key)
    assert node.run_json("status")["url"] == hub.url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("hub.example.com", "https://hub.example.com"),
        ("ftp://hub.example.com", "https://hub.example.com"),
        ("http://127.0.0.1:9", "does not answer"),
        ("http://no-such-host.invalid", "does not answer"),
    ],
)
def test_a_wrong_address_links_nothing(node: Node, url: str, says: str) -> None:
    refused = node.run("link", url, "--key", "mmcp_x", check=False)
    assert refused.returncode == 1
    assert says in _flat(refused.stderr)
    assert not (node.data_dir / "sync.json").exists()


def test_with_a_wrong_key_the_former_link_stays(hub: Hub, key: str, node: Node) -> None:
    node.run("link", hub.url, "--key", key)
    refused = node.run("link", hub.url, "--key", "mmcp_nobody_knows", check=False)
    assert refused.returncode == 1
    assert "does not accept the key" in _flat(refused.stderr)
    assert json.loads((node.data_dir / "sync.json").read_text())["key"] == key


def test_link_refuses_a_server_that_is_not_a_hub(node: Node, tmp_path: Path) -> None:
    from tests.wire import http_server

    with http_server(tmp_path / "server") as server:
        refused = node.run("link", server.url, "--key", str(server.key), check=False)
    assert refused.returncode == 1
    assert "hub" in _flat(refused.stderr)


def _flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("verb", ["enable", "now", "unlink"])
def test_without_a_hub_errors_say_how_to_link_one(node: Node, verb: str) -> None:
    words = [verb, "default"] if verb == "enable" else [verb]
    node.data_dir.mkdir()
    refused = node.run(*words, check=False)
    assert refused.returncode == 1
    assert "sync link" in _flat(refused.stderr)


@pytest.mark.parametrize("verb", ["disable", "resync", "clear-state"])
def test_errors_name_a_namespace_that_is_not_synced(hub: Hub, key: str, node: Node, verb: str) -> None:
    node.run("link", hub.url, "--key", key)
    refused = node.run(verb, "nowhere", check=False)
    assert refused.returncode == 1
    assert "sync enable nowhere" in _flat(refused.stderr)


def test_changes_in_a_disabled_namespace_wait(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    node.join(hub, key, "default").run("now")
    node.run("disable", "default")
    write(node.data_dir, "meanwhile")
    assert "0 sent" in node.run("now").stdout  # and nothing is left that could go
    other = Node(tmp_path / "other").join(hub, key, "default")
    other.run("now")
    assert texts(other.data_dir) == set()
    [one] = node.run_json("status")["namespaces"]
    assert (one["enabled"], one["outbox"]) == (False, 1)
    node.run("enable", "default")
    assert "1 sent" in node.run("now").stdout
    other.run("now")
    assert texts(other.data_dir) == {"meanwhile"}


def test_resync_and_clear_state_lose_nothing(hub: Hub, key: str, node: Node) -> None:
    write(node.data_dir, "one")
    node.join(hub, key, "default").run("now")
    node.run("resync", "default")
    assert "1 sent, 1 received" in node.run("now").stdout
    node.run("clear-state", "default")
    assert node.run_json("status")["namespaces"] == []
    write(node.data_dir, "two")
    assert "0 sent" in node.run("now").stdout
    node.run("enable", "default")
    assert "2 sent" in node.run("now").stdout
    assert texts(node.data_dir) == {"one", "two"}


def test_after_unlink_waiting_changes_go_to_the_next_hub(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    write(node.data_dir, "one")
    node.join(hub, key, "default").run("now")
    node.run("unlink")
    assert not (node.data_dir / "sync.json").exists()
    write(node.data_dir, "two")
    assert node.run("now", check=False).returncode == 1
    with running_hub(tmp_path / "next") as following:
        node.run("link", following.url, "--key", following.key())
        assert "2 sent" in node.run("now").stdout


def test_while_the_hub_is_down_nothing_is_lost(tmp_path: Path, node: Node) -> None:
    with running_hub(tmp_path / "hub") as hub:
        node.join(hub, hub.key(), "default")
        port = int(hub.url.rpartition(":")[2])
    write(node.data_dir, "meanwhile")
    failed = node.run("now", check=False)
    assert failed.returncode == 1
    assert "does not answer" in _flat(failed.stderr)
    status = node.run_json("status")
    assert status["outbox"] == 1
    assert "does not answer" in status["error"]
    with running_hub(tmp_path / "hub", port):
        assert "1 sent" in node.run("now").stdout
    assert node.run_json("status")["error"] is None


def test_refused_changes_stay_in_the_outbox_with_a_reason(hub: Hub, key: str, node: Node) -> None:
    node.join(hub, key, "default").run("now")
    with open_app(_settings(node.data_dir), serving=False) as app:
        who = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
        app.notes.writer.create_all(who, Author(), [NewNote("fine"), NewNote("odd", metadata={"k" * 5000: 1})])
    left: Any = node.run("now", check=False)
    assert left.returncode == 1
    assert "1 sent, 0 received, 1 refused, 1 left" in left.stdout
    assert "registers" in left.stderr
    assert node.run_json("now", check=False)["left"] == 1


def test_each_user_links_their_own_hub(hub: Hub, key: str, node: Node, tmp_path: Path) -> None:
    command("users", "add", "anna", "--data-dir", str(node.data_dir))
    write(node.data_dir, "of anna", user="anna")
    write(node.data_dir, "of local")
    node.run("link", hub.url, "--key", key, "--user", "anna")
    node.run("enable", "default", "--user", "anna")
    assert "1 sent" in node.run("now", "--user", "anna").stdout
    assert node.run_json("status")["linked"] is False
    other = Node(tmp_path / "other").join(hub, key, "default")
    other.run("now")
    assert texts(other.data_dir) == {"of anna"}
    unknown = node.run("status", "--user", "unknown", check=False)
    assert unknown.returncode == 1
    assert "unknown" in unknown.stderr


def test_sealed_notes_need_the_secret(tmp_path: Path, node: Node) -> None:
    with running_hub(tmp_path / "hub") as hub:
        key = hub.key()
        write(node.data_dir, "# Wombat plans\n\n#wombattag [[Wombat Den]]")
        secret = node.run_json("link", hub.url, "--key", key, "--encrypt")["secret"]
        assert secret.startswith("mms_")
        node.run("enable", "default")
        node.run("now")
        other = Node(tmp_path / "other").join(hub, key, "default", link=("--secret", secret))
        other.run("now")
        assert texts(other.data_dir) == texts(node.data_dir)
        stranger = Node(tmp_path / "stranger").join(hub, key, "default")
        write(stranger.data_dir, "plain")
        refused = stranger.run("now", check=False)
        assert refused.returncode == 1
        assert "--secret" in _flat(refused.stderr)
        assert texts(stranger.data_dir) == {"plain"}
        bad = stranger.run("link", hub.url, "--key", key, "--secret", "guess", check=False)
        assert bad.returncode == 1
        assert "not a sync secret" in _flat(bad.stderr)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "hub").rglob("*") if path.is_file())
    assert b"wombat" not in kept.lower()
    assert secret.encode() not in kept
