from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.access import server_db
from memory_mcp.engines.sqlite import Database
from memory_mcp.sessions import live_db
from tests.conftest import Clock


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[Database]:
    database = Database(tmp_path / "server.db", server_db.SCHEMA, backups=tmp_path, clock=clock)
    yield database
    database.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "live.db", live_db.SCHEMA, backups=tmp_path)
    yield database
    database.close()
