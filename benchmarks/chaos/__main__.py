"""Faults of every class, and what they cost: `make chaos`.

For every family, in both protocol eras: processes killed at random points, power loss, wrong clocks, full and read-only
disks, many processes, damaged files, engines that hang, interrupted migrations, upgrades and concurrent calls; and
servers on PostgreSQL. After each, every acknowledged write must be there once, indexes must agree with tables, errors
must be plain words, and the doctor must find no problem that it does not repair. The exit status is 1 if anything was
lost.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.chaos import (
    clocks,
    damage,
    disks,
    hanging_engine,
    histories,
    kills,
    many_processes,
    postgres_database,
    power_loss,
    upgrades,
)
from benchmarks.chaos.ledger import Ledger
from benchmarks.figures import introduction, load, print_table

KILLS = 1000


def main() -> None:
    options = _options()
    print(introduction())
    began, ledgers = time.monotonic(), []
    classes = _classes(options)
    for name in options.faults or classes:
        with tempfile.TemporaryDirectory(
            prefix="memory-mcp-chaos-", dir=options.dir, ignore_cleanup_errors=True
        ) as folder:
            found = classes[name](Path(folder))
        for ledger in found:
            print(f"{ledger.name}: {ledger.attempts} attempts, {len(ledger.failures)} promises broken", flush=True)
        ledgers += found
    _report(ledgers)
    print(f"\n{time.monotonic() - began:.0f} s in all, {load()} at the end")
    if any(ledger.failures for ledger in ledgers):
        raise SystemExit(1)


def _classes(options: argparse.Namespace) -> dict[str, Callable[[Path], list[Ledger]]]:
    scale: float = options.scale

    def scaled(count: int) -> int:
        return max(1, round(count * scale))

    return {
        "kills": partial(kills.run, kills=options.kills),
        "power": partial(power_loss.run, trials=scaled(power_loss.TRIALS)),
        "clocks": partial(clocks.run, jumps=scaled(clocks.JUMPS)),
        "disks": partial(disks.run, rounds=scaled(disks.ROUNDS)),
        "processes": partial(many_processes.run, processes=max(2, scaled(many_processes.PROCESSES))),
        "damage": damage.run,
        "engine": partial(hanging_engine.run, rounds=scaled(hanging_engine.ROUNDS)),
        "upgrades": partial(upgrades.run, step=max(1, round(1 / scale))),
        "histories": partial(histories.run, rounds=scaled(histories.ROUNDS)),
        "postgres": partial(
            postgres_database.run,
            kills=scaled(postgres_database.KILLS),
            restarts=scaled(postgres_database.RESTARTS),
            rounds=scaled(postgres_database.ROUNDS),
        ),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--dir", help="where the data goes")
    parser.add_argument("--scale", type=float, default=1.0, help="how often all but the kills is tried, such as 0.1")
    names = _classes(argparse.Namespace(kills=0, scale=1.0))
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"of {', '.join(names)}; the default is all")
    options = parser.parse_args()
    if unknown := set(options.faults) - names.keys():
        parser.error(f"no fault is called {min(unknown)}")
    return options


def _report(ledgers: list[Ledger]) -> None:
    rows: list[tuple[str, ...]] = [
        ("fault", "attempts", "writes acknowledged", "may have happened", "refused", "promises broken")
    ]
    for one in ledgers:
        counts = (one.attempts, len(one.acknowledged), len(one.unsure), len(one.refused), len(one.failures))
        rows.append((one.name, *(f"{count:,}" for count in counts)))
    print_table("Chaos", rows)
    for ledger in ledgers:
        for failure in ledger.failures[:20]:
            print(f"{ledger.name}: {failure}")


if __name__ == "__main__":
    main()
