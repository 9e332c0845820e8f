"""The folders of portals, the connections to their engines, and their descriptions, which need no engine."""

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from memory_mcp.engines.chdb.process import EngineRules, wait_until_ended
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.glob import find
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.errors import NotFound, Unavailable
from memory_mcp.families.portals.address import NAME, Address
from memory_mcp.families.portals.model import Column, Described, Labels, Table

PORTALS = "portals"
DESCRIPTION = "portal.json"  # the tables of the portal, so that listing it does not start its engine
WRITE_LOCK = ".write.lock"
DELETED_PREFIX = ".deleted-"  # of the names of folders that are being deleted
MAX_LOCK_TRIES = 10  # each time that another process deletes the portal, the lock goes with it


class PortalFolder:
    """One portal's folder."""

    def __init__(self, path: Path, address: Address) -> None:
        self.path = path
        self.address = address

    def exists(self) -> bool:
        return (self.path / DESCRIPTION).is_file()

    def version(self) -> str:
        """Changes with everything that is written to the portal: each write describes it again."""
        status = (self.path / DESCRIPTION).stat()
        return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"

    def written_at(self) -> datetime:
        """When something was last written to it."""
        return datetime.fromtimestamp((self.path / DESCRIPTION).stat().st_mtime, UTC)

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """Hold the lock for changes to the portal, among all servers. A missing folder is created."""
        with ExitStack() as held:
            for _ in range(MAX_LOCK_TRIES):
                with suppress(FileNotFoundError):  # another process is just deleting it
                    make_private_folder(self.path)
                    held.enter_context(FileLock(self.path / WRITE_LOCK).acquire())
                    break
            else:
                raise Unavailable("This portal is being deleted. Try again.")
            yield

    @contextmanager
    def existing_write_lock(self) -> Iterator[None]:
        """The same for a portal that must exist. Raises NotFound, and creates nothing, if it does not."""
        with ExitStack() as held:
            try:
                held.enter_context(FileLock(self.path / WRITE_LOCK).acquire())
            except FileNotFoundError:
                raise self.not_found() from None
            if not self.exists():
                raise self.not_found()
            yield

    def not_found(self) -> NotFound:
        return NotFound(
            f"There is no portal {self.address.portal_uri}.", hint="portal_write makes it.", field="portalUri"
        )

    def remove(self) -> None:
        """Delete the portal from the disk. The caller holds its lock.

        The folder is renamed first: from then on no server finds the portal, and its engine ends.
        """
        renamed = self.path.with_name(f"{DELETED_PREFIX}{uuid4().hex}")
        self.path.rename(renamed)
        atomic_write.sync(renamed.parent)
        wait_until_ended(renamed)
        remove_folder(renamed)
        with suppress(OSError):  # the namespace holds other portals
            renamed.parent.rmdir()

    def describe(self, tables: Sequence[Table]) -> None:
        """Write the description of the portal's tables."""
        self._write({"tables": [asdict(table) for table in tables], **asdict(self.labels())}, durable=False)

    def label(self, labels: Labels) -> None:
        """Write the portal's name and description."""
        self._write({**self._read(), **asdict(labels)}, durable=False)

    def labels(self) -> Labels:
        noted = self._read()
        return Labels(str(noted.get("name", "")), str(noted.get("description", "")))

    def invalidate_description(self) -> None:
        """Delete the description: tables are about to change, and only the engine knows them until they are described
        again.

        This is on the disk when it returns: an old description must not come back after a power cut.
        """
        if self.exists():
            self.record_existence()

    def record_existence(self) -> None:
        """Record that the portal exists, with any tables. It is on the disk when this returns."""
        self._write({"tables": None, **asdict(self.labels())}, durable=True)

    def _write(self, noted: dict[str, Any], *, durable: bool) -> None:
        with Root(self.path).folder(()) as folder:
            atomic_write.write(
                folder.sibling(DESCRIPTION), json.dumps(noted, ensure_ascii=False).encode(), durable=durable
            )

    def _read(self) -> dict[str, Any]:
        try:
            noted = json.loads((self.path / DESCRIPTION).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def described(self) -> Described | None:
        """None if only the engine knows."""
        try:
            tables = [_table(one) for one in self._read()["tables"]]
            return Described(self.address.namespace, self.address.portal, tables)
        except (KeyError, TypeError):
            return None


class PortalFolders:
    """All portals of one user, or of the one namespace that a caller is confined to."""

    def __init__(self, folder: Path, within: str | None = None) -> None:
        self._folder = folder / PORTALS
        self._within = within

    def get(self, address: Address) -> PortalFolder:
        """Raises NotFound outside of the namespace, whether or not there is such a portal."""
        if self._within not in (None, address.namespace):
            raise NotFound(
                f"There is no portal {address.portal_uri}: this key is confined to the namespace {self._within!r}.",
                field="portalUri",
            )
        return PortalFolder(
            self._folder / address.namespace / address.portal, Address(address.namespace, address.portal)
        )

    def remove_leftovers(self) -> None:
        """Finish interrupted deletions of portals."""
        for path in find(self._folder, f"*/{DELETED_PREFIX}*"):
            wait_until_ended(path)
            remove_folder(path)

    def all(self) -> list[PortalFolder]:
        described = sorted(find(self._folder, f"*/*/{DESCRIPTION}"))
        found = (Address(path.parent.parent.name, path.parent.name) for path in described)
        return [self.get(address) for address in found if self._is_shown(address)]

    def _is_shown(self, address: Address) -> bool:
        is_named = NAME.fullmatch(address.namespace) and NAME.fullmatch(address.portal)
        return bool(is_named) and self._within in (None, address.namespace)


class Engines:
    """This server's connections to engines, by portal, each opened at first use."""

    read_files: ClassVar[bool] = True
    """Whether engines read the files that imports leave in a portal's folder on this machine."""
    marks_rows: ClassVar[bool] = True
    """Whether rows say which write they are from."""

    def __init__(self, limits: dict[str, int], rules: EngineRules, max_user_memory: int) -> None:
        """`max_user_memory`: how many bytes the statements of one user may use together, over all of their portals."""
        self._limits = limits
        self._max_user_memory = max_user_memory
        self._rules = rules
        self._lock = threading.Lock()
        self._engines: dict[Path, PortalEngine] = {}
        self._user_memory: dict[Path, MemoryBudget] = {}  # by the folder of the user's portals
        self._is_closed = False

    def portals(self, folder: Path, user: str, within: str | None) -> "PortalFolders":
        """A user's portals, or those of one namespace. `folder` is where the user's data lies on this machine."""
        return PortalFolders(folder, within)

    def get(self, folder: PortalFolder) -> PortalEngine:
        """Raises Unavailable once the server has closed them."""
        with self._lock:
            if self._is_closed:
                raise Unavailable("The server is stopping. Try again.", retry_after=1)
            if folder.path not in self._engines:
                root = folder.path.parents[1]
                memory = self._user_memory.setdefault(root, MemoryBudget(self._max_user_memory))
                self._engines[folder.path] = EngineConnections(
                    folder.path, self._limits, replace(self._rules, root=root), memory
                )
            return self._engines[folder.path]

    def remove(self, folder: PortalFolder) -> None:
        """Close the connections to a portal that was deleted."""
        with self._lock:
            engine = self._engines.pop(folder.path, None)
        if engine:
            engine.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            engine.close()


def remove_folder(folder: Path) -> None:
    """Raises Unavailable if something in it cannot be deleted."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        if folder.exists():  # another process deletes it at the same time
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as exc:
        raise Unavailable(
            "The portal is no longer listed, but some of its files cannot be deleted. Correct their permissions; the "
            "next start of a server deletes the rest."
        ) from exc


def _table(stored: dict[str, Any]) -> Table:
    return Table(stored["name"], stored["rows"], stored["bytes"], [Column(**column) for column in stored["columns"]])
