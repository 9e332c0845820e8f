from typing import Any

import pytest

from tests.postgres import database_url as database_url


@pytest.fixture
def options() -> dict[str, Any]:
    return {"families": "vault,notes,graph"}
