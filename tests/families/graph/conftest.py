from typing import Any

import pytest


@pytest.fixture
def options() -> dict[str, Any]:
    return {"families": "graph"}
