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
    """A key of a new user, so that tests do not affect each other."""
    return hub.key(f"user{next(numbers)}")
