"""memory-mcp migrate: every file at once, each copied first."""

import json
from pathlib import Path

import apsw
import pytest

from memory_mcp.cli import command_line
from memory_mcp.engines.sqlite import integrity
from memory_mcp.families.vault import schema
from memory_mcp.services.access import server_db
from tests.maintenance.sample_data import LOCAL, fill, opened


def migrated(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    with pytest.raises(SystemExit) as left:
        command_line(["migrate", "--json", "--data-dir", str(data_dir)])
    files = json.loads(capsys.readouterr().out)["files"]
    return int(left.value.code or 0), {one["file"]: one["outcome"] for one in files}


@pytest.fixture
def old(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A data directory whose server.db is some versions behind."""
    with pytest.raises(SystemExit):
        command_line(["add", "something", "--data-dir", str(tmp_path)])
    capsys.readouterr()
    for path in tmp_path.glob("server.db*"):
        path.unlink()
    with apsw.Connection(str(tmp_path / "server.db")) as db:
        for migration in server_db.SCHEMA.migrations[:2]:
            db.execute(migration.sql).fetchall()
        db.pragma("user_version", 2)
        db.pragma("application_id", server_db.SCHEMA.application_id)
    db.close()
    return tmp_path


def test_old_files_are_migrated_once_after_a_copy(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, outcomes = migrated(old, capsys)
    assert (code, outcomes["server.db"], outcomes["notes.db"]) == (0, "migrated", "current")
    assert [path.name.split("-")[:2] for path in (old / "backups").iterdir()] == [["server", "v2"]]
    assert migrated(old, capsys)[1]["server.db"] == "current"


def test_a_newer_file_is_refused_and_the_others_are_migrated(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with apsw.Connection(str(old / "notes.db")) as db:
        db.pragma("user_version", 999)
    db.close()
    code, outcomes = migrated(old, capsys)
    assert (code, outcomes["notes.db"], outcomes["server.db"]) == (1, "refused", "migrated")


def test_a_damaged_file_is_refused_and_the_others_are_migrated(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old / "notes.db").write_bytes(b"no database at all" * 1000)
    code, outcomes = migrated(old, capsys)
    assert (code, outcomes["notes.db"], outcomes["server.db"]) == (1, "refused", "migrated")
    with pytest.raises(SystemExit):
        command_line(["migrate", "--data-dir", str(old)])
    assert "notes.db: notes.db is damaged" in capsys.readouterr().err


def test_reading_a_version_does_not_apply_another_files_wal(tmp_path: Path) -> None:
    path, backup = tmp_path / "memory.db", tmp_path / "backup.db"
    with opened(tmp_path) as app:
        fill(app, LOCAL, "local")
        writing = apsw.Connection(str(path))  # a server that still has the file open
        writing.execute("VACUUM INTO ?", (str(backup),))
        writing.execute("UPDATE vault_memories SET content = 'of the other file'")
        backup.replace(path)  # as a user might do by hand
        assert integrity.is_current(path, schema.SCHEMA, tmp_path / "memory.db.lock")
        assert (tmp_path / "memory.db-wal.orphan").exists()
        writing.close()
