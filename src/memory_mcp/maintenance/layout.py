"""What lies where in a data directory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.engines.sqlite.migrations import Schema
from memory_mcp.families.portals.folders import PortalFolder, PortalFolders
from memory_mcp.maintenance.model import Kind

USERS = "users"
PROJECTS = ("projects", "archive")
KEPT = ("config.toml", "stores.yaml")  # files at the top of a tenant's folder that are kept as they stand
CACHES = ("stores.db", "recall.db", "live.db")  # made anew if they are gone
STORES = "stores"


@dataclass(frozen=True)
class Kinds:
    """The kinds of SQLite files, and who knows how to make their indexes of words anew."""

    schemas: Mapping[str, Schema]
    is_indexed: Mapping[str, Callable[[Read], bool]]  # whether the indexes hold everything
    index_anew: Mapping[str, Callable[[Write], None]]  # from nothing: the indexes are empty by then


@dataclass(frozen=True)
class Tenant:
    user: str
    folder: Path
    prefix: str  # in front of its files' names in an archive


@dataclass(frozen=True)
class DatabaseFile:
    path: Path
    name: str  # below the data directory, with slashes
    kind: Kind
    lock: Path  # where its writers wait


@dataclass(frozen=True)
class Layout:
    data_dir: Path
    vault_path: Path

    def tenants(self) -> list[Tenant]:
        """The local user, and everyone whose folder is there, removed or not."""
        folders = sorted(path for path in (self.data_dir / USERS).glob("[!.]*") if path.is_dir())
        others = (Tenant(path.name, path, f"{USERS}/{path.name}/") for path in folders)
        return [Tenant(LOCAL_USER, self.data_dir, ""), *others]

    def server_file(self) -> DatabaseFile:
        return _beside_its_lock(self.data_dir / "server.db", "server.db", "server")

    def hub_file(self) -> DatabaseFile:
        """What a hub keeps for its nodes; most data directories are none's."""
        return _beside_its_lock(self.data_dir / "hub.db", "hub.db", "hub")

    def registry(self, tenant: Tenant) -> DatabaseFile:
        return _beside_its_lock(tenant.folder / "_meta.db", f"{tenant.prefix}_meta.db", "registry")

    def memories(self, tenant: Tenant) -> list[DatabaseFile]:
        """The vault's file and the notes'. A backup calls them by their usual names, wherever --db-path puts one."""
        vault = self.vault_path if tenant.user == LOCAL_USER else tenant.folder / self.vault_path.name
        return [
            _beside_its_lock(vault, f"{tenant.prefix}memory.db", "vault"),
            _beside_its_lock(tenant.folder / "notes.db", f"{tenant.prefix}notes.db", "notes"),
        ]

    def projects(self, tenant: Tenant) -> Iterator[DatabaseFile]:
        for folder in PROJECTS:
            for path in sorted((tenant.folder / folder).glob("*.db")):
                if is_id(path.stem):
                    lock = tenant.folder / "locks" / f"{path.stem}.lock"
                    yield DatabaseFile(path, f"{tenant.prefix}{folder}/{path.name}", "project", lock)

    def databases(self) -> Iterator[DatabaseFile]:
        """Every SQLite file that is there and is no cache."""
        for tenant in self.tenants():
            shared = [self.server_file(), self.hub_file()] if tenant.user == LOCAL_USER else []
            for file in (*shared, self.registry(tenant), *self.memories(tenant), *self.projects(tenant)):
                if file.path.exists():
                    yield file

    def portals(self, tenant: Tenant) -> list[PortalFolder]:
        return PortalFolders(tenant.folder).all()

    def portal_name(self, tenant: Tenant, portal: PortalFolder) -> str:
        return f"{tenant.prefix}portals/{portal.address.namespace}/{portal.address.portal}.db"

    def vault_is_elsewhere(self) -> bool:
        return self.vault_path != self.data_dir / "memory.db"


def is_id(text: str) -> bool:
    try:
        return text == str(UUID(text))
    except ValueError:
        return False


def _beside_its_lock(path: Path, name: str, kind: Kind) -> DatabaseFile:
    return DatabaseFile(path, name, kind, path.with_name(path.name + ".lock"))
