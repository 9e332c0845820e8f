"""Several servers on one data directory: every acknowledged write is there, and no error reaches a caller."""

import random
import threading
from pathlib import Path

import apsw
import pytest

from tests.exhaustive import rounds
from tests.processes import environment
from tests.wire import Stdio, kill_after

EACH = 40
KILLS = rounds(15, soak=50)


@pytest.mark.parametrize("processes", [2, 8])
def test_every_write_of_many_processes_is_kept(tmp_path: Path, processes: int) -> None:
    servers = start_at_once(tmp_path, processes)
    errors: list[object] = []

    def write(number: int, server: Stdio) -> None:
        try:
            for count in range(EACH):
                server.call("commit_memory", scope="vault", key=f"{number}-{count}", content=f"memory {count}")
                server.call("commit_memory", scope="vault", key="contended", content=f"by {number}")
        except AssertionError as exc:
            errors.append(exc)

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    kept = {memory["key"] for memory in servers[0].read("memory://vault?limit=1000")}
    assert kept == {f"{n}-{c}" for n in range(processes) for c in range(EACH)} | {"contended"}
    assert servers[-1].call("search_memories", query="memory", limit=500)["total_searched"] == len(kept)
    for server in servers:
        assert server.close() == 0


def start_at_once(data_dir: Path, processes: int) -> list[Stdio]:
    """Start all of them before the first has answered: they meet at the new files."""
    servers = [Stdio.start(data_dir, hello=False) for _ in range(processes)]
    for server in servers:
        server.ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}},
        )
        server.send({"method": "notifications/initialized"})
    return servers


def test_vectors_written_by_one_process_are_found_by_another(tmp_path: Path) -> None:
    one, two = (Stdio.start(tmp_path, "--embedding-dim", "2") for _ in range(2))
    one.call("commit_memory", scope="vault", key="a", content="x", embedding=[1, 0])
    assert two.call("search_memories", query="q", query_embedding=[1, 0])["results"][0]["key"] == "a"
    one.call("prune_memory", scope="vault", key="a")
    assert two.call("search_memories", query="q", query_embedding=[1, 0])["results"] == []
    one.close()
    two.close()


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    chance = random.Random(1)
    for round_ in range(KILLS):
        server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID=f"s{round_}"))
        killer = kill_after(server, chance.randint(1, 80))
        acknowledged |= write_until_killed(server, round_)
        killer.join()
        server.kill()

    last = Stdio.start(tmp_path)
    last.close()
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    kept = {key for (key,) in connection.execute("SELECT key FROM vault_memories")}
    assert len(acknowledged) > KILLS
    assert acknowledged <= kept
    assert connection.execute("SELECT * FROM session_memories").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for index in ("vault_fts", "session_fts", "vault_words", "session_words"):
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
    found = connection.execute("SELECT count(*) FROM vault_words WHERE vault_words MATCH 'content'").fetchall()
    assert found == [(len(kept),)]


def write_until_killed(server: Stdio, round_: int) -> set[str]:
    """The keys whose commit was answered."""
    answered: set[str] = set()
    try:
        for count in range(10_000):
            key = f"{round_}-{count}"
            server.call("commit_memory", scope="vault", key=key, content=f"content {count} " * 20)
            answered.add(key)
            server.call("commit_memory", scope="session", key=key, content="scratch")
    except (EOFError, BrokenPipeError, ValueError):
        pass  # the killer was here; half a line is no answer
    return answered


def test_a_hanging_process_does_not_stop_readers(tmp_path: Path) -> None:
    holder = Stdio.start(tmp_path)
    holder.call("commit_memory", scope="vault", key="k", content="still readable")
    reader = Stdio.start(tmp_path)
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    connection.execute("BEGIN IMMEDIATE")
    assert reader.call("search_memories", query="readable")["results"][0]["key"] == "k"
    answer = reader.ask(
        "tools/call", {"name": "commit_memory", "arguments": {"scope": "vault", "key": "x", "content": "c"}}
    )
    assert answer["error"]["code"] == -32603
    assert answer["error"]["data"] == {"error": "unavailable"}
    connection.execute("ROLLBACK")
    reader.call("commit_memory", scope="vault", key="x", content="c")
    holder.close()
    reader.close()
