"""What a server does every minute."""

from pathlib import Path

from memory_mcp.app import open_app
from memory_mcp.engines.sqlite import sibling_files
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.server import housekeeping
from memory_mcp.settings import load
from tests.families.notes.calls import CALLER


def test_housekeeping_empties_the_logs_of_files_that_only_it_still_uses(tmp_path: Path) -> None:
    with open_app(load({"data_dir": tmp_path, "embedder": "none"}, environ={}).settings, serving=False) as app:
        app.notes.writer.create_all(CALLER, Author(), [NewNote("A note.")])
        wal = sibling_files.wal(tmp_path / "notes.db")
        assert wal.stat().st_size > 0
        for _ in range(2):
            for chore in housekeeping.chores(app):
                chore()
        assert wal.stat().st_size == 0
