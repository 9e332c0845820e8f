"""Files out of portals: tables, results of queries, zips and whole portals."""

import math
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from hashlib import file_digest
from pathlib import Path, PurePath

from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.portal_engine import EngineError, PortalEngine, ResultTooLarge
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import (
    allowed_folders,
    exports,
    storage,
    zip_files,
)
from memory_mcp.families.portals.exports import UNFINISHED, QuotaFolder
from memory_mcp.families.portals.folders import PORTALS, PortalFolder
from memory_mcp.families.portals.import_context import staged_file
from memory_mcp.families.portals.limits import TransferLimits
from memory_mcp.families.portals.model import Exported, FileFormat, Piece, Table
from memory_mcp.families.portals.portal_registry import PortalRegistry, existing_table
from memory_mcp.families.portals.query_errors import query_error
from memory_mcp.families.portals.transfer_folders import (
    ENDINGS,
    EXPORTS,
    ZIP,
    RunningTransfers,
    TransferFolders,
    archive_worker,
)
from memory_mcp.progress import ReportProgress

POLL_INTERVAL_S = 0.05  # between two checks that a backup has begun: a small one is done by then


class FileExports:
    """Exports, within a quota in the exports folder."""

    def __init__(
        self,
        registry: PortalRegistry,
        folders: TransferFolders,
        *,
        max_export_bytes: int,
        quota_bytes: int,
        max_days: int,
        transfers: TransferLimits,
    ) -> None:
        self._registry = registry
        self._folders = folders
        self._max_export_bytes = max_export_bytes
        self._quota_bytes = quota_bytes
        self._max_days = max_days
        self._running = RunningTransfers("exports", transfers)

    def export_file(
        self,
        caller: Caller,
        uri: str,
        destination: str,
        format_: FileFormat,
        table: str | None,
        query: str | None,
        report_progress: ReportProgress,
        cancelled: threading.Event | None = None,
    ) -> Exported:
        """Write a file: a table, the result of a query, a zip of all tables, or as db the whole portal. It stops when
        the caller leaves.

        The exports folder needs read_memory only and has a quota; other folders need write_memory.
        """
        folder = self._registry.existing(caller, addresses.portal(uri))
        target = self._export_folder(caller)
        if not (is_counted := allowed_folders.is_in(target.path, destination)):
            caller.require(Scope.WRITE)
        with ExitStack() as running:
            running.enter_context(self._running.begin(caller.user))
            engine = self._registry.engine(folder)
            zipped = _tables_to_zip(engine, destination) if format_ != "db" and not (table or query) else []
            if zipped and not destination.lower().endswith(ZIP):
                destination += ZIP
            stage = partial(staged_file, folder, beginning=UNFINISHED if is_counted else "")
            path = running.enter_context(stage(ZIP if zipped else ENDINGS[format_]))
            engine, max_bytes = running.enter_context(self._limited(engine, path, target if is_counted else None))
            if format_ == "db":
                tables, rows = self._export_portal(folder, engine, path, table or query, max_bytes, cancelled)
            elif zipped:
                parts = partial(stage, _ending_in_zip(destination, format_))
                tables, rows = self._export_zip(engine, path, parts, format_, zipped, max_bytes, cancelled)
            else:
                engine = engine.cancellable(cancelled)
                tables, rows = self._export_table(engine, path, destination, format_, table, query, max_bytes)
            check_not_cancelled(cancelled)
            report_progress("The file is made.", 1, 2)
            size, digest = path.stat().st_size, _sha256(path)
            with target.reserve(path, len(PurePath(destination).parts)) if is_counted else nullcontext():
                shown = allowed_folders.move_out(self._folders.exports(caller), path, destination)
            report_progress("Done.", 2, 2)
        self._registry.count_read(folder)
        return Exported(shown, format_, tables, rows, size, digest)

    @contextmanager
    def _limited(
        self, engine: PortalEngine, path: Path, counted: QuotaFolder | None
    ) -> Iterator[tuple[PortalEngine, int]]:
        """Connections for an export, and how large its file may be. Statements stop when it grows over a quota."""
        if counted is None:
            yield engine, self._max_export_bytes
            return
        counted.delete_expired()
        with counted.limit_export(self._max_export_bytes) as max_bytes:
            yield engine.limited(dict, counted.check_growth(path)), max_bytes

    def _export_zip(
        self,
        engine: PortalEngine,
        path: Path,
        stage: Callable[[], AbstractContextManager[Path]],
        format_: FileFormat,
        tables: Sequence[Table],
        max_bytes: int,
        cancelled: threading.Event | None,
    ) -> tuple[list[str], int]:
        """Write a zip with a file for each table, as the table is when it is read. `stage` gives a temporary file."""
        rows, engine = 0, engine.cancellable(cancelled)
        with archive_worker(path, sum(table.bytes for table in tables), cancelled) as worker:
            worker.start()
            for table in tables:
                with stage() as part:
                    _, count = self._export_table(engine, part, part.name, format_, table.name, None, max(1, max_bytes))
                    worker.call(zip_files.add, path, part, f"{table.name}{part.suffix}")
                    rows, max_bytes = rows + count, max_bytes - part.stat().st_size
        return [table.name for table in tables], rows

    def _export_table(
        self,
        engine: PortalEngine,
        path: Path,
        destination: str,
        format_: FileFormat,
        table: str | None,
        query: str | None,
        max_bytes: int,
    ) -> tuple[list[str], int]:
        field = "table" if query is None else "query"
        if query is None:
            chosen = _only_table(storage.tables(engine), table)
            query, names = storage.whole_table(chosen.name), [chosen.name]
        elif table is not None:
            raise Invalid("query: give either this or table.", field="query")
        else:
            names = []
        try:
            return names, engine.export(query, path, _engine_format(destination, format_), max_bytes, field)
        except EngineError as exc:
            raise query_error(exc, field, query, lambda: storage.tables(engine)) from exc

    def _export_portal(
        self,
        folder: PortalFolder,
        engine: PortalEngine,
        path: Path,
        part: str | None,
        max_bytes: int,
        cancelled: threading.Event | None,
    ) -> tuple[list[str], int]:
        if part is not None:
            raise Invalid(
                "format: db holds the whole portal. Leave table and query out, or choose another.", field="format"
            )
        tables = self._write_archive(folder, engine, path, max_bytes, cancelled, is_paced=True)
        return [table.name for table in tables], sum(table.rows for table in tables)

    def _write_archive(
        self,
        folder: PortalFolder,
        engine: PortalEngine,
        path: Path,
        max_bytes: float,
        cancelled: threading.Event | None = None,
        *,
        is_paced: bool,
    ) -> list[Table]:
        """A whole portal in a sealed file, as it is at one moment. Returns its tables.

        The portal is locked until the engine has noted what it writes, so that a long export delays no write.
        """
        cancellable = engine.cancellable(cancelled)
        try:
            with cancellable.export_slot(), ThreadPoolExecutor(1) as thread:
                with folder.existing_write_lock():
                    tables, metadata = self._prepare_backup(folder, engine, cancellable)
                    _check_size(sum(table.bytes for table in tables), max_bytes)
                    about = {"metadata": metadata, "tables": {table.name: table.rows for table in tables}}
                    written = thread.submit(storage.back_up, cancellable, str(path), is_paced=is_paced, about=about)
                    while not (_is_done_soon(written) or storage.has_begun_backup(engine, str(path))):
                        continue
                written.result()
        except EngineError as exc:
            raise Unavailable("The engine cannot write this portal to a file. Look at the log, or try again.") from exc
        _check_size(path.stat().st_size, max_bytes)
        return tables

    def _prepare_backup(
        self, folder: PortalFolder, engine: PortalEngine, cancellable: PortalEngine
    ) -> tuple[list[Table], dict[str, str]]:
        """Finish or remove what is half done in a locked portal. Returns its tables and its metadata."""
        self._registry.finish_import(folder, engine)
        storage.drop_unfinished(engine)
        storage.remove_deleted_rows(engine)
        tables, metadata = storage.tables(engine), storage.metadata(engine)
        checksum = storage.checksum(cancellable, tables)
        if metadata.get("mcp.checksum") != checksum:
            storage.set_metadata(engine, {"mcp.checksum": checksum})
            metadata["mcp.checksum"] = checksum
        return tables, metadata

    def back_up(self, folder: PortalFolder, target: Path, *, is_paced: bool) -> list[Table]:
        """Write a whole portal to a new file, as it is at one moment, while servers go on. Returns its tables."""
        engine = self._registry.engine(folder)
        with staged_file(folder, ENDINGS["db"]) as path:
            tables = self._write_archive(folder, engine, path, math.inf, is_paced=is_paced)
            shutil.copyfile(path, target)
        return tables

    def export_to(self, folder: PortalFolder, table: str, target: Path, format_: FileFormat) -> int:
        """Write a whole table to a new file. Returns the number of rows."""
        engine = self._registry.engine(folder)
        with staged_file(folder, ENDINGS[format_]) as path:
            _, rows = self._export_table(engine, path, target.name, format_, table, None, self._max_export_bytes)
            shutil.copyfile(path, target)
        return rows

    def read_piece(self, caller: Caller, destination: str, offset: int) -> Piece:
        """The piece of an exported file that begins at `offset`. Raises NotFound."""
        return exports.read_piece(self._folders.exports(caller)[0], destination, offset)

    def delete_expired_exports(self) -> None:
        """Delete expired exports of all users. The local user's files stay, except those made for a download."""
        top = self._registry.folder_of(LOCAL_USER)
        self._quota_folder(top, None).delete_expired()
        for folder in (top / "users").glob("*"):
            self._quota_folder(folder, self._max_days).delete_expired()

    def _export_folder(self, caller: Caller) -> QuotaFolder:
        max_days = None if caller.user == LOCAL_USER else self._max_days
        return self._quota_folder(self._registry.folder_of(caller.user), max_days)

    def _quota_folder(self, user_folder: Path, max_days: int | None) -> QuotaFolder:
        return QuotaFolder(user_folder / EXPORTS, user_folder / PORTALS, self._quota_bytes, max_days)


