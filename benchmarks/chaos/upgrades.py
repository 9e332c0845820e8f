"""Data directories of every former version: upgraded at once, and by migrations that are killed on the way."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

from tests import processes
from tests.maintenance import former_data

from benchmarks.chaos.ledger import Ledger, diagnose, environment, stored

MAX_KILLS = 3  # of one migration, before it may end
MAX_DELAY_S = 1.5
SEED = 5


def run(folder: Path, step: int = 1) -> list[Ledger]:
    plain, killed = Ledger("upgrades from every former schema"), Ledger("interrupted migrations (kill -9)")
    chance = random.Random(SEED)
    for name in former_data.names()[::step]:
        data_dir = former_data.unpack(name, folder / f"former-{name}")
        copy = shutil.copytree(data_dir, folder / f"killed-{name}")
        before = stored(data_dir)
        _migrate(plain, data_dir, name)
        for _ in range(MAX_KILLS):
            command = [sys.executable, "-m", "memory_mcp", "migrate", "--data-dir", str(copy)]
            with subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
            ) as one:
                try:
                    one.wait(chance.uniform(0.2, MAX_DELAY_S))
                except subprocess.TimeoutExpired:
                    one.kill()
                    killed.attempts += 1
        _migrate(killed, copy, name, counts=False)
        for ledger, where in ((plain, data_dir), (killed, copy)):
            ledger.acknowledged |= {f"{name}: {text}" for text in before}
            if (after := stored(where)) != before:
                ledger.fail(f"{name}: {before - after} lost, {after - before} added")
            if problems := [one for one in diagnose(where) if one["check"] != "permissions"]:
                ledger.fail(f"{name}: the doctor finds {problems[:2]}")
    return [plain, killed]


def _migrate(ledger: Ledger, data_dir: Path, name: str, *, counts: bool = True) -> None:
    done = processes.run("migrate", "--data-dir", data_dir, env=environment())
    ledger.attempts += counts
    if done.returncode:
        ledger.fail(f"{name}: {done.stderr[-300:]}")
