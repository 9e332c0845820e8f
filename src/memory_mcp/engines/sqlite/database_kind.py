"""Kinds of SQLite files. A family declares those it keeps, and the server its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from memory_mcp.engines.sqlite.database import Database
from memory_mcp.engines.sqlite.migrations import Schema
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import Unavailable

LOCKS = "locks"  # the folder with the locks of files in subfolders


@dataclass(frozen=True)
class DatabaseKind:
    """Files of one schema: one for each user, one for all, or one for each thing that a user has."""

    name: str  # its name in the manifest of a backup
    schema: Schema
    file: str  # its name in a user's folder and in a backup; of several in `folders`, how each name ends
    folders: tuple[str, ...] = ()
    """Subfolders of a user's folder with any number of files, each named by a UUID."""
    is_shared: bool = False  # one file for all users
    is_cache: bool = False  # created again if it is missing, so no backup holds it
    is_per_server: bool = False  # a cache of shared files: each of several servers has its own, in its data directory
    may_lose_last_writes: bool = False  # in a power cut, so that writes need not wait for the disk
    is_locked_first: bool = False  # servers write other files while they hold its lock
    is_at_db_path: bool = False  # the setting db_path says where the local user's is
    postgres: Path | None = None  # the folder with its migrations for PostgreSQL; None: it is in files alone
    owner_column: str | None = None  # of a shared file: names the user whose rows they are in PostgreSQL
    derived_tables: tuple[str, ...] = ()  # in both engines, but triggers or `rebuild_index` fill them
    part_paths: Callable[[Read], dict[str, str]] | None = None
    """The paths of the files of `folders` below a user's folder, by their ids, from these rows."""
    is_indexed: Callable[[Read], bool] | None = None  # whether its full-text indexes hold everything
    rebuild_index: Callable[[Write], None] | None = (
        None  # fill its full-text indexes, which are empty; on either engine
    )
    repair_index: Callable[[Write], None] | None = None  # add what is missing, each time that a server opens a file

    @property
    def tables(self) -> TableSet:
        """Its tables in PostgreSQL."""
        if self.postgres is None:
            raise Unavailable(f"{self.name} is not in PostgreSQL yet. Use a server without --database-url for it.")
        return TableSet(self.name, self.postgres)

    def index_when_opened(self, db: Database) -> None:
        """Index the rows that another program wrote into a file, so that searches find them."""
        if self.repair_index is None or self.is_indexed is None:
            return
        with db.read() as tx:
            if self.is_indexed(tx):
                return
        with db.write() as writing:
            self.repair_index(writing)

    def paths(self, folder: Path) -> list[Path]:
        """Where its files are in a user's folder. A single one may be missing."""
        if not self.folders:
            return [folder / self.file]
        found = (path for name in self.folders for path in sorted((folder / name).glob(f"*{self.file}")))
        return [path for path in found if is_id(path.name.removesuffix(self.file))]

    def lock(self, folder: Path, path: Path) -> Path:
        """The lock file for writers of one of its files in a user's folder."""
        if not self.folders:
            return path.with_name(f"{path.name}.lock")
        return folder / LOCKS / f"{path.name.removesuffix(self.file)}.lock"

    def has_name(self, parts: Sequence[str]) -> bool:
        """Whether a file of this kind may have this path below a user's folder."""
        if not self.folders:
            return list(parts) == [self.file]
        return len(parts) == 2 and parts[0] in self.folders and is_id(parts[1].removesuffix(self.file))


def is_id(text: str) -> bool:
    try:
        return text == str(UUID(text))
    except ValueError:
        return False
