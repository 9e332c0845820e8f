from typing import Any

import pytest

from tests.postgres import database_url as database_url


@pytest.fixture
def options() -> dict[str, Any]:
    """Only the vault's own resources and tools are listed."""
    return {"families": "vault"}
