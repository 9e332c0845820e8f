"""The doctor finds problems, makes the safe repairs, and only reports the rest."""

import os
import shutil
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memory_mcp.families.maintenance import Finding
from memory_mcp.families.notes.model import NoteQuery
from memory_mcp.families.stores.model import Metadata
from memory_mcp.families.write_review import ReviewQuery
from memory_mcp.maintenance import Restore
from tests.maintenance.sample_data import LOCAL, PORTAL, answer, furnish, maintenance_of, opened, run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("model") / "data"
    furnish(data_dir)
    return data_dir


@pytest.fixture
def data_dir(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "data")


def check_data_dir(data_dir: Path, *, repair: bool = False) -> list[Finding]:
    with maintenance_of(data_dir) as maintenance:
        return list(maintenance.doctor.check(repair=repair).findings)


def sql(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("foreign_keys", "off")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def project(data_dir: Path) -> Path:
    return next((data_dir / "projects").glob("*.db"))


def stale_socket(data_dir: Path) -> None:
    (data_dir / "servers").mkdir(exist_ok=True)
    here = Path.cwd()
    os.chdir(data_dir / "servers")  # names of sockets are short
    try:
        left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        left.bind("old.sock")
        left.close()
    finally:
        os.chdir(here)


def stale_lock(data_dir: Path) -> None:
    (data_dir / "servers").mkdir(exist_ok=True)
    (data_dir / "servers" / "0123.lock").touch()


def old_lock(data_dir: Path) -> None:
    path = data_dir / "locks" / "00000000-0000-4000-8000-000000000000.lock"
    path.touch()
    os.utime(path, (0, 0))


def abandoned_restore(data_dir: Path) -> None:
    (data_dir / ".restoring-0123" / "stores").mkdir(parents=True)


def damaged_cache(data_dir: Path) -> None:
    for ending in ("-wal", "-shm"):
        (data_dir / f"stores.db{ending}").unlink(missing_ok=True)
    (data_dir / "stores.db").write_bytes(b"no database" * 999)


def damaged_packed_vectors(data_dir: Path) -> None:
    (data_dir / "notes.db-vectors").write_bytes(b"no vectors" * 999)
    (data_dir / "notes.db-vectors").chmod(0o600)


def packed_vectors_of_nothing(data_dir: Path) -> None:
    (data_dir / "gone.db-vectors").touch(mode=0o600)


REPAIRED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the words of the vault are gone": ("index", lambda d: sql(d / "memory.db", "DELETE FROM vault_words")),
    "the vault's index holds other texts": (
        "index",
        lambda d: sql(d / "memory.db", "INSERT INTO vault_fts (rowid, key, content, tags) VALUES (99, 'a', 'b', 'c')"),
    ),
    "the vault's index is broken": (
        "index",
        lambda d: sql(d / "memory.db", "UPDATE vault_fts_data SET block = x'00' WHERE id > 10"),
    ),
    "the words of notes are broken": (
        "index",
        lambda d: sql(d / "notes.db", "UPDATE notes_words_data SET block = x'ff00ff' WHERE id > 10"),
    ),
    "the words of notes are gone": ("index", lambda d: sql(d / "notes.db", "DELETE FROM notes_words")),
    "the words of a graph are gone": ("index", lambda d: sql(project(d), "DELETE FROM indexed")),
    "the words of a graph are broken": (
        "index",
        lambda d: sql(project(d), "UPDATE graph_words_data SET block = x'ff' WHERE id > 10"),
    ),
    "everybody may read the notes": ("permissions", lambda d: (d / "notes.db").chmod(0o644)),
    "everybody may enter": ("permissions", lambda d: d.chmod(0o755)),
    "a stopped server's lock": ("lock", stale_lock),
    "a stopped server's socket": ("lock", stale_socket),
    "a gone project's lock": (
        "lock",
        old_lock,
    ),
    "a restore that was killed": ("leftover", abandoned_restore),
    "a damaged cache": ("cache", damaged_cache),
    "damaged packed vectors": ("cache", damaged_packed_vectors),
    "packed vectors without a database": ("cache", packed_vectors_of_nothing),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_safe_repairs_are_found_and_made(data_dir: Path, name: str) -> None:
    check, break_it = REPAIRED[name]
    assert check_data_dir(data_dir) == []
    break_it(data_dir)
    found = check_data_dir(data_dir)
    assert {(one.check, one.state, one.repairable) for one in found} == {(check, "problem", True)}
    assert {one.state for one in check_data_dir(data_dir, repair=True)} == {"repaired"}
    assert check_data_dir(data_dir) == []
    with opened(data_dir) as app:
        assert app.vault.has(LOCAL, "k")
        assert len(list(app.notes.transfer.everything(LOCAL))) == 3


def test_texts_are_found_after_an_index_is_rebuilt(data_dir: Path) -> None:
    sql(data_dir / "memory.db", "DELETE FROM vault_words", "UPDATE vault_fts_data SET block = x'00' WHERE id > 10")
    sql(data_dir / "notes.db", "UPDATE notes_words_data SET block = x'ff00ff' WHERE id > 10")
    sql(project(data_dir), "UPDATE graph_words_data SET block = x'ff' WHERE id > 10")
    check_data_dir(data_dir, repair=True)
    with opened(data_dir) as app:
        assert [hit.title for hit in app.notes.reader.search(LOCAL, NoteQuery("body")).memories] == ["Two"]
    for file, index, word in (("memory.db", "vault_fts", "content"), ("memory.db", "vault_words", "content")):
        connection = apsw.Connection(str(data_dir / file))
        assert connection.execute(f"SELECT count(*) FROM {index} WHERE {index} MATCH ?", (word,)).fetchall() == [(1,)]
        connection.close()
    connection = apsw.Connection(str(project(data_dir)))
    assert connection.execute("SELECT count(*) FROM graph_words WHERE graph_words MATCH 'said'").fetchall() == [(1,)]
    connection.close()


@pytest.mark.parametrize("place", ["stores/ours/a/.0123.memory-mcp-part", "projects/x.db.part"])
def test_an_unfinished_file_is_deleted_when_it_is_old(
    data_dir: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / place).write_text("half")
    (data_dir / place).chmod(0o600)
    assert check_data_dir(data_dir) == []
    later = time.time() + 3600
    monkeypatch.setattr("memory_mcp.maintenance.doctor.time.time", lambda: later)
    assert [one.place for one in check_data_dir(data_dir)] == [place]
    assert [one.state for one in check_data_dir(data_dir, repair=True)] == ["repaired"]
    assert not (data_dir / place).exists()


def damaged_pages(data_dir: Path) -> None:
    path = data_dir / "notes.db"
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    path.write_bytes(data)


REPORTED: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "damaged pages": ("database", "notes.db", damaged_pages),
    "no database": ("database", "notes.db", lambda d: (d / "notes.db").write_bytes(b"x" * 9999)),
    "newer": ("database", "notes.db", lambda d: sql(d / "notes.db", "PRAGMA user_version = 99")),
    "another kind": (
        "database",
        "notes.db",
        lambda d: shutil.copyfile(d / "memory.db", d / "notes.db"),
    ),
    "a reference to nothing": (
        "database",
        "notes.db",
        lambda d: sql(d / "notes.db", "INSERT INTO note_links VALUES (77, 78, 'link', 'now')"),
    ),
    "a lost project": ("project", "_meta.db", lambda d: project(d).unlink()),
    "a folder that is gone": (
        "store",
        "stores.yaml",
        lambda d: (d / "stores.yaml").write_text("away: /nowhere/at/all\n"),
    ),
    "a record that sync set aside": (
        "sync",
        "notes.db",
        lambda d: sql(d / "notes.db", "INSERT INTO sync_set_aside VALUES ('77', 'team', 'it has no title', 'now')"),
    ),
    "a note that the hub refuses": (
        "sync",
        "notes.db",
        lambda d: sql(
            d / "notes.db",
            "INSERT INTO sync_namespaces (namespace, enabled, enabled_at) VALUES ('default', 1, 'now')",
            "INSERT INTO sync_outbox (note_id, refused) SELECT id, 'it is too large' FROM notes LIMIT 1",
        ),
    ),
    "no list of stores": ("store", "stores.yaml", lambda d: (d / "stores.yaml").write_text("[1, 2]\n")),
}


