"""A server in this process, called through its tools, and access to its notes file."""

import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.server.protocol import McpServer
from memory_mcp.services.embedding import model_files, query_vectors, services, worker
from memory_mcp.services.search.vectors import Floats, unpack
from memory_mcp.services.search_index import embedding_queue
from tests.conftest import connected
from tests.services.embedding.shared_model import share_model

share_model()

INSTALLED = model_files.default_folder()
needs_model = pytest.mark.skipif(
    not model_files.are_installed(INSTALLED), reason="the built-in model is not installed: memory-mcp models pull"
)

TOGETHER = """
SELECT count(*) FROM note_vectors LEFT JOIN embedding_space
WHERE dimensions IS NULL OR length(vector) != 4 * dimensions
"""


def shorten_timeouts(patch: pytest.MonkeyPatch) -> None:
    """Make all timeouts and intervals of a server short."""
    shorter = {
        worker: {
            "MAX_WAIT_S": 0.2,
            "POLL_INTERVAL_S": 0.1,
            "BUSY_POLL_INTERVAL_S": 0.1,
            "START_DELAY_S": 0.01,
            "MIN_BACKOFF_S": 0.02,
            "MAX_BACKOFF_S": 0.1,
            "STOP_TIMEOUT_S": 0.2,
        },
        services: {"CONNECT_TIMEOUT_S": 5.0, "BATCH_TIMEOUT_S": 10.0, "QUERY_TIMEOUT_S": 10.0, "PROBE_TIMEOUT_S": 5.0},
        query_vectors: {"RETRY_DELAY_S": 0.0},
        embedding_queue: {"MAX_BACKOFF_S": 0.1},
    }
    for module, constants in shorter.items():
        for name, seconds in constants.items():
            assert hasattr(module, name)
            patch.setattr(module, name, seconds)


def install_model(folder: Path) -> None:
    """Install the model as `memory-mcp models pull` does. Unlink a file before writing to it: it may be a hard link."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (model_files.TOKENIZER_FILE, model_files.MODEL_FILE):
        (folder / name).unlink(missing_ok=True)
        try:
            os.link(INSTALLED / name, folder / name)
        except OSError:  # another disk
            shutil.copyfile(INSTALLED / name, folder / name)


@dataclass(frozen=True)
class Server:
    """A server and its only client."""

    app: App
    portal: BlockingPortal
    client: Client

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that must succeed."""
        result = self.portal.call(partial(self.client.call_tool, tool, arguments))
        assert not result.is_error, result
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
        return cast(dict[str, Any], result.structured_content)

    def tools(self) -> set[str]:
        return {tool.name for tool in self.portal.call(self.client.list_tools).tools}

    def create(self, content: str, **more: Any) -> str:
        return str(self.call("memory_create", content=content, **more)["id"])

    def search(self, query: str, mode: str = "hybrid", **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("memory_search", query=query, search_mode=mode, **more)["memories"]
        return found


@contextmanager
def server(data_dir: Path, environ: Mapping[str, str] | None = None, **options: Any) -> Iterator[Server]:
    given = {"data_dir": data_dir, "families": "notes", **options}
    loaded = settings.load(given, environ=environ or {})
    with open_app(loaded.settings) as app, start_blocking_portal() as portal, ExitStack() as leaving:
        connection = portal.wrap_async_context_manager(_client(app))
        client = connection.__enter__()
        leaving.callback(connection.__exit__, None, None, None)  # keeps errors out of exception groups
        yield Server(app, portal, client)


@asynccontextmanager
async def _client(app: App) -> AsyncIterator[Client]:
    mcp_server = McpServer(app)
    mcp_server.start_notifications()
    async with connected(mcp_server) as client:
        yield client


@dataclass(frozen=True)
class NotesFile:
    """The file as another program sees it."""

    data_dir: Path

    def rows(self, sql: str, *values: Any) -> list[Any]:
        with closing(apsw.Connection(str(self.data_dir / "notes.db"))) as connection:
            connection.set_busy_timeout(5000)
            return connection.execute(sql, values).fetchall()

    def waiting(self) -> int:
        return int(self.rows("SELECT count(*) FROM embed_queue")[0][0])

    def is_done(self) -> bool:
        """Whether every live note has its vector."""
        missing = """
        SELECT (SELECT count(*) FROM embed_queue) +
            (SELECT count(*) FROM notes WHERE archived = 0 AND seq NOT IN (SELECT note_seq FROM note_vectors))
        """
        return bool(self.rows(missing) == [(0,)])

    def space(self) -> str | None:
        rows = self.rows("SELECT name FROM embedding_space")
        return str(rows[0][0]) if rows else None

    def is_mixed(self) -> bool:
        """Whether any vector is not of the recorded space."""
        return bool(self.rows(TOGETHER) != [(0,)])

    def vectors(self, id_: str) -> dict[int, Floats]:
        """A note's vectors by part; -1 is the note with the one before it."""
        rows = self.rows("SELECT part, vector FROM note_vectors JOIN notes ON seq = note_seq WHERE id = ?", id_)
        return {part: unpack(vector) for part, vector in rows}

    def last_errors(self) -> list[str]:
        return [reason for (reason,) in self.rows("SELECT last_error FROM embed_queue WHERE last_error IS NOT NULL")]
