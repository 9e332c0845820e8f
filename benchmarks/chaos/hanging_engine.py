"""An engine of a portal that hangs: it is stopped with SIGSTOP while clients wait for it."""

import signal
import time
from pathlib import Path

from benchmarks.chaos.connections import ERAS, engine_pid, kill, prepare, stdio_client
from benchmarks.chaos.ledger import PORTAL, Ledger, Refused

ROUNDS = 4
MAX_WAIT_S = 60.0  # for an answer, whatever it says


def run(folder: Path, rounds: int = ROUNDS) -> list[Ledger]:
    ledger = Ledger("an engine that hangs (SIGSTOP)")
    for number in range(rounds):
        data_dir = folder / f"hangs-{number}"
        with stdio_client(data_dir, ERAS[number % 2], shared=False) as client:
            prepare(client)
            ledger.write(client, "portals", f"e{number}-before")
            pid = engine_pid(data_dir)
            assert pid is not None
            kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            try:
                client("portal_query", {"portalUri": PORTAL, "sql": "SELECT count() FROM kept"})
            except Refused as exc:
                ledger.refused[f"e{number}-query"] = str(exc)
            if (taken := time.monotonic() - began) > MAX_WAIT_S:
                ledger.fail(f"a query waited {taken:.0f} s for an engine that hangs")
            for family in ("vault", "notes", "graph", "stores"):
                ledger.write(client, family, f"e{number}-{family}")
            if not ledger.write(client, "portals", f"e{number}-after"):
                ledger.fail("the portal does not write after its engine hung")
            kill(pid, signal.SIGCONT)
            kill(pid)
        ledger.attempts += 1
        one = Ledger(ledger.name, acknowledged={text for text in ledger.acknowledged if text.startswith(f"e{number}-")})
        one.check(data_dir)
        ledger.failures += one.failures
    return [ledger]
