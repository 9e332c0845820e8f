"""The paths of the files in a data directory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.families.maintenance import DatabaseFile, Tenant
from memory_mcp.families.portals.folders import PortalFolder, PortalFolders

USERS = "users"
COPIED_FILES = ("config.toml", "stores.yaml")  # at the top of a tenant's folder
STORES = "stores"


@dataclass(frozen=True)
class Layout:
    data_dir: Path
    vault_path: Path
    kinds: tuple[DatabaseKind, ...]

    def tenants(self) -> list[Tenant]:
        """The local user, and every user with a folder, including removed users."""
        folders = sorted(path for path in (self.data_dir / USERS).glob("[!.]*") if path.is_dir())
        others = (Tenant(path.name, path, f"{USERS}/{path.name}/") for path in folders)
        return [Tenant(LOCAL_USER, self.data_dir, ""), *others]

    @property
    def backed_up_kinds(self) -> dict[str, DatabaseKind]:
        """The kinds of files in a backup, by name."""
        return {kind.name: kind for kind in self.kinds if not kind.is_cache}

    @property
    def subfolders(self) -> list[str]:
        """The folders with databases in a tenant's folder."""
        return [folder for kind in self.kinds for folder in kind.folders]

    def databases(self, tenant: Tenant, kinds: Iterable[DatabaseKind] | None = None) -> Iterator[DatabaseFile]:
        """A tenant's existing files, of these kinds or of all kinds in a backup."""
        for kind in self.backed_up_kinds.values() if kinds is None else kinds:
            if not kind.is_shared or tenant.user == LOCAL_USER:
                yield from (file for file in self._files(tenant, kind) if file.path.exists())

    def _files(self, tenant: Tenant, kind: DatabaseKind) -> Iterator[DatabaseFile]:
        """In a backup the vault's file has its default name, regardless of --db-path."""
        if kind.is_at_db_path:
            is_local = tenant.user == LOCAL_USER
            path = self.vault_path if is_local else tenant.folder / self.vault_path.name
            yield DatabaseFile(path, f"{tenant.prefix}{kind.file}", kind, kind.lock(tenant.folder, path))
            return
        yield from tenant.files(kind)

    def portals(self, tenant: Tenant) -> list[PortalFolder]:
        return PortalFolders(tenant.folder).all()

    def portal_name(self, tenant: Tenant, portal: PortalFolder) -> str:
        return f"{tenant.prefix}portals/{portal.address.namespace}/{portal.address.portal}.db"

    def vault_is_elsewhere(self) -> bool:
        return self.vault_path != self.data_dir / "memory.db"
