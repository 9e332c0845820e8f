from typing import Any

import pytest

from tests.postgres import ENGINES


@pytest.fixture
def options() -> dict[str, Any]:
    """Only the notes' own resources and tools are listed; no test here cuts the power."""
    return {"families": "notes", "durability": "normal"}


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None
