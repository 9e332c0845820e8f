import multiprocessing
import os
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from memory_mcp.engines.sqlite import Database, connections, database, sibling_files
from memory_mcp.engines.sqlite.connections import BUSY_TIMEOUT_MS, MAX_CACHE_BYTES
from memory_mcp.engines.sqlite.database import MAX_IDLE_READERS
from memory_mcp.engines.sqlite.migrations import Migration, Schema
from memory_mcp.errors import Unavailable

FIRST = Migration(1, "CREATE TABLE numbers (n INTEGER);")
SECOND = Migration(2, "ALTER TABLE numbers ADD COLUMN m INTEGER; INSERT INTO numbers (n) VALUES (2);")


def opened(path: Path, *steps: Migration, kind: int = 7) -> Database:
    return Database(path, Schema(kind, steps or (FIRST,)), backups=path.parent / "backups")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = opened(tmp_path / "deep" / "x.db")
    yield database
    database.close()


def count(db: Database) -> int:
    with db.read() as tx:
        return tx.number("SELECT count(*) FROM numbers")


def test_the_caches_of_all_connections_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, file_bytes, readers = 8 * 1024 * 1024, 6_000_000, 6
    monkeypatch.setattr(connections, "MAX_CACHE_BYTES", limit)
    db = opened(tmp_path / "x.db", Migration(1, "CREATE TABLE blobs (n INTEGER PRIMARY KEY, b BLOB);"))
    with db.write() as tx:
        tx.all("INSERT INTO blobs (b) SELECT randomblob(1000) FROM json_each(:rows)", {"rows": f"[{'0,' * 6000}0]"})
    with ExitStack() as stack:
        stack.callback(apsw.soft_heap_limit, MAX_CACHE_BYTES)
        stack.callback(db.close)
        for reading in [stack.enter_context(db.read()) for _ in range(readers)]:
            assert reading.number("SELECT sum(length(b)) FROM blobs") > file_bytes
        assert apsw.memory_used() < 2 * limit < readers * file_bytes


