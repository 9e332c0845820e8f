"""Many server processes on one data directory, each with a client that writes in every family."""

import threading
from contextlib import ExitStack
from pathlib import Path

from benchmarks.chaos.connections import ERAS, StdioClient, prepare, stdio_client
from benchmarks.chaos.ledger import FAMILIES, Ledger

PROCESSES = 32
WRITES = 5  # of each family and process


def run(folder: Path, processes: int = PROCESSES) -> list[Ledger]:
    ledger, data_dir = Ledger(f"{processes} processes on one data directory"), folder / "many"
    with ExitStack() as stack:
        clients = [
            stack.enter_context(stdio_client(data_dir, ERAS[number % 2], shared=False)) for number in range(processes)
        ]
        prepare(clients[0])
        threads = [
            threading.Thread(target=_write, args=(ledger, client, number)) for number, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ledger.attempts = processes
    ledger.check(data_dir)
    return [ledger]


def _write(ledger: Ledger, client: StdioClient, number: int) -> None:
    for count in range(WRITES):
        for family in FAMILIES:
            if not ledger.write(client, family, f"m{number}-{family}-{count}"):
                ledger.fail(f"process {number} could not write to {family}")
