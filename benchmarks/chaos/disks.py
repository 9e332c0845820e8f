"""A disk that becomes full under a server, or read-only, and later is as before."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from benchmarks.chaos.connections import ERAS, StdioClient, engine_pid, kill, prepare, stdio_client
from benchmarks.chaos.ledger import FAMILIES, Ledger
from benchmarks.chaos.private_disk import module, protect, unprotect

ROUNDS = 6
SIZE_MB = 96
WRITES = 5  # of each family while the disk is full
BLOCK_BYTES = 4096
READS = (
    ("search_memories", {"query": "before", "scope": "vault"}),
    ("memory_search", {"query": "before", "namespace": "chaos"}),
    ("list_memories", {"store": "chaos", "category": "kept"}),
    ("search_nodes", {"project": "chaos", "query": "before"}),
)


def run(folder: Path, rounds: int = ROUNDS) -> list[Ledger]:
    return [_fill(folder, rounds), _protect(folder, rounds)]


def _fill(folder: Path, rounds: int) -> Ledger:
    ledger = Ledger("a disk that is full, and later has free space")
    for number in range(rounds):
        data_dir, copy, one = folder / f"full-{number}", folder / f"copy-{number}", Ledger(ledger.name)
        with stdio_client(data_dir, ERAS[number % 2], shared=False, module=module(SIZE_MB, data_dir)) as client:
            prepare(client)
            _write(one, client, f"f{number}-before")
            disk = Path(f"/proc/{os.getpid()}/fd/{os.open(f'/proc/{client.pid}/root{data_dir}', os.O_RDONLY)}")
            _fill_up(disk / "ballast")
            for attempt in range(WRITES):
                for family in FAMILIES:
                    one.write(client, family, f"f{number}-{family}-full-{attempt}")
            _read(one, client, "a full disk")
            (disk / "ballast").unlink()
            _write(one, client, f"f{number}-after")
            client.kill()
            if engine := engine_pid(disk):
                kill(engine)
        shutil.copytree(disk, copy, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        os.close(int(disk.name))
        one.check(copy)
        ledger.attempts += 1
        ledger.merge(one)
    return ledger


def _fill_up(ballast: Path) -> None:
    """Down to the last block."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * BLOCK_BYTES)


def _protect(folder: Path, rounds: int) -> Ledger:
    """What was written before can be read, what cannot be written is refused, and all is well when it can be again."""
    ledger = Ledger("a data directory that becomes read-only, and writable again")
    for number in range(rounds):
        data_dir, one, era = folder / f"protected-{number}", Ledger(ledger.name), ERAS[number % 2]
        with stdio_client(data_dir, era, shared=False, module=module(None, data_dir)) as client:
            prepare(client)
            _write(one, client, f"r{number}-before")
            protect(client.pid, data_dir)
            for family in FAMILIES:
                one.write(client, family, f"r{number}-{family}-protected")
            _read(one, client, "a folder that is read-only")
            unprotect(client.pid, data_dir)
            _write(one, client, f"r{number}-after")
        if f"r{number}-stores-protected" not in one.refused:
            one.fail("a file was stored in a folder that is read-only")
        one.check(data_dir)
        ledger.attempts += 1
        ledger.merge(one)
    return ledger


def _write(ledger: Ledger, client: StdioClient, mark: str) -> None:
    for family in FAMILIES:
        if not ledger.write(client, family, f"{mark}-{family}"):
            ledger.fail(f"{family} refused {mark}, though the disk has free space")


def _read(ledger: Ledger, client: StdioClient, where: str) -> None:
    for tool, arguments in READS:
        if "before" not in (answer := ledger.read(client, tool, arguments)):
            ledger.fail(f"{tool} does not find what was stored before, on {where}: {answer[:300]}")
