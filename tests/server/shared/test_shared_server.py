"""Clients over stdio through relays, as processes."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import __version__
from memory_mcp.hooks import records
from memory_mcp.relay import link
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.services.sessions import Servers
from tests.events import eventually
from tests.processes import COMMAND, environment, run
from tests.server.shared.clients import SHARED, Connect, server_pid, servers
from tests.wire import HELLO, Stdio, http_server, modern_meta


def listed(data_dir: Path) -> list[dict[str, Any]]:
    return list(json.loads(run("ps", "--json", "--data-dir", data_dir, check=True).stdout)["servers"])


def has_passed_on(client: Stdio) -> bool:
    """Whether the relay has read all that its client sent, and waits for more."""
    assert client.process.stdin is not None
    unread = fcntl.ioctl(client.process.stdin, termios.FIONREAD, b"\0" * 4)
    state = Path(f"/proc/{client.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return unread == b"\0" * 4 and state == "S"


def test_clients_share_one_server_and_see_each_others_changes(tmp_path: Path, connect: Connect) -> None:
    writer, reader = connect(), connect("--scopes", "read-only", "--families", "vault")
    writer.call("commit_memory", scope="vault", key="k", content="before")
    reader.ask("resources/subscribe", {"uri": "memory://vault/k"})
    writer.call("commit_memory", scope="vault", key="k", content="after")

    while {"uri": "memory://vault/k"} not in [one.get("params") for one in reader.notifications]:
        reader.notifications.append(reader.receive())
    assert reader.call("search_memories", query="after")["results"][0]["key"] == "k"
    tools = {tool["name"] for tool in reader.ask("tools/list")["result"]["tools"]}
    assert "search_memories" in tools
    assert not {"commit_memory", "memory_search"} & tools
    assert len(writer.ask("tools/list")["result"]["tools"]) > len(tools)
    eventually(lambda: [len(one["clients"]) for one in listed(tmp_path)] == [2])
    assert listed(tmp_path)[0]["memory_bytes"] > 1_000_000
    assert listed(tmp_path)[0]["version"] == __version__


def test_many_clients_at_the_same_moment_start_one_server(tmp_path: Path, connect: Connect) -> None:
    clients = [connect(hello=False) for _ in range(5)]
    for client in clients:
        client.post("initialize", HELLO)
    for client in clients:
        assert client.receive()["result"]["serverInfo"]["name"] == "memory-mcp"
    assert server_pid(tmp_path)
    assert [client.close() for client in clients] == [0] * 5


def test_when_the_server_is_killed_the_conversation_goes_on(tmp_path: Path, connect: Connect) -> None:
    client, other = connect(), connect()
    client.call("set_session_id", session_id="mine")
    client.call("create_project", name="work")
    client.call("commit_memory", scope="session", key="s", content="scratch")
    other.call("commit_memory", scope="session", key="o", content="unnamed")
    client.call("commit_memory", scope="vault", key="k", content="kept")
    client.ask("resources/subscribe", {"uri": "memory://vault/k"})
    first = server_pid(tmp_path)
    os.kill(first, signal.SIGSTOP)
    reading = client.post("tools/call", {"name": "search_memories", "arguments": {"query": "kept"}})
    note = {"content": "may be written", "title": "T"}
    writing = client.post("tools/call", {"name": "memory_create", "arguments": note})
    idempotent = {"entities": [{"name": "Ada", "entity_type": "person"}]}
    repeated = client.post("tools/call", {"name": "create_entities", "arguments": idempotent})
    eventually(lambda: has_passed_on(client))
    os.kill(first, signal.SIGKILL)

    answers = {message.get("id"): message for message in (client.receive() for _ in range(3))}
    assert answers[reading]["result"]["structuredContent"]["results"][0]["content"] == "kept"
    lost = answers[writing]["result"]
    assert lost["isError"]
    assert lost["structuredContent"]["error"] == "unavailable"
    assert lost["structuredContent"]["data"]["may_have_happened"] is True
    assert "Look at what is stored" in lost["structuredContent"]["message"]
    assert not answers[repeated]["result"].get("isError")
    assert server_pid(tmp_path) != first

    assert client.call("search_memories", query="scratch", scope="session")["total_searched"] == 1
    assert client.call("get_current_project")["project"]["name"] == "work"
    assert other.call("search_memories", query="unnamed", scope="session")["total_searched"] == 1
    other.call("commit_memory", scope="vault", key="k", content="changed")
    while {"uri": "memory://vault/k"} not in [one.get("params") for one in client.notifications]:
        client.notifications.append(client.receive())
    assert client.close() == 0
    assert other.close() == 0


def test_a_stream_of_the_later_protocol_goes_on_at_the_next_server(tmp_path: Path, connect: Connect) -> None:
    client = connect(hello=False)
    wanted = {"notifications": {"resourcesListChanged": True}, "_meta": modern_meta()}
    stream = client.post("subscriptions/listen", wanted)
    assert client.receive()["method"] == "notifications/subscriptions/acknowledged"
    os.kill(server_pid(tmp_path), signal.SIGTERM)
    assert client.receive()["method"] == "notifications/subscriptions/acknowledged"  # by the next server
    arguments = {"scope": "vault", "key": "k", "content": "c"}
    writing = client.post("tools/call", {"name": "commit_memory", "arguments": arguments, "_meta": modern_meta()})

    received = [client.receive()]
    while not {"notifications/resources/list_changed"} <= {one.get("method") for one in received}:
        received.append(client.receive())
    answers = {one["id"]: one for one in received if "id" in one}
    assert stream not in answers
    assert writing not in answers or "result" in answers[writing]


def test_sigterm_and_stop_hand_over_without_an_error(tmp_path: Path, connect: Connect) -> None:
    client = connect()
    first = server_pid(tmp_path)
    os.kill(first, signal.SIGTERM)
    client.call("commit_memory", scope="vault", key="a", content="after the signal")
    eventually(lambda: first not in {server.pid for server in servers(tmp_path)})
    assert client.ask("ping")["result"] == {}
    second = server_pid(tmp_path)

    stopped = run("stop", "--data-dir", tmp_path, "--json", check=True)
    assert json.loads(stopped.stdout) == {"stopped": [second]}
    assert servers(tmp_path) == []  # its client starts the next one when it needs it
    assert client.call("search_memories", query="signal")["results"][0]["key"] == "a"
    assert run("stop", "--data-dir", tmp_path, check=True).stdout.startswith("Stopped")
    assert run("stop", "--data-dir", tmp_path, check=True).stdout == "No server runs in the background.\n"


def test_the_server_ends_with_its_last_client_after_the_idle_time(tmp_path: Path, connect: Connect) -> None:
    idle = {"MEMORY_MCP_SHARED_IDLE": "0"}
    clients = [connect(env=idle), connect(env=idle)]
    clients[0].call("commit_memory", scope="session", key="s", content="scratch")
    assert clients[0].close() == 0
    clients[1].call("commit_memory", scope="vault", key="k", content="c")
    assert clients[1].close() == 0
    eventually(lambda: servers(tmp_path) == [])
    assert not (tmp_path / "shared" / "server.sock").exists()


def test_files_can_be_replaced_while_no_client_is_connected(tmp_path: Path, connect: Connect) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder, key in ((here, "before"), (elsewhere, "after")):
        client = connect(data_dir=folder)
        client.call("commit_memory", scope="vault", key=key, content="a fact")
        assert client.close() == 0
    shutil.copyfile(elsewhere / "memory.db", here / "memory.db")  # in place, as `cp` does

    client = connect(data_dir=here)
    client.call("commit_memory", scope="vault", key="new", content="a fact")
    found = client.call("search_memories", query="fact")["results"]
    assert {one["key"] for one in found} == {"after", "new"}
    for folder in (here, elsewhere):
        run("stop", "--data-dir", folder, check=True)


def test_the_servers_death_does_not_follow_from_that_of_the_clients_process_group(
    tmp_path: Path, connect: Connect
) -> None:
    command = [*COMMAND, "--data-dir", str(tmp_path)]
    client = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(**SHARED),
        encoding="utf-8",
        start_new_session=True,
    )
    server = Stdio(client)
    server.ask("initialize", HELLO)
    pid = server_pid(tmp_path)
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    for stream in (client.stdin, client.stdout):
        assert stream is not None
        stream.close()

    assert connect().call("search_memories", query="x")["results"] == []
    assert server_pid(tmp_path) == pid


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--durability", "normal"], "these settings differ from the shared server's: durability"),
        (["--shared", "off"], "the setting shared is off"),
    ],
)
def test_a_client_with_other_settings_has_a_server_of_its_own(
    tmp_path: Path, connect: Connect, flags: list[str], reason: str
) -> None:
    connect().call("commit_memory", scope="vault", key="k", content="shared")
    with (tmp_path / "stderr").open("w") as stderr:
        alone = connect(*flags, stderr=stderr)
        assert alone.call("search_memories", query="shared")["results"][0]["key"] == "k"
        assert not _catches(alone.process.pid, signal.SIGCHLD)  # as a relay does: it would hide how workers end
        assert alone.close() == 0
    (line,) = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines() if "of its own" in line]
    assert line["message"] == f"This client has a server of its own: {reason}."


def _catches(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
    return bool(caught >> (number - 1) & 1)


def test_without_the_means_the_client_has_a_server_of_its_own(tmp_path: Path, connect: Connect) -> None:
    (tmp_path / "shared").write_text("a file where the folder should be")
    client = connect()
    assert client.call("search_memories", query="x")["results"] == []
    eventually(lambda: [server.kind for server in servers(tmp_path)] == ["stdio"])


def test_wrong_settings_are_reported_as_ever(tmp_path: Path) -> None:
    done = run("--data-dir", tmp_path, "--scopes", "everything", env=environment(**SHARED))
    assert done.returncode == 2
    assert "'everything' is not a scope" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_http_server_serves_relays_too(tmp_path: Path, connect: Connect) -> None:
    of_http = ["--user-handshakes", "7", "--drain-seconds", "1"]  # settings that relays need not share
    with http_server(tmp_path, "--shared", "auto", "--embedder", "none", *of_http) as http:
        client = connect()
        client.call("commit_memory", scope="vault", key="k", content="over stdio")
        assert http.modern_call("search_memories", query="stdio")["results"][0]["key"] == "k"
        assert [one["kind"] for one in listed(tmp_path)] == ["http"]
        assert http.stop() == 0
    assert client.call("search_memories", query="stdio")["results"][0]["key"] == "k"
    assert server_pid(tmp_path)


def test_a_newer_client_gets_a_new_server_and_the_old_one_ends_with_its_clients(
    tmp_path: Path, connect: Connect
) -> None:
    client = connect()
    pid = server_pid(tmp_path)
    own = ServerSocket(str(tmp_path))
    wire = own.connect()
    assert wire is not None
    with wire:
        answer, _ = link.exchange(wire, {**link.greeting(), "version": "99.0"}, 20.0)
    assert answer == {"memory-mcp": "leaving"}
    assert own.connect() is None  # the newer client starts a server

    newer = connect()
    assert {server.pid for server in servers(tmp_path)} > {pid}
    client.call("commit_memory", scope="vault", key="k", content="at the old one")
    assert newer.call("search_memories", query="old")["results"][0]["key"] == "k"
    assert client.close() == 0
    eventually(lambda: pid not in {server.pid for server in servers(tmp_path)})
    assert newer.close() == 0


def test_while_no_server_can_start_requests_are_answered_with_that(tmp_path: Path, connect: Connect) -> None:
    client = connect()
    (tmp_path / "config.toml").write_text("x = = 1")
    os.kill(server_pid(tmp_path), signal.SIGKILL)
    failed = client.ask("tools/call", {"name": "search_memories", "arguments": {"query": "x"}})["error"]
    assert failed["data"]["error"] == "unavailable"
    assert "no other can be reached" in failed["message"]

    (tmp_path / "config.toml").unlink()
    assert client.call("search_memories", query="x")["results"] == []
    eventually(lambda: [len(one["clients"]) for one in listed(tmp_path)] == [1])


@pytest.mark.parametrize("answer", [b"\xff\xfe\n", b"5\n", b"x" * 2_000_000])
def test_a_socket_that_is_not_of_our_server_is_not_used(tmp_path: Path, connect: Connect, answer: bytes) -> None:
    with fake_server(tmp_path, answer):
        assert connect().call("search_memories", query="x")["results"] == []


def test_servers_that_end_after_their_welcome_are_given_up(tmp_path: Path, connect: Connect) -> None:
    with fake_server(tmp_path, b'{"memory-mcp":"welcome"}\n') as accepted:
        failed = connect(hello=False).ask("initialize", HELLO)["error"]
        assert failed["data"] == {"error": "unavailable", "may_have_happened": True}
        assert len(accepted) <= 4


@contextmanager
def fake_server(data_dir: Path, answer: bytes) -> Iterator[list[int]]:
    """Answers each hello with these bytes, reads once more and closes. Yields the connections that it accepted."""
    own = ServerSocket(str(data_dir))
    own.prepare()
    accepted: list[int] = []
    with own.listen() as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    wire, _ = listening.accept()
                    accepted.append(wire.fileno())
                    with wire, suppress(OSError):
                        wire.recv(65_536)
                        wire.sendall(answer)
                        wire.settimeout(0.5)
                        wire.recv(65_536)

        threading.Thread(target=serve, daemon=True).start()
        yield accepted
        listening.shutdown(socket.SHUT_RDWR)


def test_a_data_directory_that_was_deleted_gets_a_new_server(tmp_path: Path, connect: Connect) -> None:
    data_dir = tmp_path / "data"
    client = connect(data_dir=data_dir)
    client.call("commit_memory", scope="vault", key="k", content="c")
    pid = server_pid(data_dir)
    assert client.close() == 0
    shutil.rmtree(data_dir)

    again = connect(data_dir=data_dir)
    assert again.call("search_memories", query="c")["results"] == []
    assert server_pid(data_dir) != pid
    assert again.close() == 0
    with suppress(ProcessLookupError):  # it has found that its data directory was deleted
        os.kill(pid, signal.SIGTERM)


def test_a_restore_ends_an_idle_server_and_is_refused_while_clients_are_connected(
    tmp_path: Path, connect: Connect
) -> None:
    backup = tmp_path / "b.zip"
    data_dir = tmp_path / "data"
    client = connect(data_dir=data_dir)
    client.call("commit_memory", scope="vault", key="k", content="c")
    run("backup", backup, "--data-dir", data_dir, check=True)

    refused = run("restore", backup, "--data-dir", data_dir)
    assert refused.returncode == 1
    assert "`memory-mcp stop` stops those in the background" in refused.stderr
    assert client.close() == 0
    run("restore", backup, "--data-dir", data_dir, check=True)
    assert servers(data_dir) == []


def test_hostile_hellos_are_refused_and_harm_no_one(tmp_path: Path, connect: Connect) -> None:
    client = connect()
    own = ServerSocket(str(tmp_path))
    with ExitStack() as stack:
        for sent in (
            b"",
            b"x\n",
            b"{}\n",
            b'{"memory-mcp":"hello"}\n',
            b"[1]\n",
            b'{"memory-mcp":"hello","protocol":9}\n',
        ):
            wire = own.connect()
            assert wire is not None
            stack.enter_context(wire)
            wire.sendall(sent)
            wire.shutdown(socket.SHUT_WR)
            assert b"welcome" not in wire.recv(65_536)
    assert link.request_running(own, "no such verb") == {
        "memory-mcp": "refused",
        "reason": "the shared server does not know no such verb",
    }
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("tool", "arguments", "may_have_happened"),
    [
        ("commit_memory", {"scope": "vault", "key": "k", "content": "c"}, True),
        ("create_entities", {"project": "p", "entities": [{"name": "Ada", "entity_type": "person"}]}, True),
        ("memory_create", {"content": "c"}, True),
        ("search_memories", {"query": "x"}, False),
    ],
)
def test_a_call_that_three_servers_have_not_answered_says_whether_it_may_have_happened(
    tmp_path: Path, connect: Connect, tool: str, arguments: dict[str, Any], may_have_happened: bool
) -> None:
    connect()
    params = {"name": tool, "arguments": arguments, "_meta": modern_meta()}
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    hello = link.greeting(environ=SHARED, connection="0" * 32, lost=[{"line": line, "attempts": 3}])
    wire = ServerSocket(str(tmp_path)).connect()
    assert wire is not None
    with wire, wire.makefile("rwb") as stream:
        stream.write(json.dumps(hello).encode() + b"\n")
        stream.flush()
        assert json.loads(stream.readline())["memory-mcp"] == "welcome"
        answer = json.loads(stream.readline())
    assert answer["id"] == 7
    error = answer.get("error") or answer["result"]["structuredContent"]
    assert error["data"]["may_have_happened"] is may_have_happened


def test_unfinished_hellos_are_limited_together(tmp_path: Path, connect: Connect) -> None:
    client = connect()
    own = ServerSocket(str(tmp_path))
    unfinished = b" " * 60_000_000  # each is short enough alone
    for _ in range(2):  # the second time shows that the first ones count no more
        first, second = own.connect(), own.connect()
        assert first is not None
        assert second is not None
        with first, second:
            first.sendall(unfinished)
            with suppress(BrokenPipeError, ConnectionResetError):
                second.sendall(unfinished)
            assert b"all relays together" in second.recv(65_536)
            first.sendall(b"\n")
            assert b"cannot be read" in first.recv(65_536)
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize("kind", ["shared", "stdio"])
def test_data_is_not_migrated_while_an_older_server_runs(tmp_path: Path, connect: Connect, kind: str) -> None:
    run("add", "a memory", "--data-dir", tmp_path, check=True)
    _pretend_older_schema(tmp_path / "notes.db")
    older = Servers(tmp_path / "servers")
    holder = subprocess.Popen(
        [COMMAND[0], "-c", HOLD_LOCK, str(tmp_path / "servers"), kind], stdout=subprocess.PIPE, encoding="utf-8"
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert [server.version for server in older.running()] == ["0.0.1"]
        listed = run("list", "--data-dir", tmp_path)
        if kind == "stdio":
            assert listed.returncode == 1
            assert f"process {holder.pid} of version 0.0.1" in listed.stderr
            holder.kill()
        else:
            assert "of version 0.0.1" not in listed.stderr
            assert holder.wait() == -signal.SIGTERM


HOLD_LOCK = """
import signal, sys
from pathlib import Path
from memory_mcp.services.sessions import servers
servers.__version__ = "0.0.1"
this = servers.Servers(Path(sys.argv[1]))
this.kind = sys.argv[2]
this.register_this()
print("held", flush=True)
signal.pause()
"""


def _pretend_older_schema(path: Path) -> None:
    """Its version is read from the header."""
    with path.open("r+b") as file:
        file.seek(60)
        file.write((1).to_bytes(4, "big"))


def test_hooks_of_clients_are_answered_by_the_shared_server(tmp_path: Path, connect: Connect, elsewhere: Path) -> None:
    client = connect()
    client.call("memory_create", content="Invoices are archived after ten years.", namespace="project/shop")
    (elsewhere / ".memory-mcp").write_text('project = "shop"')
    transcript = elsewhere / "t.jsonl"
    message = {"role": "user", "content": "We close the books in May."}
    record = {"type": "user", "uuid": "one", "timestamp": "2030-01-01T00:00:00Z", "message": message}
    transcript.write_text(json.dumps(record) + "\n")
    payload = {"session_id": "s", "cwd": str(elsewhere), "transcript_path": str(transcript)}

    def hook(event: str) -> str:
        command = [*map(str, COMMAND), "hook", event, "--data-dir", str(tmp_path)]
        done = subprocess.run(
            command, input=json.dumps(payload).encode(), capture_output=True, check=True, env=environment(**SHARED)
        )
        return done.stdout.decode()

    assert "Invoices are archived" in hook("SessionStart")  # after it, what a killed client left is stored
    eventually(lambda: "stored 1 message of" in json.dumps(records.last(str(tmp_path), 10)))
    assert hook("SessionEnd") == ""
    eventually(lambda: "stored no messages" in json.dumps(records.last(str(tmp_path), 10)))
    assert client.call("memory_search", query="close books")["memories"][0]["namespace"] == "conversations/shop"
    payload["session_id"] = ""
    assert hook("SessionStart") == ""
    assert records.last(str(tmp_path), 1)[0]["why"] == "There is no session_id."
    assert server_pid(tmp_path)
