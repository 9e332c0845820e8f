from collections.abc import Iterator
from itertools import count

import pytest

from tests.sync.processes import Hub, running_hub

numbers = count()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture
def key(hub: Hub) -> str:
    """Of a user of its own, so that no test is in another's way."""
    return hub.key(f"user{next(numbers)}")
