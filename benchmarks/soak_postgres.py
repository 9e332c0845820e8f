"""Servers on one PostgreSQL under load, one of them killed again and again, and the database restarted once:
`make soak-postgres`. Every acknowledged note must be there at the end, and no user may see another's."""

import argparse
import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
from tests.postgres import running_server
from tests.wire import Http, http_server

from benchmarks.figures import introduction, print_table
from memory_mcp import settings
from memory_mcp.app import open_access

KILL_INTERVAL_S = 10.0
USERS = 4
FLAGS = ("--embedder", "none", "--families", "notes")


@dataclass
class Server:
    """A server that can be killed and started again on the same port."""

    data_dir: Path
    url: str
    running: ExitStack = field(default_factory=ExitStack)
    http: Http | None = None

    def start(self) -> None:
        port = self.http.client.base_url.port if self.http else 0
        flags = [*FLAGS, "--database-url", self.url]
        self.http = self.running.enter_context(http_server(self.data_dir, *flags, port=port or 0, env=None))

    def kill(self) -> None:
        assert self.http is not None
        self.http.process.kill()
        self.running.close()
        self.running = ExitStack()


@dataclass
class Answers:
    """What the servers answered."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)  # the ids of each user's notes
    outcomes: Counter[str] = field(default_factory=Counter)
    gaps_s: list[float] = field(default_factory=list)  # between two acknowledged calls of a client, if longer than 1 s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--servers", type=int, default=2)
    chosen = parser.parse_args()
    print(introduction())
    with tempfile.TemporaryDirectory() as folder, running_server(is_durable=True) as url, ExitStack() as stack:
        servers = [Server(Path(folder) / str(number), url) for number in range(chosen.servers)]
        for server in servers:
            server.start()
            stack.callback(server.running.close)
        answers = Answers()
        keys = _create_users(servers[0].data_dir, url)
        kills = _run(servers, keys, answers, chosen.seconds, url)
        lost, foreign = _compare(servers, keys, answers)
    _report(answers, chosen.seconds, kills, lost, foreign)
    assert not lost, "Acknowledged notes are missing."
    assert not foreign, "A user saw a note of another."
    assert set(answers.outcomes) <= {"ok", "unavailable", "no server"}, answers.outcomes


def _create_users(data_dir: Path, url: str) -> dict[str, str]:
    """A key for each new user, by the user's name."""
    where = settings.load({"data_dir": data_dir, "database_url": url}, environ={}).settings
    with open_access(where) as access:
        users = [access.users.add(f"user{number}") for number in range(USERS)]
        return {user.name: access.keys.create(name="soak", user=user.id).raw for user in users}


def _run(servers: list[Server], keys: dict[str, str], answers: Answers, seconds: float, url: str) -> int:
    """Clients write while servers are killed. Returns how many were."""
    end = time.monotonic() + seconds
    with ExitStack() as stack:
        for name, key in keys.items():
            thread = threading.Thread(target=_write, args=(servers, name, key, answers, end))
            thread.start()
            stack.callback(thread.join)
        kills = 0
        while (left := end - time.monotonic()) > KILL_INTERVAL_S / 2:
            time.sleep(min(KILL_INTERVAL_S, left) / 2)
            if kills == 1:
                _restart_database(url)
            victim = servers[kills % len(servers)]
            victim.kill()
            victim.start()
            kills += 1
            time.sleep(KILL_INTERVAL_S / 2)
    return kills


def _restart_database(url: str) -> None:
    """As a crash of PostgreSQL: every connection ends, and it recovers from its log."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    postmaster = Path(row[0], "postmaster.pid").read_text(encoding="ascii").splitlines()[0]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii").split()
    subprocess.run(["kill", "-9", children[-1]], check=False)  # one backend killed: PostgreSQL restarts all


def _write(servers: list[Server], name: str, key: str, answers: Answers, end: float) -> None:
    """Create notes at random servers, as behind a load balancer, and record the answers."""
    chance, number, last = random.Random(name), 0, time.monotonic()
    while time.monotonic() < end:
        number += 1
        outcome, id_ = _create(chance.choice(servers), key, f"{name} note {number}")
        with answers.guard:
            answers.outcomes[outcome] += 1
            if id_:
                answers.acknowledged.setdefault(name, set()).add(id_)
                if (gap := time.monotonic() - last) > 1:
                    answers.gaps_s.append(gap)
                last = time.monotonic()


def _create(server: Server, key: str, content: str) -> tuple[str, str | None]:
    http = server.http
    if http is None:
        return "no server", None
    try:
        with _client(http, key) as client:
            answer = client.modern("tools/call", {"name": "memory_create", "arguments": {"content": content}})
    except (httpx.TransportError, ValueError):  # it was killed, or is not up yet
        return "no server", None
    result = answer.get("result", {})
    found = result.get("structuredContent") or {}
    if result.get("isError") or "id" not in found:
        return str(found.get("error") or answer.get("error", answer))[:80], None
    return "ok", str(found["id"])


@contextmanager
def _client(http: Http, key: str) -> Iterator[Http]:
    with httpx.Client(base_url=http.url, timeout=60) as client:
        yield Http(http.process, http.url, key, client, "", http.data_dir)


def _compare(servers: list[Server], keys: dict[str, str], answers: Answers) -> tuple[set[str], set[str]]:
    """Acknowledged notes that are missing, and notes that a user sees but another wrote."""
    lost, foreign = set[str](), set[str]()
    for name, key in keys.items():
        http = servers[-1].http
        assert http is not None
        with _client(http, key) as client:
            for id_ in answers.acknowledged.get(name, set()):
                answer = client.modern("tools/call", {"name": "memory_get", "arguments": {"id": id_}})
                if answer["result"].get("isError"):
                    lost.add(id_)
            found = client.modern_call("memory_search", query="note", limit=100)["memories"]
            foreign |= {note["id"] for note in found if not note["title"].startswith(f"{name} ")}
    return lost, foreign


def _report(answers: Answers, seconds: float, kills: int, lost: set[str], foreign: set[str]) -> None:
    count = sum(map(len, answers.acknowledged.values()))
    rows: list[tuple[str, ...]] = [
        ("servers killed", str(kills)),
        ("acknowledged notes", str(count)),
        ("a second", f"{count / seconds:.0f}"),
        ("lost", str(len(lost))),
        ("seen by another user", str(len(foreign))),
        ("longest time without an answer, s", f"{max(answers.gaps_s, default=0):.1f}"),
        *((f"answers: {outcome}", str(number)) for outcome, number in answers.outcomes.most_common()),
    ]
    print_table("Soak", [("what", "figure"), *rows])


if __name__ == "__main__":
    main()
