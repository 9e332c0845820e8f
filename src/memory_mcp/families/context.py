"""The parts of the server that a family needs to open itself."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from memory_mcp.changes import Changes
from memory_mcp.clock import Clock
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.database import Missing
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import PartedDatabases, UserDatabases
from memory_mcp.errors import Unavailable
from memory_mcp.families.family import OpenFamily
from memory_mcp.services.access import Tenants, folder_of
from memory_mcp.services.embedding import Embedders
from memory_mcp.services.sessions import Sessions
from memory_mcp.settings import Settings
from memory_mcp.text.time_spans import TimeReader

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.cells import Cells
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.engines.postgres.tenants import PostgresTenants

log = logging.getLogger(__name__)


class _Closes(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=_Closes)


@dataclass(frozen=True)
class Context:
    settings: Settings
    clock: Clock
    sessions: Sessions
    changes: Changes
    embedders: Embedders
    closing: ExitStack  # closed when the server stops
    served: frozenset[str]  # the names of the families that are switched on
    opened: dict[str, OpenFamily[Any]] = field(default_factory=dict)  # by name: the families before this one
    databases: WeakSet[Database] = field(default_factory=WeakSet)  # those that families have opened
    postgres: "PostgresPool | None" = None  # connections to the database of --database-url
    cells: "Cells | None" = None  # the databases with users' rows
    new_files_dir: Path | None = None  # where missing databases are created, if not in the data directory

    @property
    def times(self) -> TimeReader:
        return TimeReader(self.clock, self.settings.timezone)

    def folder_of(self, user: str) -> Path:
        return folder_of(self.settings.data_dir, user)

    @property
    def lock(self) -> Callable[[str], AbstractContextManager[None]] | None:
        """Holds the lock of a name among servers that share no data directory; None if there is only one directory."""
        return self.postgres.lock if self.postgres else None

    def close_later(self, thing: C) -> C:
        self.closing.callback(thing.close)
        return thing

    def before_close(self, work: Callable[[], object]) -> None:
        """Call this when the server stops, before everything opened so far is closed."""
        self.closing.callback(_attempt, work)

    def user_databases(self, kind: DatabaseKind) -> UserDatabases:
        """What the kind declares for each user: rows in PostgreSQL if this server has one, else a file."""
        return self.tenants(kind) if self.postgres is None else self._rows(self.postgres, kind)

    def parted_databases(self, kind: DatabaseKind) -> PartedDatabases:
        """Rows in PostgreSQL, of a kind that a user has several of. Raises Unavailable for a server without one."""
        if self.postgres is None:
            raise Unavailable(f"{kind.name} is in files.")
        return self._rows(self.postgres, kind)

    def _rows(self, pool: "PostgresPool", kind: DatabaseKind) -> "PostgresTenants":
        from memory_mcp.engines.postgres.tenants import PostgresTenants

        durable = self.settings.durability == "full" and not kind.is_cache
        return PostgresTenants(pool, kind.tables, durable=durable, cells=self.cells)

    def tenants(self, kind: DatabaseKind) -> Tenants:
        """A file of this kind for each user, opened at first use and closed at the end."""
        local = self.settings.vault_path if kind.is_at_db_path else self.settings.data_dir / kind.file
        return self.close_later(Tenants(self.settings.data_dir, local, partial(self._open_tenant, kind)))

    def open_file(
        self, kind: DatabaseKind, path: Path, *, missing: Missing = "create", lock: Path | None = None
    ) -> Database:
        """Raises Unavailable for a file that is damaged or of a newer version, and with PostgreSQL, where servers on
        other machines would not see it."""
        if self.postgres is not None and not (kind.is_per_server and self.settings.shared_folder):
            raise Unavailable(f"{kind.name} is not in PostgreSQL yet. Use a server without --database-url for it.")
        db = open_database(self.settings, self.clock, kind, path, missing=missing, lock=lock)
        self.databases.add(db)
        if kind.repair_index:
            db.on_open(kind.index_when_opened)
        return db

    def _open_tenant(self, kind: DatabaseKind, path: Path) -> Database:
        if self.new_files_dir is not None and not path.exists():
            path = self.new_files_dir / path.name
        return self.open_file(kind, path)


def _attempt(work: Callable[[], object]) -> None:
    try:
        work()
    except Unavailable as exc:
        log.warning("A task at shutdown failed: %s", exc.message)


def open_database(
    settings: Settings,
    clock: Clock,
    kind: DatabaseKind,
    path: Path,
    *,
    missing: Missing = "create",
    lock: Path | None = None,
) -> Database:
    """Open a file without the work that its family does when a server opens it."""
    return Database(
        path,
        kind.schema,
        backups=settings.data_dir / "backups",
        durability="normal" if kind.is_cache or kind.may_lose_last_writes else settings.durability,
        clock=clock,
        missing=missing,
        lock=lock,
    )
