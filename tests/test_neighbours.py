"""Clients of one server hear of what another one, on the same data directory, has changed."""

from pathlib import Path

from tests.wire import Stdio

CHANGED = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}


def test_a_client_of_another_process_is_told(tmp_path: Path) -> None:
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
    dead, writer = Stdio.start(tmp_path), Stdio.start(tmp_path)
    dead.kill()
    assert len(list((tmp_path / "servers").glob("*.sock"))) == 2
    writer.call("commit_memory", scope="vault", key="k", content="c")
    writer.receive()  # when its own client is told, the neighbours have been
    assert len(list((tmp_path / "servers").glob("*.sock"))) == 1
    writer.close()
