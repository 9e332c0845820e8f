"""Clients of one server hear of what another one, on the same data directory, has changed."""

from pathlib import Path
from urllib.parse import quote

from tests.wire import Stdio

CHANGED = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}


def test_a_client_of_another_process_is_notified(tmp_path: Path) -> None:
    reader, writer = Stdio.start(tmp_path), Stdio.start(tmp_path)
    reader.ask("resources/subscribe", {"uri": "memory://vault/k"})
    writer.call("commit_memory", scope="vault", key="k", content="c")

    heard = [reader.receive(), reader.receive()]
    assert CHANGED in heard
    assert {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "memory://vault/k"},
    } in heard
    reader.close()
    writer.close()
    assert list((tmp_path / "servers").iterdir()) == []


def test_it_works_in_a_folder_with_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    reader, writer = Stdio.start(folder), Stdio.start(folder)
    writer.call("commit_memory", scope="vault", key="k", content="c")

    assert reader.receive() == CHANGED
    reader.close()
    writer.close()


def test_a_server_that_died_is_forgotten(tmp_path: Path) -> None:
    killed, writer = Stdio.start(tmp_path), Stdio.start(tmp_path)
    killed.kill()
    assert len(list((tmp_path / "servers").glob("*.sock"))) == 2
    writer.call("commit_memory", scope="vault", key="k", content="c")
    writer.receive()  # when its own client is notified, the peers have been
    assert len(list((tmp_path / "servers").glob("*.sock"))) == 1
    writer.close()


def test_long_addresses_and_many_of_them_arrive(tmp_path: Path) -> None:
    reader, writer = Stdio.start(tmp_path), Stdio.start(tmp_path)
    keys = [f"{'长' * 400}{number}" for number in range(60)]
    for key in keys:
        writer.call("commit_memory", scope="vault", key=key, content="c", tags=["t"])
    watched = [f"memory://vault/{quote(key, safe='')}" for key in keys]
    for uri in watched:
        reader.ask("resources/subscribe", {"uri": uri})
    writer.call("prune_memory", scope="vault", tags=["t"])

    heard: set[str] = set()
    while heard != set(watched):
        heard.add(reader.receive().get("params", {}).get("uri", watched[0]))
    reader.close()
    writer.close()


def test_notifications_spell_an_address_as_the_client_does(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    spellings = ["memory://vault/a%2fé b", "memory://vault/a/%c3%a9%20b", "memory://vault?limit=10"]
    for uri in spellings:
        assert "result" in server.ask("resources/subscribe", {"uri": uri})
    server.call("commit_memory", scope="vault", key="a/é b", content="c")

    heard: set[str] = set()
    while heard != set(spellings):
        heard |= {message["params"]["uri"] for message in [server.receive()] if "params" in message}
    server.close()
