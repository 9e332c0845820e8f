"""A damaged page in each kind of database file, and markdown files that an editor has written half."""

import random
import shutil
from pathlib import Path

import apsw
from tests import processes

from benchmarks.chaos.connections import ERAS, prepare, stdio_client
from benchmarks.chaos.ledger import FAMILIES, Ledger, diagnose, environment

OWNERS = {"memory.db": "vault", "notes.db": "notes", "_meta.db": "graph", "projects/*.db": "graph"}
CACHES = ("stores.db", "recall.db", "live.db")
FILES = (*OWNERS, *CACHES, "server.db")
SEED = 4
HALVES = ("---\ntags: [a, b", "---\n", "", "---\ntags: [a]\n---\nhalf a sent", "\ufeff---\n---")
COMPLETE = "---\ntags: [a]\n---\nThe whole sentence about quartz.\n"


def run(folder: Path) -> list[Ledger]:
    return [_damage_pages(folder), _write_halves(folder)]


def _damage_pages(folder: Path) -> Ledger:
    """The doctor names the file, other families go on, and a backup brings back what was acknowledged."""
    ledger, chance, whole = Ledger("a damaged page in each kind of file"), random.Random(SEED), folder / "whole"
    with stdio_client(whole, shared=False) as client:
        prepare(client)
        for family in FAMILIES:
            for number in range(20):
                ledger.write(client, family, f"d-{family}-{number}")
        client("recall_memories", {"query": "d"})
    backup = folder / "backup.zip"
    processes.run("backup", backup, "--data-dir", whole, env=environment())
    for number, pattern in enumerate(FILES):
        data_dir = folder / f"damaged-{number}"
        shutil.copytree(whole, data_dir, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        path = next(data_dir.glob(pattern))
        _overwrite_pages(path, chance)
        _check_damage(ledger, data_dir, path, pattern)
        if pattern not in CACHES:
            done = processes.run("restore", backup, "--data-dir", data_dir, env=environment())
            if done.returncode:
                ledger.fail(f"the backup cannot be restored over a damaged {path.name}: {done.stderr[:300]}")
        Ledger(ledger.name, acknowledged=ledger.acknowledged, failures=ledger.failures).check(data_dir)
        ledger.attempts += 1
    return ledger


def _overwrite_pages(path: Path, chance: random.Random) -> None:
    """The first page of every table and index, except the schema's."""
    connection = apsw.Connection(str(path))
    connection.pragma("wal_checkpoint", "TRUNCATE")
    size = connection.pragma("page_size")
    roots = [page for (page,) in connection.execute("SELECT rootpage FROM sqlite_schema WHERE rootpage > 1")]
    connection.close()
    with path.open("r+b") as file:
        for page in roots:
            file.seek((page - 1) * size)
            file.write(chance.randbytes(size))


def _check_damage(ledger: Ledger, data_dir: Path, path: Path, pattern: str) -> None:
    if path.name not in str(diagnose(data_dir)):
        ledger.fail(f"the doctor does not name {path.name}, which is damaged")
    if pattern == "server.db":  # users and keys: no server starts without them
        return
    with stdio_client(data_dir, ERAS[ledger.attempts % 2], shared=False) as client:
        for family in FAMILIES:
            text = f"after-{pattern.replace('/', '-').replace('*', 'x')}-{family}"
            if not Ledger("", failures=ledger.failures).write(client, family, text) and OWNERS.get(pattern) != family:
                ledger.fail(f"{family} refuses writes while {path.name} is damaged")


def _write_halves(folder: Path) -> Ledger:
    """While a file is half written the store's other memories are there; once it is complete, it is found."""
    ledger, data_dir = Ledger("a markdown file that is half written"), folder / "halves"
    with stdio_client(data_dir, shared=False) as client:
        prepare(client)
        ledger.write(client, "stores", "h-other")
        path = data_dir / "stores" / "chaos" / "kept" / "draft.md"
        for half in (*HALVES, COMPLETE[:-9], b"---\ntags: [\xc3".decode("latin-1")):
            path.write_bytes(half.encode("latin-1", "replace") if "Ã" in half else half.encode())
            listed = ledger.read(client, "list_memories", {"store": "chaos", "category": "kept"})
            if "h-other" not in listed:
                ledger.fail(f"a list without the other memories, next to {half!r}")
            ledger.read(client, "get_memory", {"store": "chaos", "path": "kept/draft"})
            ledger.read(client, "reindex_store", {"store": "chaos"})
            if "h-other" not in ledger.read(client, "get_memory", {"store": "chaos", "path": "kept/h-other"}):
                ledger.fail(f"another memory cannot be read next to {half!r}")
            ledger.attempts += 1
        path.write_text(COMPLETE, encoding="utf-8")
        if "quartz" not in ledger.read(client, "recall_memories", {"query": "quartz"}):
            ledger.fail("the complete file is not found")
    ledger.check(data_dir)
    return ledger
