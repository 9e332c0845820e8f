from collections.abc import Iterator
from typing import Any

import pytest

from memory_mcp.families.recall import operations


@pytest.fixture(scope="package", autouse=True)
def engines_that_leave_soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORY_MCP_PORTAL_ENGINE_IDLE", "10")
        yield


@pytest.fixture
def options() -> dict[str, Any]:
    """No test here cuts the power."""
    return {"durability": "normal"}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no bug. What is about time sets its own."""
    monkeypatch.setattr(operations, "SEARCH_TIMEOUT_S", 60.0)
    monkeypatch.setattr(operations, "INDEX_TIMEOUT_S", 50.0)


@pytest.fixture
def era() -> str:
    """What recall answers does not depend on the protocol."""
    return "2026-07-28"
