"""Cells: the databases in which users' rows are. A directory in the first one, the home, says who is in which."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_mcp.engines.postgres.migrations import BASE
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.portal_servers import PortalServers
from memory_mcp.engines.postgres.tenants import SERVER_TENANT, TenantRows, UserCell, write_all_tenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.errors import Conflict, NotFound, Unavailable

HOME = ""  # the cell of --database-url
RETRY_INTERVAL_S = 5.0  # after a cell could not be opened


@dataclass(frozen=True)
class Cell:
    name: str
    url: str
    users: int  # that were moved here


@dataclass(frozen=True)
class Location:
    """Where a user's rows are."""

    cell: str = HOME
    moves: int = 0
    target: str | None = None  # where they are being moved


class CellDirectory:
    def __init__(self, home: PostgresPool) -> None:
        self._rows = TenantRows(home, BASE, SERVER_TENANT, durable=True)

    def cells(self) -> list[Cell]:
        with self._rows.read() as tx:
            rows = tx.all(
                """
                SELECT name, url, (SELECT count(*) FROM cell_users WHERE cell = name) FROM cells ORDER BY name
                """
            )
        return [Cell(*row) for row in rows]

    def url(self, name: str) -> str:
        for cell in self.cells():
            if cell.name == name:
                return cell.url
        raise NotFound(f"There is no cell {name!r}.", hint="`memory-mcp cells list` shows what there is.")

    def add(self, name: str, url: str) -> None:
        with self._rows.write() as tx:
            tx.lock("cells")
            if tx.all("SELECT 1 FROM cells WHERE name = :name OR url = :url", {"name": name, "url": url}):
                raise Conflict(f"The cell {name!r} or its database is in the directory already.")
            tx.all(
                "INSERT INTO cells (name, url, added_at) VALUES (:name, :url, :now)",
                {"name": name, "url": url, "now": tx.stamp},
            )

    def location(self, user: str) -> Location:
        with self._rows.read() as tx:
            row = tx.one("SELECT cell, moves, target FROM cell_users WHERE user_id = :user", {"user": user})
        return Location(*row) if row else Location()

    def set_location(self, user: str, location: Location) -> None:
        with self._rows.write() as tx:
            tx.all(
                """
                INSERT INTO cell_users (user_id, cell, moves, target) VALUES (:user, :cell, :moves, :target)
                ON CONFLICT (user_id) DO UPDATE
                SET cell = excluded.cell, moves = excluded.moves, target = excluded.target
                """,
                {"user": user, "cell": location.cell, "moves": location.moves, "target": location.target},
            )

    def users_in(self, cell: str) -> list[str]:
        """Those who were moved to a cell, or begun there."""
        with self._rows.read() as tx:
            rows = tx.all("SELECT user_id FROM cell_users WHERE cell = :cell ORDER BY user_id", {"cell": cell})
        return [user for (user,) in rows]

    def moved_users(self) -> list[str]:
        """Those whose rows are not all at home."""
        with self._rows.read() as tx:
            rows = tx.all("SELECT user_id FROM cell_users WHERE cell <> '' OR target IS NOT NULL ORDER BY user_id")
        return [user for (user,) in rows]


@dataclass
class _Opening:
    """An attempt to connect to a cell, which one thread makes while others of the same cell wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    failed_at: float = float("-inf")
    failure: Unavailable | None = None


class Cells:
    """The databases that this process has connected to. A user is looked for at home first; a database refuses those
    who were moved away from it, and then the directory is read."""

    def __init__(self, home: PostgresPool, table_sets: Sequence[TableSet]) -> None:
        self.directory = CellDirectory(home)
        self.portal_servers = PortalServers(home)
        self._home = home
        self._table_sets = table_sets
        self._lock = threading.Lock()  # never held while connecting
        self._pools: dict[str, PostgresPool] = {HOME: home}
        self._openings: dict[str, _Opening] = {}
        self._users: dict[str, UserCell] = {}

    @property
    def home(self) -> PostgresPool:
        return self._home

    def of(self, user: str) -> UserCell:
        return self._users.get(user) or UserCell(self._home, 0)

    def find(self, user: str) -> UserCell:
        """Read the directory. Raises Unavailable while the user's rows are being moved."""
        location = self.directory.location(user)
        if location.target is not None:
            raise Unavailable(
                "This memory is being moved to another database. Nothing was changed; try again in a moment."
            )
        found = UserCell(self.pool(location.cell), location.moves)
        self._users[user] = found
        return found

    def pool(self, name: str) -> PostgresPool:
        """The connections to a cell. One that cannot be reached delays callers of this cell alone: after a failed
        attempt, the others who waited for it get the same error, and so does every call of the next seconds."""
        with self._lock:
            if name in self._pools:
                return self._pools[name]
            opening = self._openings.setdefault(name, _Opening())
        with opening.lock:
            if name not in self._pools:
                if opening.failure and time.monotonic() < opening.failed_at + RETRY_INTERVAL_S:
                    raise opening.failure
                self._pools[name] = self._open(name, opening)
            return self._pools[name]

    def _open(self, name: str, opening: _Opening) -> PostgresPool:
        pool = self._home.to(self.directory.url(name))
        try:
            pool.open(self._table_sets)
        except BaseException as exc:
            pool.close()
            if isinstance(exc, Unavailable):
                opening.failed_at, opening.failure = time.monotonic(), exc
            raise
        return pool

    def place(self, user: str, name: str) -> None:
        """Let a new user, who has no rows yet, begin in a cell. Raises NotFound or Unavailable, and then the user is in
        no cell."""
        self.pool(name)
        with write_all_tenants(self._home) as everything:
            everything.set_departed(user, is_departed=True)
        self.directory.set_location(user, Location(name, moves=1))

    def close(self) -> None:
        """Close all connections but those to the home."""
        with self._lock:
            for name, pool in self._pools.items():
                if name != HOME:
                    pool.close()
