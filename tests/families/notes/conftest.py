from typing import Any

import pytest

from tests.postgres import database_url as database_url


@pytest.fixture
def options() -> dict[str, Any]:
    """Only the notes' own resources and tools are listed; no test here cuts the power."""
    return {"families": "notes", "durability": "normal"}