def test_an_unused_file_gives_its_memory_back_and_stays_open(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db.write() as tx:
        tx.all("INSERT INTO numbers SELECT value FROM json_each(:rows)", {"rows": f"[{'0,' * 300_000}0]"})
    with ExitStack() as stack:
        assert {stack.enter_context(db.read()).number("SELECT sum(n) FROM numbers") for _ in range(4)} == {0}
    used = apsw.memory_used()
    monkeypatch.setattr(database, "MIN_UNUSED_S", float("inf"))
    monkeypatch.setattr(database, "MAX_RARE_USES", 2)
    db.release_unused()
    assert apsw.memory_used() == used  # it was used just now
    monkeypatch.setattr(database, "MIN_UNUSED_S", 0.0)
    with db.read() as reading:
        assert reading.number("SELECT count(*) FROM numbers") == 300_001
        db.release_unused()
        assert reading.number("SELECT count(*) FROM numbers") == 300_001
    assert apsw.memory_used() < used / 2
    assert db.is_open
    with db.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
    assert count(db) == 300_002


def test_a_file_that_only_background_work_uses_gives_its_memory_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MIN_UNUSED_S", float("inf"))
    wal = sibling_files.wal(db.path)
    with db.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
    for _ in range(database.MAX_RARE_USES):
        count(db)
    db.release_unused()
    assert wal.stat().st_size > 0  # clients use it
    for _ in range(database.MAX_RARE_USES):
        count(db)
    db.release_unused()
    assert wal.stat().st_size == 0


def test_the_wal_of_an_unused_file_is_emptied_when_no_call_reads_from_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MIN_UNUSED_S", 0.0)
    wal = sibling_files.wal(db.path)
    with db.write() as tx:
        tx.all("INSERT INTO numbers SELECT value FROM json_each(:rows)", {"rows": f"[{'0,' * 300_000}0]"})
    with db.read() as reading:
        assert reading.number("SELECT count(*) FROM numbers") == 300_001
        with db.write() as tx:
            tx.all("INSERT INTO numbers VALUES (1)")
        db.release_unused()
        assert wal.stat().st_size > 0
        assert reading.number("SELECT count(*) FROM numbers") == 300_001
    db.release_unused()
    assert wal.stat().st_size == 0
    with db.write() as tx:
        tx.all("INSERT INTO numbers VALUES (2)")
    assert count(db) == 300_003
    assert db.path.stat().st_size > 1_000_000


def test_the_wal_of_an_unused_file_is_emptied_once_another_process_has_read_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MIN_UNUSED_S", 0.0)
    with db.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
    other = apsw.Connection(str(db.path), flags=apsw.SQLITE_OPEN_READWRITE)  # as of another process
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM numbers").fetchall() == [(1,)]
    db.release_unused()
    assert sibling_files.wal(db.path).stat().st_size > 0
    assert db._file.writer.pragma("busy_timeout") == BUSY_TIMEOUT_MS  # the next deletion waits for readers
    other.execute("COMMIT")
    db.release_unused()  # and no call in between
    assert sibling_files.wal(db.path).stat().st_size == 0
    other.close()


def test_a_write_is_kept_whole_or_not_at_all(db: Database) -> None:
    with pytest.raises(RuntimeError), db.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
        raise RuntimeError

    assert count(db) == 0
    with db.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
    assert count(db) == 1


def test_a_reader_is_not_blocked_by_a_writer_and_sees_one_moment(db: Database) -> None:
    with db.write() as writing:
        writing.all("INSERT INTO numbers VALUES (1)")
        assert count(db) == 0
    with db.read() as tx:
        before = tx.number("SELECT count(*) FROM numbers")
        with db.write() as writing:
            writing.all("INSERT INTO numbers VALUES (2)")
        assert tx.number("SELECT count(*) FROM numbers") == before


def test_many_readers_at_once_leave_few_copies_of_the_file_in_memory(db: Database) -> None:
    size = 1_000_000
    with db.write() as tx:
        tx.all(
            "WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 80000) "
            "INSERT INTO numbers SELECT n FROM counted"
        )
    before = apsw.memory_used()
    with ExitStack() as reading:
        for _ in range(30):
            assert reading.enter_context(db.read()).number("SELECT count(*) FROM numbers") == 80_000
        assert apsw.memory_used() - before > 15 * size
    assert apsw.memory_used() - before < (MAX_IDLE_READERS + 1) * size


def test_the_pragmas_of_the_graph_spec_are_set(db: Database) -> None:
    with db.read() as tx:
        for pragma, value in {
            "journal_mode": "wal",
            "busy_timeout": 5000,
            "synchronous": 2,
            "foreign_keys": 1,
            "cache_size": -64000,
        }.items():
            assert tx.connection.pragma(pragma) == value


def test_files_belong_to_their_owner_alone(db: Database) -> None:
    assert stat.S_IMODE(db.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(db.path.parent.stat().st_mode) == 0o700


def test_threads_write_one_after_another(db: Database) -> None:
    def add() -> None:
        for number in range(50):
            with db.write() as tx:
                tx.all("INSERT INTO numbers VALUES (:n)", {"n": number})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(db) == 200


def test_a_file_of_a_newer_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    opened(path, FIRST, SECOND).close()
    before = path.read_bytes()

    with pytest.raises(Unavailable, match="newer Memory MCP"):
        opened(path, FIRST)
    assert path.read_bytes() == before


def test_an_older_file_is_migrated_after_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    old = opened(path, FIRST)
    with old.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
    old.close()

    new = opened(path, FIRST, SECOND)
    with new.read() as tx:
        assert tx.all("SELECT n, m FROM numbers") == [(1, None), (2, None)]
    new.close()
    [copy] = (tmp_path / "backups").iterdir()
    assert copy.name.startswith("x-v1-")
    assert apsw.Connection(str(copy)).execute("SELECT * FROM numbers").fetchall() == [(1,)]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    opened(path, FIRST).close()
    with pytest.raises(Unavailable, match="another shape"):
        opened(path, FIRST, Migration(2, "CREATE TABLE fine (x); CREATE TABLE numbers (x);"))

    again = opened(path, FIRST)
    with again.read() as tx:
        assert tx.all("SELECT name FROM sqlite_master") == [("numbers",)]
    again.close()


@pytest.mark.parametrize(
    "content", [b"this is no database, but long enough to look like one" * 20, b"SQLite format 3\0"]
)
def test_a_file_that_is_no_database_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)

    with pytest.raises(Unavailable, match=r"x\.db"):
        opened(path)
    assert path.read_bytes() == content


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "x.db", kind=7).close()
    with pytest.raises(Unavailable, match="another kind"):
        opened(tmp_path / "x.db", kind=8)


