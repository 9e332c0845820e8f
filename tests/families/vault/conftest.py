from typing import Any

import pytest


@pytest.fixture
def options() -> dict[str, Any]:
    """Only the vault's own resources and tools are listed."""
    return {"families": "vault"}
