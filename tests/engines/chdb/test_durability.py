"""Rows are on the disk, not only in the memory of the system, before the files that held them are deleted."""

from pathlib import Path

from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.model import NewColumn


def synced_files(engine: EngineConnections) -> int:
    (row,) = engine.rows("SELECT toInt32(value) AS files FROM system.events WHERE event = 'FileSync'")
    return int(row["files"])


def test_merged_rows_are_synced(tmp_path: Path) -> None:
    engine = EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    storage.create_table(engine, "t", [NewColumn("id", "Int64")])
    engine.run("SYSTEM STOP MERGES t")
    for number in range(2):
        storage.insert(engine, "t", [{"id": number}])
    before = synced_files(engine)
    engine.run("SYSTEM START MERGES t")
    engine.run("OPTIMIZE TABLE t FINAL")
    (part,) = engine.rows("SELECT rows, path FROM system.parts WHERE database = 'portal' AND table = 't' AND active")
    assert int(part["rows"]) == 2
    assert synced_files(engine) - before >= len(list(Path(part["path"]).iterdir()))
    engine.end_engine()


def test_a_small_write_waits_for_one_file(tmp_path: Path) -> None:
    engine = EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    storage.create_table(engine, "t", [NewColumn("id", "Int64"), NewColumn("text", "String")])
    engine.run("SYSTEM STOP MERGES t")
    before = synced_files(engine)
    storage.insert(engine, "t", [{"id": 1, "text": "one"}])
    synced = synced_files(engine) - before
    (part,) = engine.rows("SELECT path FROM system.parts WHERE database = 'portal' AND table = 't' AND active")
    assert [path.name for path in Path(part["path"]).iterdir()] == ["data.packed"]
    assert 1 <= synced <= 2  # the file; the engine may count it a second time after it has its last name
    engine.end_engine()
