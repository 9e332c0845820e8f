from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app
from tests.clickhouse import CHOSEN_URL, clickhouse_over_chdb


@pytest.fixture(scope="package", autouse=True)
def engines_that_leave_soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORY_MCP_PORTAL_ENGINE_IDLE", "10")
        yield


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals"}


@pytest.fixture(scope="module")
def portals_url() -> Iterator[str | None]:
    """Where portals are if not in files: on the server of MEMORY_MCP_TEST_PORTALS_URL, or on one over chDB if that is
    `fixture`. Each module has names of its own there."""
    with clickhouse_over_chdb() if CHOSEN_URL == "fixture" else nullcontext(CHOSEN_URL) as url:
        yield url and f"{url}/t_{uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def app(data_dir: Path, options: dict[str, Any], portals_url: str | None) -> Iterator[App]:
    """One for all tests of a module: an engine takes a second to start. Its queries may take long, as they do on a busy
    machine."""
    chosen = {"data_dir": data_dir, "embedder": "none", "portal_seconds": 60, "portals_url": portals_url, **options}
    loaded = settings.load(chosen, environ={})
    with open_app(loaded.settings) as opened:
        yield opened


@pytest.fixture
def table() -> str:
    """A table of a test's own."""
    return f"t_{uuid4().hex[:8]}"
