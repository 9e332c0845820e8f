from typing import Any

import pytest


@pytest.fixture
def options() -> dict[str, Any]:
    """Only the stores' own tools are listed; no test here cuts the power."""
    return {"families": "stores", "durability": "normal"}
