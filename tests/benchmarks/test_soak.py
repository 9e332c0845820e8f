"""The goals of `make soak` for the disk, and how it measures them. The benchmark itself runs the servers."""

from collections import Counter
from pathlib import Path

import apsw
import pytest
from benchmarks.soak import disk, report
from benchmarks.soak.disk import AtRest, DiskAtRest

MB = 1_000_000
NEW = AtRest({"notes.db": 20 * MB, "stores/": 10 * MB}, history=5 * MB)


def after_run(history: int = 10 * MB, **more: int) -> DiskAtRest:
    """As of a data directory whose history is longer than that of a new one, with `more` files."""
    run = AtRest({"notes.db": 25 * MB, "stores/": 10 * MB, **more}, history)
    return DiskAtRest(run, NEW, writes=50_000)


def is_met(measured: DiskAtRest) -> bool:
    return report._print_disk(measured)


def test_a_longer_history_is_no_leak(capsys: pytest.CaptureFixture[str]) -> None:
    assert is_met(after_run())
    assert "a write took 0.70 kB; 0.20 of them are history" in capsys.readouterr().out


@pytest.mark.parametrize("bytes_per_write", [100, 3000])
def test_bytes_that_each_write_leaks_miss_the_goal(bytes_per_write: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_met(after_run(leaked=50_000 * bytes_per_write))
    assert "leaked" in capsys.readouterr().out


def test_rows_that_stay_in_a_database_miss_the_goal() -> None:
    run = AtRest({**after_run().after_run.kinds, "notes.db": 30 * MB}, history=10 * MB)
    assert not is_met(DiskAtRest(run, NEW, writes=50_000))


def test_a_history_that_grows_too_fast_misses_the_goal() -> None:
    assert not is_met(after_run(history=31 * MB, **{"notes.db": 46 * MB}))


def test_files_count_by_their_names_and_folders_for_all_users_together(tmp_path: Path) -> None:
    for name in ("notes.db", "notes.db-wal", "users/u1/notes.db", "users/u1/stores/soak/c1/1.md", "stores/soak/2.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 8192)
    found = disk.kinds(tmp_path)
    assert found.keys() == {"notes.db", "notes.db-wal", "stores/"}
    assert found["notes.db"] == found["stores/"] == 2 * found["notes.db-wal"] > 0


def test_history_is_the_tables_that_no_export_has(tmp_path: Path) -> None:
    tables = Counter(memories=100, vault_writes=50, note_versions=25)
    for name in ("memory.db", "users/u1/memory.db", "portals/a/b/data.db"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = apsw.Connection(str(path))
        for table, rows in tables.items():
            connection.execute(f"CREATE TABLE {table} (text TEXT); CREATE INDEX of_{table} ON {table} (text)")
            connection.executemany(f"INSERT INTO {table} VALUES (?)", [(f"{row:0>4000}",) for row in range(rows)])
        connection.close()
    history = disk.history_bytes(tmp_path)
    assert 75 * 4000 * 2 * 2 < history < 1.2 * 75 * 4096 * 2 * 2
