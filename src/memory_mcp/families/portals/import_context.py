"""The source and the target of an import: a file, and the portal that gets its tables."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.isolation.worker_process import WorkerProcess
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import Conflict, LimitExceeded, NotFound
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.journal import StagedTable
from memory_mcp.families.portals.limits import ImportBudget
from memory_mcp.families.portals.model import FileFormat, OnConflict, Table


@dataclass(frozen=True)
class SourceFile:
    """A file that is being imported, with the process that inspects it and the import's limits."""

    path: Path  # in staging
    format: FileFormat
    worker: WorkerProcess
    budget: ImportBudget
    cancelled: threading.Event | None

    def limited_engine(self, engine: PortalEngine) -> PortalEngine:
        """For statements on the file and its staged tables: they stop at a limit, and when the caller leaves."""
        size = self.path.stat().st_size
        return engine.cancellable(self.cancelled).limited(lambda: self.budget.engine_limits(size), self._check_time)

    @property
    def max_rows(self) -> int:
        return self.budget.limits.rows

    @property
    def max_expanded_bytes(self) -> int:
        return self.budget.max_expanded_bytes(self.path.stat().st_size)

    def check_amount(self, rows: int, expanded_bytes: int) -> None:
        """Raises LimitExceeded if the file holds more than it may."""
        if rows > self.max_rows or expanded_bytes > self.max_expanded_bytes:
            raise LimitExceeded("The file holds too much.", limit="size")

    def _check_time(self) -> None:
        if self.budget.seconds_left() <= 0:
            raise LimitExceeded("The import took too long.", limit="time")


@dataclass(frozen=True)
class ImportTarget:
    """The portal that an import goes to. The caller holds its lock."""

    engine: PortalEngine
    on_conflict: OnConflict  # what to do with tables that exist
    mark: int | None  # that the rows of the import get
    tables: Mapping[str, Table]  # those that exist, by name
    record_schema: Callable[[PortalEngine, str], None]  # of a table that was created or changed
    rename_staged: Callable[[Sequence[StagedTable]], None]
    set_missing_labels: Callable[[Mapping[str, str]], None]  # from the metadata of a portal file
    is_unfinished: Callable[[], bool]  # whether staged tables still have to get their names

    @property
    def replaces(self) -> bool:
        return self.on_conflict == "replace"

    def check_conflicts(self, names: Iterable[str], known: Iterable[str]) -> None:
        """Raises Conflict if tables exist and the caller has not given `on_conflict`."""
        there = sorted({*names} & {*known})
        if there and self.on_conflict == "refuse":
            raise Conflict(
                f"onConflict: this portal has {', '.join(map(repr, there))} already, and nothing was changed. Give "
                "append to add the rows of the file, or replace to have its tables instead.",
                field="onConflict",
                tables=there,
            )

    def drop_leftovers(self) -> None:
        """Drop the tables of imports that were interrupted."""
        if not self.is_unfinished():
            storage.drop_unfinished(self.engine)

    def staged_table(self, name: str, table: str) -> StagedTable:
        uuid = storage.table_uuid(self.engine, name)
        if uuid is None:
            raise EngineError("A staged table is missing.", 0)
        return StagedTable(name, uuid, table)


def new_table_name() -> str:
    return f"{storage.STAGED_PREFIX}{uuid4().hex}"


@contextmanager
def staged_file(folder: PortalFolder, ending: str, beginning: str = "") -> Iterator[Path]:
    """The path of a temporary file that the engine may read and write. Raises NotFound if the portal is deleted
    meanwhile."""
    path = folder.path / "staging" / f"{beginning}{uuid4().hex}{ending}"
    make_private_folder(path.parent)
    try:
        yield path
    except FileNotFoundError:
        if path.parent.exists():
            raise
        raise NotFound(
            "This portal was deleted meanwhile.", hint="portal_write creates a new one.", field="portalUri"
        ) from None
    finally:
        path.unlink(missing_ok=True)
