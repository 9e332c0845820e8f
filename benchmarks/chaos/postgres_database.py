"""The same faults on PostgreSQL: servers killed, the database killed under them, and histories over two servers."""

import itertools
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
from tests.events import eventually
from tests.postgres import running_server
from tests.wire import http_server

from benchmarks.chaos.connections import ERAS, Era, http_call, prepare
from benchmarks.chaos.histories import CLIENTS, check_rounds
from benchmarks.chaos.kills import kill_http_servers, write_while
from benchmarks.chaos.ledger import Ledger, diagnose
from benchmarks.restartable_server import RestartableServer, started
from memory_mcp import settings
from memory_mcp.app import open_access

FAMILIES = ("vault", "notes", "graph")  # that can be in PostgreSQL
KILLS = 100
RESTARTS = 10
ROUNDS = 3
SEED = 7
MAX_DELAY_S = 2.0  # between two ends of the database
STORED = """
    SELECT content FROM memory_vault.vault_memories
    UNION ALL SELECT content FROM memory_notes.notes
    UNION ALL SELECT name FROM memory_project.entities
"""


def run(folder: Path, kills: int = KILLS, restarts: int = RESTARTS, rounds: int = ROUNDS) -> list[Ledger]:
    return [
        *(_kill_servers(folder / f"kills-{era}", era, max(1, kills // len(ERAS))) for era in ERAS),
        _kill_database(folder / "database", restarts),
        _check_histories(folder / "histories", rounds),
    ]


def _kill_servers(data_dir: Path, era: Era, kills: int) -> Ledger:
    ledger = Ledger(f"kill -9 of servers on PostgreSQL, {era}")
    with running_server(is_durable=True) as url:
        kill_http_servers(ledger, data_dir, era, kills, *_flags(url), families=FAMILIES)
        _check(ledger, data_dir, url)
    return ledger


def _kill_database(data_dir: Path, restarts: int) -> Ledger:
    """A killed backend: PostgreSQL ends every connection and recovers from its log, as after a crash."""
    ledger, chance = Ledger("kill -9 of PostgreSQL under a server"), random.Random(SEED)

    def kill_backends() -> None:
        while ledger.attempts < restarts:
            time.sleep(chance.uniform(0.5, MAX_DELAY_S))
            with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:  # else it still recovers
                os.kill(connection.info.backend_pid, signal.SIGKILL)
                ledger.attempts += 1
        eventually(lambda: _accepts_connections(url))

    with running_server(is_durable=True) as url:
        with http_server(data_dir, *_flags(url)) as server:
            calls = {family: http_call(server, "modern") for family in FAMILIES}
            prepare(calls["graph"], FAMILIES)
            write_while(ledger, calls, "d", kill_backends)
        _check(ledger, data_dir, url)
    return ledger


def _accepts_connections(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _check_histories(folder: Path, rounds: int) -> Ledger:
    """Clients of two servers, one of which is killed and started again, in turns."""
    ledger = Ledger("histories over two servers on PostgreSQL are linearizable")
    with running_server(is_durable=True) as url, ExitStack() as stack:
        two = [RestartableServer(folder / str(number), _flags(url)) for number in range(2)]
        servers = [stack.enter_context(started(server)) for server in two]
        key = _create_key(servers[0].data_dir, url)
        clients = [stack.enter_context(servers[number % 2].client(key)) for number in range(CLIENTS)]
        calls = [http_call(client, "modern") for client in clients]
        prepare(calls[0], FAMILIES)
        victims = itertools.cycle(servers)

        def restart_next() -> None:
            victim = next(victims)
            victim.kill()
            victim.start()

        check_rounds(ledger, calls, rounds, restart_next, FAMILIES)
    return ledger


def _create_key(data_dir: Path, url: str) -> str:
    chosen = settings.load({"data_dir": data_dir, "database_url": url}, environ={}).settings
    with open_access(chosen) as access:
        return access.keys.create(name="chaos").raw


def _flags(url: str) -> tuple[str, ...]:
    return ("--embedder", "none", "--database-url", url, "--families", ",".join(FAMILIES))


def _check(ledger: Ledger, data_dir: Path, url: str) -> None:
    """Every acknowledged write is there once, and the doctor finds every index complete."""
    with psycopg.connect(url) as connection:
        ledger.compare(Counter(text for (text,) in connection.execute(STORED)))
    if problems := diagnose(data_dir, "--database-url", url):
        ledger.fail(f"the doctor finds {problems[:3]}")
