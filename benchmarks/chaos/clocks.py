"""Clocks that jump by hours, forward and back, from one server to the next."""

import random
from pathlib import Path

from benchmarks.chaos.connections import ERAS, prepare, stdio_client
from benchmarks.chaos.ledger import FAMILIES, Call, Ledger

JUMPS = 12
MAX_JUMP_HOURS = 48
SEED = 3


def run(folder: Path, jumps: int = JUMPS) -> list[Ledger]:
    ledger, chance, data_dir = Ledger("clock jumps of hours, both ways"), random.Random(SEED), folder / "clocks"
    for jump in range(jumps):
        seconds = chance.uniform(1, MAX_JUMP_HOURS) * 3600 * (1 if jump % 2 else -1)
        module = ("benchmarks.skewed", str(seconds))
        with stdio_client(data_dir, ERAS[jump // 2 % 2], shared=False, module=module) as client:
            if not jump:
                prepare(client)
            for family in FAMILIES:
                if not ledger.write(client, family, f"j{jump}-{family}"):
                    ledger.fail(f"{family} refused a write at a clock that is {seconds / 3600:.0f} h off")
            _check_search(ledger, client, jump)
        ledger.attempts += 1
    ledger.check(data_dir)
    return [ledger]


def _check_search(ledger: Ledger, call: Call, jump: int) -> None:
    """A memory that was just written is found by a search at once, whatever its time is."""
    found = call("memory_search", {"query": f"j{jump}-notes", "namespace": "chaos"})
    if f"j{jump}-notes" not in str(found):
        ledger.fail(f"the search after jump {jump} does not find the note of this moment")
