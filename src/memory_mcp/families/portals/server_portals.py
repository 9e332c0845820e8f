"""Portals on a ClickHouse server: a database for each, whose comment lists it, so that all servers agree.

What is in a file of a portal's folder on this machine is read from the database there. The folder stays, for locks, for
the counts of use, and for the last step of a write that replaces a table.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, TypeAlias

from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from memory_mcp.engines.chdb.process import EngineRules
from memory_mcp.engines.clickhouse.engine import ServerEngine
from memory_mcp.engines.clickhouse.server import ClickHouseServer
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.folders import Engines, PortalFolder, PortalFolders, remove_folder
from memory_mcp.families.portals.model import Described, Labels, Table
from memory_mcp.families.portals.portal_registry import labels_in

DatabaseLock: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Holds the lock of a database's name, among servers that share no data directory."""


class ServerPortal(PortalFolder):
    """One portal's database, and its folder on this machine."""

    def __init__(self, path: Path, address: Address, database: str, engines: "ServerEngines", user: str) -> None:
        super().__init__(path, address)
        self.database = database
        self.engine = engines.engine(user, database)
        self._catalog = engines.engine(user, None)
        self._engines = engines
        self._user = user

    def exists(self) -> bool:
        return storage.is_listed(self._catalog, self.database)

    def version(self) -> str:
        return storage.data_version(self.engine)

    def written_at(self) -> datetime:
        return datetime.fromtimestamp(storage.changed_at(self.engine), UTC)

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        with self._engines.lock(self.database), super().write_lock():
            if not self.exists():
                self._engines.server.create_database(self.database, self._engines.server.address.tenant(self._user))
            yield

    @contextmanager
    def existing_write_lock(self) -> Iterator[None]:
        if not self.exists():
            raise self.not_found()
        with self.write_lock():
            if not self.exists():  # deleted meanwhile
                raise self.not_found()
            yield

    def remove(self) -> None:
        self._engines.server.drop_database(self.database)
        remove_folder(self.path)

    def describe(self, tables: Sequence[Table]) -> None:
        """Tables are described by the server itself: the portal is listed from now on."""
        self.record_existence()

    def label(self, labels: Labels) -> None:
        """They are in the portal's metadata."""

    def labels(self) -> Labels:
        return labels_in(storage.metadata(self.engine)) if self.exists() else Labels()

    def invalidate_description(self) -> None:
        """There is none that could differ from the tables."""

    def record_existence(self) -> None:
        names = json.dumps({"namespace": self.address.namespace, "portal": self.address.portal})
        storage.list_database(self._catalog, self.database, names)

    def described(self) -> Described | None:
        if not self.exists():
            return None
        return Described(self.address.namespace, self.address.portal, storage.tables(self.engine))


class ServerPortals(PortalFolders):
    """All portals of one user, or of the one namespace that a caller is confined to."""

    def __init__(self, folder: Path, within: str | None, user: str, engines: "ServerEngines") -> None:
        super().__init__(folder, within)
        self._user = user
        self._engines = engines
        self.server = engines.server

    def get(self, address: Address) -> ServerPortal:
        local = super().get(address)
        name = self.server.address.database(self._user, address.namespace, address.portal)
        return ServerPortal(local.path, local.address, name, self._engines, self._user)

    def remove_leftovers(self) -> None:
        """A database is dropped in one step."""

    def all(self) -> list[PortalFolder]:
        engine = self._engines.engine(self._user, None)
        noted = storage.listed_databases(engine, self.server.address.tenant(self._user))
        found = sorted((Address(**json.loads(names)) for names in noted), key=lambda one: (one.namespace, one.portal))
        return [self.get(address) for address in found if self._is_shown(address)]


class ServerEngines(Engines):
    """The engines of portals on one ClickHouse server."""

    read_files: ClassVar[bool] = False
    marks_rows: ClassVar[bool] = False

    def __init__(
        self,
        server: ClickHouseServer,
        limits: dict[str, int],
        rules: EngineRules,
        max_user_memory: int,
        lock: DatabaseLock | None,
    ) -> None:
        self.server = server
        self.lock = lock or nullcontext
        self._limits = limits
        self._rules = rules
        self._max_user_memory = max_user_memory
        self._memory: dict[str, MemoryBudget] = {}  # by user
        self._mutex = threading.Lock()
        self._opened: dict[tuple[str, str | None], ServerEngine] = {}

    def portals(self, folder: Path, user: str, within: str | None) -> PortalFolders:
        return ServerPortals(folder, within, user, self)

    def engine(self, user: str, database: str | None) -> ServerEngine:
        """Without a database it is for statements on the server itself."""
        with self._mutex:
            if (user, database) not in self._opened:
                memory = self._memory.setdefault(user, MemoryBudget(self._max_user_memory))
                tenant = self.server.address.tenant(user)
                self._opened[user, database] = ServerEngine(
                    self.server, database, tenant, self._limits, self._rules, memory
                )
            return self._opened[user, database]

    def get(self, folder: PortalFolder) -> PortalEngine:
        if not isinstance(folder, ServerPortal):
            raise Unavailable("This portal is in files: a server without --portals-url opens it.")
        return folder.engine

    def remove(self, folder: PortalFolder) -> None:
        """Nothing is open for a portal alone."""

    def close(self) -> None:
        self.server.close()