@pytest.mark.parametrize("name", REPORTED)
def test_unsafe_repairs_are_only_reported(data_dir: Path, name: str) -> None:
    check, place, break_it = REPORTED[name]
    for ending in ("-wal", "-shm"):
        (data_dir / f"notes.db{ending}").unlink(missing_ok=True)
    break_it(data_dir)
    before = (data_dir / place).read_bytes()
    found = check_data_dir(data_dir, repair=True)
    assert {(one.check, one.place, one.state) for one in found if one.state == "problem"} == {(check, place, "problem")}
    assert (data_dir / place).read_bytes() == before


def test_the_command_line_prints_findings_and_repairs(data_dir: Path) -> None:
    (data_dir / "notes.db").chmod(0o644)
    (data_dir / "config.toml").write_text("nonsense = 1\n")
    found = answer("doctor", "--data-dir", data_dir, code=1)
    assert [(one["check"], one["state"]) for one in found["findings"]] == [
        ("settings", "problem"),
        ("permissions", "problem"),
    ]
    assert found["well"] is False
    (data_dir / "config.toml").unlink()
    done = run("doctor", "--repair", "--data-dir", data_dir)
    assert done.returncode == 0
    assert "repaired permissions: notes.db: other users of this machine may access it (-rw-r--r--)" in done.stdout
    assert "All problems are repaired." in done.stdout
    assert stat.S_IMODE((data_dir / "notes.db").stat().st_mode) == 0o600