def _tables_to_zip(engine: PortalEngine, destination: str) -> list[Table]:
    """All tables, if an export that names none is a zip: there are several, or the destination says so."""
    tables = storage.tables(engine)
    return tables if len(tables) > 1 or destination.lower().endswith(ZIP) else []


def _ending_in_zip(destination: str, format_: FileFormat) -> str:
    """The ending of each file in a zip that has this name: all.jsonl.zip holds JSON lines."""
    inner = destination[: -len(ZIP)]
    return PurePath(inner).suffix if _has_lines(inner, format_) else ENDINGS[format_]


def _engine_format(destination: str, format_: FileFormat) -> str:
    """The engine's name for the format of an export to a file of this name."""
    if format_ == "json":
        return "lines" if _has_lines(destination, format_) else "json"
    return storage.FORMATS[format_]


def _has_lines(destination: str, format_: FileFormat) -> bool:
    """Whether a JSON export has a record a line."""
    return format_ == "json" and destination.endswith((".jsonl", ".ndjson"))


def _only_table(tables: Sequence[Table], name: str | None) -> Table:
    if name is not None:
        return existing_table(tables, name)
    if not tables:
        raise Invalid("table: this portal has no table to export yet. Write records to one first.", field="table")
    if len(tables) > 1:  # several are a zip, unless another call has just created one
        raise Invalid("table: another table was just created. Name a table, or try again for all.", field="table")
    return tables[0]


def _is_done_soon(written: Future[None]) -> bool:
    """Whether it is done before the next look. That spares most backups all questions to the engine."""
    wait([written], POLL_INTERVAL_S)
    return written.done()


def _check_size(size: int, max_bytes: float) -> None:
    if size > max_bytes:
        raise ResultTooLarge(
            f"format: as db this portal is over {max_bytes:.0f} bytes. Export its tables one by one, or what queries "
            "give of them.",
            "format",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
