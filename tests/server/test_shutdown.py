"""A server ends within seconds of SIGTERM, whatever its threads wait for, and what it acknowledged is kept."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory_mcp.engines.files.lock import FileLock
from tests.events import TIMEOUT_S, eventually
from tests.processes import Process, run
from tests.services.embedding.fake_service import running_service
from tests.wire import Stdio, http_server

MAX_S = 25  # more than a server takes on a busy machine, less than any of the waits below


def commit(key: str) -> dict[str, Any]:
    return {"name": "commit_memory", "arguments": {"scope": "vault", "key": key, "content": "c"}}


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process writes and does not finish: a write to this file waits for half a minute."""
    with FileLock(Path(f"{file}.lock")).acquire():
        yield


def kept_keys(data_dir: Path) -> set[str]:
    server = Stdio.start(data_dir)
    keys = {entry["key"] for entry in server.read("memory://vault")}
    server.close()
    return keys


def test_over_http_a_blocked_write_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    with http_server(tmp_path, "--embedder", "none") as server:
        server.modern_call("commit_memory", scope="vault", key="acknowledged", content="c")
        with locked(tmp_path / "memory.db"), ThreadPoolExecutor(1) as pool:
            pool.submit(_post_quietly, server.url, server.headers(), server.handshake())
            while 'busy{pool="writing"} 1.0' not in server.client.get("/metrics").text:
                pass
            server.process.terminate()
            assert server.process.wait(MAX_S) == 0
    assert kept_keys(tmp_path) == {"acknowledged"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_over_http_a_blocked_write_is_answered_before_the_server_ends(tmp_path: Path, era: str) -> None:
    call = {"name": "memory_create", "arguments": {"content": "blocked"}}
    with http_server(tmp_path, "--embedder", "none") as server:
        server.modern_call("memory_create", content="acknowledged")
        session = server.handshake()
        with locked(tmp_path / "notes.db"), ThreadPoolExecutor(1) as pool:
            ask = partial(server.legacy, session) if era == "legacy" else server.modern
            blocked = pool.submit(ask, "tools/call", call)
            with httpx.Client(base_url=server.url) as other:
                eventually(lambda: 'busy{pool="writing"} 1.0' in other.get("/metrics").text)
            server.process.terminate()
            refused = blocked.result()["result"]["structuredContent"]
            assert server.process.wait(MAX_S) == 0
    assert refused["error"] == "unavailable"
    assert refused["data"]["may_have_happened"] is True


def _post_quietly(url: str, headers: dict[str, str], session: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": commit("lost")}
    with suppress(httpx.HTTPError):
        httpx.post(f"{url}/mcp", json=message, headers=headers | {"mcp-session-id": session}, timeout=60)


def test_over_http_a_blocked_read_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    with running_service() as service:
        flags = ["--embedder", "ollama", "--ollama-host", service.url]
        with http_server(tmp_path, *flags) as server, ThreadPoolExecutor(1) as pool:
            server.modern_call("memory_create", content="a note")
            while "notice" in server.modern_call("memory_search", query="note", search_mode="semantic"):
                pass
            held = service.hold("stuck")
            call = {"name": "memory_search", "arguments": {"query": "stuck", "search_mode": "semantic"}}
            stuck = pool.submit(server.modern, "tools/call", call)
            assert held.arrived.wait(MAX_S)
            server.process.terminate()
            assert server.process.wait(MAX_S) == 0
            assert stuck.result()["result"]["structuredContent"]["error"] == "unavailable"
            held.release.set()


@pytest.mark.parametrize("end", ["SIGTERM", "end of input"])
def test_over_stdio_a_blocked_write_does_not_delay_the_shutdown(tmp_path: Path, end: str) -> None:
    server = Stdio.start(tmp_path, "--embedder", "none")
    server.call("commit_memory", scope="vault", key="acknowledged", content="c")
    with locked(tmp_path / "memory.db"):
        server.post("tools/call", commit("lost"))
        server.ask("ping")  # what came before is under way
        if end == "SIGTERM":
            server.process.send_signal(signal.SIGTERM)
        else:
            assert server.process.stdin is not None
            server.process.stdin.close()
        assert server.process.wait(2 * MAX_S) == 0
    server.kill()
    assert kept_keys(tmp_path) == {"acknowledged"}


def test_a_hub_ends_while_a_push_waits(tmp_path: Path) -> None:
    made = run("keys", "create", "--name", "n", "--data-dir", tmp_path, "--json", check=True)
    bearer = {"Authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    arguments = ["hub", "--port", "0", "--data-dir", tmp_path, "--header-seconds", "1"]
    with Process(arguments, stdout=subprocess.PIPE) as hub:
        assert hub.stdout is not None
        url = next(line.split()[-1] for line in hub.stdout if "Nodes" in line)
        with socket.create_connection(_address(url), timeout=TIMEOUT_S) as slow:  # it has the same protection
            slow.sendall(b"GET / HTTP/1.1\r\n")
            assert slow.recv(12) == b"HTTP/1.1 408"
        push = {"node": "n1", "records": []}
        assert httpx.post(f"{url}/api/sync/push", json=push, headers=bearer).status_code == 200
        with locked(tmp_path / "hub.db"), socket.create_connection(_address(url)) as waiting:
            waiting.sendall(_raw_push(url, json.dumps({"node": "n2", "records": []}), bearer))
            for _ in range(3):  # what came before is under way
                assert httpx.get(f"{url}/healthz").status_code == 200
            hub.terminate()
            assert hub.wait(MAX_S) == 0


def _address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def _raw_push(url: str, body: str, bearer: dict[str, str]) -> bytes:
    host, port = _address(url)
    lines = {"Host": f"{host}:{port}", **bearer, "Content-Type": "application/json", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /api/sync/push HTTP/1.1\r\n{head}\r\n{body}".encode()
