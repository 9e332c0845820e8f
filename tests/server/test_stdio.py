import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import IO, Any, cast

import apsw
import pytest

from tests.events import TIMEOUT_S, eventually
from tests.processes import COMMAND, environment
from tests.wire import FORCED, HELLO, Stdio, modern_meta

DISABLED = "semantic search disabled"
PIPE_BYTES = 65_536


def test_a_first_conversation_over_raw_stdio(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    server.call("commit_memory", scope="vault", key="greeting", content="hello wörld 🎉")

    assert server.call("search_memories", query="hello")["results"][0]["content"] == "hello wörld 🎉"
    if not server.notifications:
        server.notifications.append(server.receive())
    assert {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"} in server.notifications
    assert server.close() == 0


def test_requests_before_the_end_of_input_are_answered(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "commit_memory", "arguments": {"scope": "vault", "key": "k", "content": "c"}},
        },
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    done = subprocess.run(
        [*COMMAND, "--data-dir", str(tmp_path)], input=text, capture_output=True, encoding="utf-8", check=True
    )

    assert {json.loads(line).get("id") for line in done.stdout.splitlines()} >= {1, 2}


def test_without_a_handshake_the_process_is_the_session(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, hello=False)

    def call(tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments, "_meta": modern_meta()}
        return server.ask("tools/call", params)["result"]["structuredContent"]

    call("commit_memory", scope="session", key="k", content="scratch")
    assert call("search_memories", query="scratch", scope="session")["total_searched"] == 1
    call("set_session_id", session_id="other")
    assert call("search_memories", query="scratch", scope="session")["total_searched"] == 0
    assert server.close() == 0


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        ("not json", None, -32700),
        ('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"a":"\\ud800"}}}', 7, -32602),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None, -32602),
        ('{"jsonrpc":"2.0","id":false,"method":"\\ud800"}', None, -32602),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}', 7, -32600),
        ("[]", None, -32600),
        ("[" * 100_000, None, -32700),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + '{"a":' * 250 + "1" + "}" * 252, 7, -32602),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + "[" * 5000, 7, -32700),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + "9" * 5000 + "}}", 7, -32700),
        ('{"id": 3}', 3, -32600),
    ],
)
def test_a_line_that_is_no_json_is_answered(tmp_path: Path, line: str, id_: int | None, code: int) -> None:
    server = Stdio.start(tmp_path)
    assert server.process.stdin is not None
    server.process.stdin.write(line + "\n")
    server.process.stdin.flush()

    answer = server.receive()
    assert answer["id"] == id_
    assert answer["error"]["code"] == code
    assert server.ask("ping")["result"] == {}
    server.close()


HALVES: list[tuple[str, dict[str, Any], str]] = [
    ("memory_create", {"content": "\ud800"}, "content"),
    ("memory_create", {"content": "x", "metadata": {"a": ["\udc00 in a list"]}}, "metadata.a.0"),
    ("memory_create", {"content": "x", "\ud800": 1}, "\\ud800"),
    ("create_entities", {"entities": [{"name": "\ud83d", "entity_type": "t"}]}, "entities.0.name"),
    ("portal_query", {"portalUri": "mem://a/b", "sql": "SELECT '\ud800'"}, "sql"),
    ("recall_memories", {"query": "\ud800"}, "query"),
]


@pytest.mark.parametrize("shared", ["off", "auto"])
def test_half_of_a_surrogate_pair_is_refused_by_the_tool_which_names_the_field(tmp_path: Path, shared: str) -> None:
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SHARED=shared, MEMORY_MCP_SHARED_IDLE="0"))
    for tool, arguments, field in HALVES:
        answer = server.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        assert answer["result"]["isError"]
        error = answer["result"]["structuredContent"]
        assert (error["error"], error["data"]["field"]) == ("invalid", field)
        assert "half of a surrogate pair" in error["message"]
    for tool, arguments in (
        ("commit_memory", {"scope": "vault", "key": "k", "content": "\ud800"}),
        ("add_memory", {"store": "default", "path": "p", "content": "\udfff"}),
    ):
        error = server.ask("tools/call", {"name": tool, "arguments": arguments})["error"]  # as their specifications say
        assert (error["code"], error["data"]) == (-32602, {"error": "invalid", "field": "content"})
    assert server.call("memory_create", content="\U0001f600")["content"] == "\U0001f600"
    assert server.close() == 0