def test_a_copy_without_wal_gets_it_back(tmp_path: Path) -> None:
    first = opened(tmp_path / "x.db")
    with first.write() as tx:
        tx.all("INSERT INTO numbers VALUES (1)")
    first.close()
    apsw.Connection(str(tmp_path / "x.db")).execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    copy = opened(tmp_path / "copy.db")
    with copy.read() as tx:
        assert tx.connection.pragma("journal_mode") == "wal"
    copy.close()


def test_a_file_removed_while_open_is_created_again_and_the_next_write_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    one, two = opened(path), opened(path)
    for db in (one, two):
        with db.write() as tx:
            tx.all("INSERT INTO numbers VALUES (1)")
    path.unlink()
    assert count(one) == 0
    with one.write() as tx:
        tx.all("INSERT INTO numbers VALUES (2)")
    two.close()  # it still had the removed file open, and must not take the new one's WAL along
    third = opened(path)
    assert count(third) == 1
    with third.write() as tx:
        tx.all("INSERT INTO numbers VALUES (3)")
    one.close()
    assert count(third) == 2
    third.close()
    assert apsw.Connection(str(path)).execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_reader_of_a_removed_file_takes_nothing_along(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    db = opened(path)
    with db.read() as tx:
        path.unlink()
        with db.write() as writing:
            writing.all("INSERT INTO numbers VALUES (1)")
        assert tx.number("SELECT count(*) FROM numbers") == 0
    assert path.with_name("x.db-wal").exists()
    assert count(db) == 1
    db.close()


def test_a_file_put_in_its_place_is_read(tmp_path: Path) -> None:
    path, other = tmp_path / "x.db", tmp_path / "other.db"
    db, replacement = opened(path), opened(other)
    with replacement.write() as tx:
        tx.all("INSERT INTO numbers VALUES (5)")
    replacement.close()
    other.replace(path)
    assert count(db) == 1
    db.close()


def _write_and_die(path: Path) -> None:
    db = opened(path)
    for number in range(300):
        with db.write() as tx:
            tx.all("INSERT INTO numbers VALUES (:n)", {"n": number})
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_backup_put_in_place_after_a_crash_is_read_as_it_was(tmp_path: Path) -> None:
    path, backup = tmp_path / "x.db", tmp_path / "backup.db"
    first = opened(path)
    with first.write() as tx:
        tx.all("INSERT INTO numbers VALUES (7)")
    first.close()
    apsw.Connection(str(path)).execute("VACUUM INTO ?", (str(backup),))
    worker = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=(path,))
    worker.start()
    worker.join()
    assert path.with_name("x.db-wal").stat().st_size
    backup.replace(path)

    db = opened(path)
    with db.read() as tx:
        assert tx.all("SELECT n FROM numbers") == [(7,)]
        assert tx.all("PRAGMA integrity_check") == [("ok",)]
    assert path.with_name("x.db-wal.orphan").exists()
    db.close()


def test_a_folder_copied_after_a_crash_keeps_the_content_of_the_wal(tmp_path: Path) -> None:
    original = tmp_path / "original"
    worker = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=(original / "x.db",))
    worker.start()
    worker.join()
    shutil.copytree(original, tmp_path / "copy")

    db = opened(tmp_path / "copy" / "x.db")
    assert count(db) == 300
    db.close()


def _open_at_once(
    path: Path, start: "multiprocessing.synchronize.Barrier", results: "multiprocessing.Queue[str]"
) -> None:
    start.wait()
    try:
        opened(path, FIRST, SECOND).close()
        results.put("fine")
    except Exception as exc:  # noqa: BLE001  # whatever it is, the parent must see it
        results.put(repr(exc))


def test_eight_processes_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(8), context.Queue()
    workers = [context.Process(target=_open_at_once, args=(tmp_path / "x.db", start, results)) for _ in range(8)]
    for worker in workers:
        worker.start()
    answers = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()

    assert answers == ["fine"] * 8
    db = opened(tmp_path / "x.db", FIRST, SECOND)
    assert count(db) == 1  # the second migration ran once
    db.close()
