from collections.abc import Iterator
from itertools import count

import pytest

from tests.postgres import ENGINES
from tests.services.sync.processes import Hub, running_hub

numbers = count()


@pytest.fixture(scope="module", params=ENGINES)
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    url = str(request.getfixturevalue("postgres_server")) if request.param == "postgres" else None
    with running_hub(tmp_path_factory.mktemp("hub"), database_url=url) as running:
        yield running


@pytest.fixture
def key(hub: Hub) -> str:
    """A key of a new user, so that tests do not affect each other."""
    return hub.key(f"user{next(numbers)}")
