from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.services.access import server_db
from memory_mcp.services.sessions import live_db
from tests.conftest import Clock
from tests.postgres import shared_database


@pytest.fixture
def db(tmp_path: Path, clock: Clock, chosen_engine_url: str | None) -> Iterator[SharedDatabase]:
    with shared_database(server_db.FILE, tmp_path, chosen_engine_url, clock) as database:
        yield database


@pytest.fixture
def live(tmp_path: Path, chosen_engine_url: str | None) -> Iterator[SharedDatabase]:
    with shared_database(live_db.FILE, tmp_path, chosen_engine_url) as database:
        yield database
