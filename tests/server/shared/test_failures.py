"""Relays and shared servers when something around them fails, or a person ends it."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import LOCAL_USER
from tests.events import TIMEOUT_S, eventually
from tests.processes import COMMAND, environment
from tests.server.shared.clients import SHARED, Connect, server_pid
from tests.wire import HELLO


def test_a_client_goes_on_after_its_data_directory_was_deleted(tmp_path: Path, connect: Connect) -> None:
    data_dir = tmp_path / "data"
    client = connect(data_dir=data_dir)
    first = server_pid(data_dir)
    shutil.rmtree(data_dir)
    os.kill(first, signal.SIGKILL)

    client.call("commit_memory", scope="session", key="s", content="scratch")
    assert server_pid(data_dir) != first
    assert len(list((data_dir / "servers").glob("*.lock"))) == 2  # the relay's too: its session is in use
    assert client.close() == 0


def test_a_client_that_leaves_without_reading_ends_its_relay(tmp_path: Path, connect: Connect) -> None:
    other = connect()
    ours, theirs = socket.socketpair()
    with theirs:
        relay = subprocess.Popen(
            [*COMMAND, "--data-dir", str(tmp_path)],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            env=environment(**SHARED),
            encoding="utf-8",
        )
    ours.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode() + b"\n")
    assert ours.recv(1, socket.MSG_PEEK)
    ours.close()  # a reset for the relay, because of the unread answer

    _, complaints = relay.communicate(timeout=TIMEOUT_S)
    assert (relay.returncode, complaints) == (0, "")
    assert other.ask("ping")["result"] == {}


def test_a_client_that_a_person_disconnects_ends_with_its_relay(tmp_path: Path, connect: Connect) -> None:
    client, other = connect(hello=False), connect()
    client.ask("initialize", HELLO | {"clientInfo": {"name": "unwanted", "version": "1"}})
    with open_app(settings.load({"data_dir": tmp_path, "embedder": "none"}).settings, serving=False) as app:
        listed = eventually(lambda: [one for one in app.clients.of(LOCAL_USER) if one.name == "unwanted"])
        app.clients.disconnect(LOCAL_USER, listed[0].id)

    assert client.process.wait(timeout=TIMEOUT_S) == 0
    assert other.ask("ping")["result"] == {}


def test_a_server_without_free_descriptors_accepts_clients_later(tmp_path: Path, connect: Connect) -> None:
    first = connect()
    pid = server_pid(tmp_path)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    second = connect(hello=False)
    second.post("initialize", HELLO)
    eventually(lambda: "could not be accepted" in (tmp_path / "server.log").read_text())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    assert second.receive()["result"]["serverInfo"]["name"] == "memory-mcp"
    assert first.ask("ping")["result"] == {}
    assert server_pid(tmp_path) == pid