@pytest.mark.parametrize(
    "params",
    [
        {"name": "memory_create\ud800", "arguments": {"content": "x"}},
        {"name": "memory_create", "arguments": {"content": "x"}, "_meta": {"progressToken": "\ud800"}},
        {"name": "memory_create", "arguments": "\ud800"},
        {"name": "memory_create", "\ud800": 1},
        ["\ud800"],
        "\ud800",
    ],
)
def test_half_of_a_surrogate_pair_elsewhere_in_a_call_is_an_error_of_the_protocol(tmp_path: Path, params: Any) -> None:
    server = Stdio.start(tmp_path)
    answer = server.ask("tools/call", params)
    assert (answer["error"]["code"], answer["error"]["data"]["error"]) == (-32602, "invalid")
    assert server.ask("ping")["result"] == {}
    assert server.close() == 0


@pytest.mark.parametrize("depth", [900, 1_000, 3_000, 50_000])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int) -> None:
    server = Stdio.start(tmp_path)
    assert server.process.stdin is not None
    for method in ("ping", "tools/call", "nothing"):
        for half in ("", '"\\ud800",'):
            nested = "[" * depth + "]" * depth
            arguments = f'{{"query":[{half}{nested}]}}'
            server.process.stdin.write(
                f'{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{{"name":"search_memories","arguments":{arguments}}}}}\n'
            )
            server.process.stdin.flush()
            assert "error" in server.receive()
    assert server.ask("ping")["result"] == {}
    server.close()


