"""kill -9 at random points: of the shared server behind stdio clients, of HTTP servers, and of portals' engines."""

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.wire import http_server

from benchmarks.chaos.connections import (
    ERAS,
    Era,
    engine_pid,
    http_call,
    kill,
    prepare,
    shared_server_pids,
    stdio_client,
)
from benchmarks.chaos.ledger import FAMILIES, Call, Ledger
from benchmarks.soak_shared import background_servers

MAX_DELAY_S = 0.5  # between a server's first answer and its end
ENGINE_SHARE = 0.1  # of the kills that hit a portal's engine instead
SEED = 1
POLL_INTERVAL_S = 0.01


def run(folder: Path, kills: int) -> list[Ledger]:
    """A quarter of the kills for each transport and era."""
    share = max(1, kills // 4)
    ledgers = []
    for era in ERAS:
        ledgers.append(_over_stdio(folder / f"stdio-{era}", era, share))
        ledgers.append(_over_http(folder / f"http-{era}", era, share))
    return ledgers


def _write_until(stop: threading.Event, ledger: Ledger, call: Call, family: str, mark: str) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        try:
            ledger.write(call, family, f"{mark}-{family}-{number}")
        except Exception as exc:  # noqa: BLE001  # reported at the end
            ledger.fail(f"{family}: a client failed: {exc!r}")
            return


def write_while(ledger: Ledger, calls: Mapping[str, Call], mark: str, work: Callable[[], None]) -> None:
    """Do the work while a client of each family writes."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=_write_until, args=(stop, ledger, call, family, mark)) for family, call in calls.items()
    ]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _over_stdio(data_dir: Path, era: Era, kills: int) -> Ledger:
    ledger, chance = Ledger(f"kill -9, stdio through the shared server, {era}"), random.Random(SEED)
    with background_servers(data_dir), ExitStack() as stack:
        clients = {family: stack.enter_context(stdio_client(data_dir, era)) for family in FAMILIES}
        prepare(clients["graph"])

        def end_servers() -> None:
            last = 0
            while ledger.attempts < kills:
                pid = _next_server(data_dir, last)
                time.sleep(chance.uniform(0.0, MAX_DELAY_S))
                engine = engine_pid(data_dir)
                if engine and chance.random() < ENGINE_SHARE:
                    kill(engine)
                else:
                    kill(pid)
                    last = pid
                ledger.attempts += 1

        write_while(ledger, clients, "s", end_servers)
    ledger.check(data_dir)
    return ledger


def _next_server(data_dir: Path, last: int) -> int:
    while True:
        if found := [pid for pid in shared_server_pids(data_dir) if pid != last]:
            return found[-1]
        time.sleep(POLL_INTERVAL_S)


def _over_http(data_dir: Path, era: Era, kills: int) -> Ledger:
    ledger = Ledger(f"kill -9, HTTP, {era}")
    kill_http_servers(ledger, data_dir, era, kills)
    ledger.check(data_dir)
    return ledger


def kill_http_servers(
    ledger: Ledger, data_dir: Path, era: Era, kills: int, *flags: str, families: Collection[str] = FAMILIES
) -> None:
    """Start a server, kill it while a client of each family writes, and start the next."""
    chance, key = random.Random(SEED), None
    while ledger.attempts < kills:
        with http_server(data_dir, *flags) as server:
            key = server.key or key
            server.key = key
            calls = {family: http_call(server, era) for family in families}  # each in a session of its own
            if not ledger.attempts:
                prepare(calls["graph"], families)

            def end_server() -> None:
                time.sleep(chance.uniform(0.0, MAX_DELAY_S))
                server.process.kill()  # it is called before the next round
                server.process.wait()

            write_while(ledger, calls, f"h{ledger.attempts}", end_server)
            ledger.attempts += 1
