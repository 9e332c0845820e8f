from collections.abc import Iterator

import pytest

from tests.services.embedding.fake_service import FakeService, running_service
from tests.services.embedding.servers import shorten_timeouts


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def service() -> Iterator[FakeService]:
    with running_service() as service:
        yield service


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_timeouts(monkeypatch)
