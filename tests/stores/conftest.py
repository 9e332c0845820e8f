from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def options() -> dict[str, Any]:
    """Only the stores' own tools are listed; no test here cuts the power."""
    return {"families": "stores", "durability": "normal"}


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not in the data directory, as a person's own is."""
    return tmp_path_factory.mktemp("elsewhere")
