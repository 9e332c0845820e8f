"""Each user's file with a search index, and the worker that embeds the texts in all of them."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from memory_mcp.engines.transactions import UserDatabase, UserDatabases
from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding import Embedders, EmbeddingWorker, QueryVectors
from memory_mcp.services.search.vector_cache import CacheBudget
from memory_mcp.services.search_index.embedding_queue import EmbeddingQueue
from memory_mcp.services.search_index.model import ReadTexts
from memory_mcp.services.search_index.tables import Tables
from memory_mcp.services.search_index.vector_search import VectorSearch


@dataclass(frozen=True)
class IndexFile:
    """One user's file, opened by this process."""

    db: UserDatabase
    vectors: VectorSearch
    queue: EmbeddingQueue


class IndexFiles:
    def __init__(
        self,
        tenants: UserDatabases,
        embedders: Embedders,
        tables: Tables,
        read_texts: ReadTexts,
        notify: Callable[[str], None] = lambda user: None,
    ) -> None:
        """`notify` is called with the user when the number of waiting texts changes."""
        self.tables = tables
        self.queries = QueryVectors(embedders)
        self.worker = EmbeddingWorker(embedders, lambda: [file.queue for file in self.existing()])
        self._tenants = tenants
        self._read_texts = read_texts
        self._notify = notify
        self._cache_budget = CacheBudget()
        self._lock = threading.Lock()
        self._files: dict[str, IndexFile] = {}

    def of(self, user: str) -> IndexFile:
        """Opened at first use, and created if it is missing."""
        db = self._tenants.database(user)
        with self._lock:
            if user not in self._files:
                queue = EmbeddingQueue(db, self.tables, self._read_texts, partial(self._notify, user))
                self._files[user] = IndexFile(db, VectorSearch(db, self.tables, self._cache_budget), queue)
                self.worker.wake()
            return self._files[user]

    def exists(self, user: str) -> bool:
        """Whether the user has a file. None is created."""
        return self._tenants.exists(user)

    def existing(self) -> list[IndexFile]:
        """The open files that still exist: opening the file of a deleted user would create it again."""
        return [file for user, file in list(self._files.items()) if self._tenants.exists(user)]

    def maintain(self) -> None:
        """Erase deleted vectors from the files of packed vectors, and write those again that are far behind."""
        for file in self.existing():
            with suppress(Unavailable):
                file.vectors.maintain()

    def erase_deleted(self) -> None:
        """Erase deleted vectors from the files of packed vectors."""
        for file in self.existing():
            file.vectors.erase_deleted()

    def recreate(self, user: str) -> None:
        """Delete a user's file, which is a cache; the next use creates an empty one."""
        with self._lock:
            self._files.pop(user, None)
        self._tenants.recreate(user)