def test_portals_are_opened_and_checked(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        app.portals.write(LOCAL, PORTAL, "t", [{"id": n, "text": f"row {n}"} for n in range(1000)])
    assert check_data_dir(tmp_path) == []
    folder = tmp_path / "portals" / "tests" / "kept"
    (folder / "portal.json").write_text('{"tables": []}')
    assert [(one.check, one.repairable) for one in check_data_dir(tmp_path)] == [("portal", True)]
    assert [one.state for one in check_data_dir(tmp_path, repair=True)] == ["repaired"]
    assert check_data_dir(tmp_path) == []
    with maintenance_of(tmp_path) as maintenance:
        assert isinstance(maintenance.restore, Restore)
        maintenance.restore._stop_engines()
    for path in folder.glob("db/store/*/*/*/data.packed"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    assert {(one.check, one.state, one.repairable) for one in check_data_dir(tmp_path, repair=True)} == {
        ("portal", "problem", False)
    }


def leave_no_tables(path: Path) -> None:
    """As SQLite leaves a new file whose WAL is lost."""
    sql(path, "PRAGMA journal_mode = wal")


@pytest.mark.parametrize(
    "leave",
    [lambda path: path.touch(), lambda path: path.write_bytes(bytes(8192)), leave_no_tables],
    ids=["no bytes", "zeros", "no tables"],
)
@pytest.mark.parametrize("name", ["store_writes.db", "portal_writes.db"])
def test_a_journal_that_a_power_cut_left_empty_is_named_and_created_again(
    data_dir: Path, name: str, leave: Callable[[Path], object]
) -> None:
    for path in data_dir.glob(f"{name}*"):
        path.unlink()
    leave(data_dir / name)
    (data_dir / name).chmod(0o600)
    before = [(one.check, one.place, one.state, one.repairable) for one in check_data_dir(data_dir)]
    assert ("journal", name, "problem", True) in before
    assert {(one.check, one.state) for one in check_data_dir(data_dir, repair=True) if one.place == name} == {
        ("journal", "repaired")
    }
    assert [one for one in check_data_dir(data_dir) if one.place == name] == []
    with opened(data_dir) as app:
        app.portals.write(LOCAL, PORTAL, "again", [{"text": "after the power cut"}])
        app.stores.add(LOCAL, "kept", "after", "the power cut", Metadata(None, None, [], None, None, []))
        found = app.write_review.writes(LOCAL, ReviewQuery(families=frozenset({"portals", "stores"})), 2)
    assert {one.family for one in found.writes} == {"portals", "stores"}
    assert found.incomplete == {}


def test_a_damaged_journal_comes_back_from_a_backup_alone(data_dir: Path) -> None:
    shutil.copyfile(__file__, data_dir / "portal_writes.db")
    (data_dir / "portal_writes.db").chmod(0o600)
    (found,) = (one for one in check_data_dir(data_dir, repair=True) if one.place == "portal_writes.db")
    assert (found.check, found.state) == ("database", "problem")