def test_a_line_too_long_is_answered_and_the_next_one_served(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    server.call("commit_memory", scope="vault", key="k", content="x" * 1_000_000)
    server.post("tools/call", {"name": "search_memories", "arguments": {"query": "x" * (17 * 1024 * 1024)}})
    while "error" not in (answer := server.receive()):
        pass
    assert answer["error"]["code"] == -32700
    assert server.ask("ping")["result"] == {}
    server.close()


def test_a_client_that_stops_reading_ends_it_quietly(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+") as errors:
        server = Stdio.start(tmp_path / "data", stderr=errors)
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.post("ping")
        assert server.process.stdin is not None
        server.process.stdin.close()
        server.process.wait(timeout=TIMEOUT_S)
        errors.seek(0)
        assert "Traceback" not in errors.read()


def unread(data_dir: Path) -> Stdio:
    """A server with a pipe full of answers that no client has read."""
    server = Stdio.start(data_dir, env=environment(MEMORY_MCP_SESSION_ID="mine"))
    server.call("commit_memory", scope="session", key="k", content="c")
    server.call("commit_memory", scope="vault", key="k", content="x" * 200_000)
    for _ in range(20):
        server.post("resources/read", {"uri": "memory://vault/k"})
    return server


def test_unread_answers_do_not_delay_the_end(tmp_path: Path) -> None:
    server = unread(tmp_path)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(timeout=TIMEOUT_S) == 0
    assert sessions_left(tmp_path) == []
    server.kill()


def test_a_full_pipe_whose_reader_is_gone_ends_quietly(tmp_path: Path) -> None:
    server = unread(tmp_path)
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.process.stdin.close()
    assert server.process.wait(timeout=TIMEOUT_S) is not None
    assert sessions_left(tmp_path) == []


def unread_bytes(server: Stdio) -> int:
    assert server.process.stdout is not None
    return int.from_bytes(fcntl.ioctl(server.process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_client_that_reads_late_gets_every_answer(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    count = 300
    sending = threading.Thread(target=lambda: [server.post("tools/list") for _ in range(count)])
    sending.start()
    eventually(lambda: unread_bytes(server) > PIPE_BYTES - 4096)  # the server can write no more
    assert sum("result" in server.receive() for _ in range(count)) == count
    sending.join()
    server.close()


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("tools/call", {}, "name"),
        ("tools/call", {"name": "search_memories", "arguments": []}, "arguments"),
        ("resources/read", {}, "uri"),
        ("resources/list", {"cursor": 5}, "cursor"),
    ],
)
def test_malformed_parameters_are_reported_like_arguments(
    tmp_path: Path, method: str, params: dict[str, Any], field: str
) -> None:
    server = Stdio.start(tmp_path)
    answer = server.ask(method, params)
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["error"] == "invalid"
    assert field in answer["error"]["data"]["field"]
    server.close()


def test_before_the_handshake_it_says_what_to_send(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, hello=False)
    answer = server.ask("tools/list")
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"] == {"error": "invalid"}
    assert "initialize" in answer["error"]["message"]
    server.close()


def test_a_vector_with_nan_on_the_wire_is_refused(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--embedding-dim", "2")
    answer = server.ask(
        "tools/call",
        {
            "name": "commit_memory",
            "arguments": {"scope": "vault", "key": "k", "content": "c", "embedding": [float("nan"), 1.0]},
        },
    )
    assert answer["error"]["code"] == -32602
    assert server.read("memory://vault") == []
    server.close()


def test_utf8_in_every_locale(tmp_path: Path) -> None:
    env = environment(LC_ALL="C", LANG="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    server = Stdio.start(tmp_path / "données", env=env, is_fresh=True)
    server.call("commit_memory", scope="vault", key="ключ", content="数据 🎉")

    assert server.read("memory://vault")[0]["key"] == "ключ"
    assert server.close() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_session(
    tmp_path: Path, number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="mine"))
    server.call("commit_memory", scope="session", key="k", content="c")

    server.process.send_signal(number)
    assert server.process.wait(timeout=TIMEOUT_S) == 0
    server.kill()
    assert FORCED not in capfd.readouterr().err
    assert sessions_left(tmp_path) == []


def test_it_ends_with_its_parent_even_if_stdin_stays_open(tmp_path: Path) -> None:
    script = f"""
import subprocess, sys
server = subprocess.Popen({[*COMMAND, "--data-dir", str(tmp_path)]!r}, stdin=sys.stdin, stdout=sys.stdout)
print(server.pid, file=sys.stderr, flush=True)
sys.stderr.close()
sys.stdin.close()
import threading; threading.Event().wait()
"""
    reading, writing = os.pipe()  # the test keeps the other end of the server's stdin open all the time
    with os.fdopen(reading), os.fdopen(writing, "w") as stdin:
        parent = subprocess.Popen(
            [sys.executable, "-c", script], stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert parent.stderr is not None
        assert parent.stdout is not None
        pid = int(parent.stderr.readline())
        stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n")
        stdin.flush()
        parent.stdout.readline()
        parent.kill()
        parent.wait()
        eventually(lambda: has_ended(pid))
        parent.stdout.close()
        parent.stderr.close()


def has_ended(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_an_idle_server_uses_no_cpu(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as stderr:
        flags = ["--ollama-host", "http://127.0.0.1:9", "--models-dir", str(tmp_path / "models")]
        server = Stdio.start(tmp_path / "data", *flags, "--shared", "off", stderr=stderr)
        server.call("search_memories", query="warm up")
        eventually(lambda: DISABLED in log.read_text())  # it looks for an embedder once, a second after its start
        eventually(lambda: used_ticks(server, 2.0) == 0)
        server.close()


def used_ticks(server: Stdio, seconds: float) -> int:
    """The processor time of so many seconds in which it says nothing."""
    before = ticks(server.process.pid)
    assert select.select([cast(IO[str], server.process.stdout)], [], [], seconds)[0] == []
    return ticks(server.process.pid) - before


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize(
    ("scopes", "tools"),
    [
        ("read-only", ["search_memories"]),
        ("read_memory,write_memory", ["commit_memory", "search_memories", "set_session_id"]),
        ("read-write", ["commit_memory", "search_memories", "prune_memory", "set_session_id"]),
    ],
)
def test_scopes_limit_listed_and_allowed_tools(tmp_path: Path, scopes: str, tools: list[str]) -> None:
    server = Stdio.start(tmp_path, "--families", "vault", "--scopes", scopes)
    listed = [tool["name"] for tool in server.ask("tools/list")["result"]["tools"]]
    assert listed == tools

    answer = server.ask("tools/call", {"name": "prune_memory", "arguments": {"scope": "session"}})
    if "prune_memory" not in tools:
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"] == {"error": "scope_required", "scope": "delete_memory"}
    server.close()


def sessions_left(data_dir: Path) -> list[str]:
    connection = apsw.Connection(str(data_dir / "memory.db"))
    return [str(session_id) for (session_id,) in connection.execute("SELECT session_id FROM session_memories")]


def test_pipelined_calls_use_the_project_switched_to_before_them(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    for name in ("one", "two"):
        server.call("create_project", name=name)
    for turn in range(10):
        for name in ("one", "two"):
            entity = {"name": f"{name}-{turn}", "entity_type": "t"}
            server.post("tools/call", {"name": "switch_project", "arguments": {"name": name}})
            server.post("tools/call", {"name": "create_entities", "arguments": {"entities": [entity]}})
    server.call("switch_project", name="one")  # comes after all of them
    for name in ("one", "two"):
        found = server.call("read_graph", project=name)["entities"]
        assert {entity["name"] for entity in found} == {f"{name}-{turn}" for turn in range(10)}
    server.close()
