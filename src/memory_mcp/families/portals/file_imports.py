"""Files into portals: which files, how many at a time, and under which limits."""

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from memory_mcp.caller import Caller
from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.files import uploads
from memory_mcp.engines.isolation.worker_process import ProcessLimits, WorkerProcess
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.errors import Conflict, Invalid, LimitExceeded, NotFound, Unavailable, shorten
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import (
    allowed_folders,
    archive_imports,
    downloads,
    inspection,
    journal,
    record_imports,
    row_copies,
    storage,
    zip_files,
)
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.answers import PortalImported
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.import_context import ImportTarget, SourceFile, staged_file
from memory_mcp.families.portals.journal_items import import_writes, portal_write
from memory_mcp.families.portals.limits import ImportBudget, ImportLimits, TransferLimits
from memory_mcp.families.portals.model import (
    NO_CHOICES,
    ColumnChoices,
    FileFormat,
    ImportPreview,
    OnConflict,
    Received,
    Table,
)
from memory_mcp.families.portals.portal_registry import PortalRegistry, labels_in, writable
from memory_mcp.families.portals.record_writer import notice_of
from memory_mcp.families.portals.transfer_folders import ENDINGS, ZIP, RunningTransfers, TransferFolders, archive_worker
from memory_mcp.progress import ReportProgress

MAX_NFC_GROWTH = 3  # a text in NFC may have this many times its bytes


class FileImports:
    """Imports of records, zips and whole portals."""

    def __init__(
        self,
        registry: PortalRegistry,
        folders: TransferFolders,
        limits: ImportLimits,
        transfers: TransferLimits,
        *,
        allow_urls: bool,
    ) -> None:
        self._registry = registry
        self._folders = folders
        self._limits = limits
        self._allow_urls = allow_urls
        self._running = RunningTransfers("imports", transfers)

    def import_file(
        self,
        caller: Caller,
        uri: str,
        source: str,
        format_: FileFormat,
        table: str | None,
        report_progress: ReportProgress,
        cancelled: threading.Event | None = None,
        on_conflict: OnConflict | None = None,
        choices: ColumnChoices = NO_CHOICES,
    ) -> PortalImported:
        """Import a file: all of it, or nothing. A missing portal or table is created; `on_conflict` says what
        to do with tables that exist. If the caller leaves before the rows are moved to their table, nothing is
        imported."""
        folder = self._registry.folders(caller).get(addresses.portal(uri))
        is_zip = _is_zip(source, format_)
        name = _table_name(source, format_, table, choices, is_zip=is_zip)
        with self._staged(caller, folder, source, format_, cancelled) as file:
            packed = self._list_zip(file, table) if is_zip else None
            report_progress("The file is there.", 1, 3)
            with self._open_target(caller, folder, file, on_conflict) as target:
                counts, notices = _load(target, folder, file, name, choices, packed)
                former = {name: known.rows for name, known in target.tables.items()}
                written = import_writes(folder.address, counts, former, target.mark, replaces=target.replaces)
                row_copies.delete(folder, [name for name in counts if target.replaces and name in former])
                self._registry.journal_of_writes.record(caller, *written)
            count = sum(counts.values())
            uploads.delete(self._folders.imports(caller)[0], source)
            report_progress(f"{count} records are in.", 2, 3)
            report_progress("Done.", 3, 3)
        return PortalImported(folder.address.portal_uri, ", ".join(counts), count, notice_of(notices))

    def preview(
        self,
        caller: Caller,
        uri: str,
        source: str,
        format_: FileFormat,
        table: str | None,
        choices: ColumnChoices,
        cancelled: threading.Event | None = None,
    ) -> ImportPreview:
        """What an import of an uploaded JSON, CSV or Parquet file would do. Changes nothing. Other files are refused: a
        caller who may only write must not read them."""
        if not uploads.is_upload(source):
            raise Invalid("source: only an uploaded file has a preview. Upload it.", field="source")
        if format_ == "db" or _is_zip(source, format_):
            raise Invalid("format: only json, csv and parquet files have a preview. Import this one.", field="format")
        folder = self._registry.folders(caller).get(addresses.portal(uri))
        name = writable(record_imports.table_name(source, table))
        with self._staged(caller, folder, source, format_, cancelled) as file:
            return record_imports.preview(self._registry.engine(folder), file, name, choices)

    @contextmanager
    def _staged(
        self, caller: Caller, folder: PortalFolder, source: str, format_: FileFormat, cancelled: threading.Event | None
    ) -> Iterator[SourceFile]:
        """A copy of a file that the engine can read, and the process that inspects it."""
        self._check_engine()
        is_zip = _is_zip(source, format_)
        budget = self._limits.begin()
        with (
            self._running.begin(caller.user),
            _translate_limits(self._limits),
            staged_file(folder, ZIP if is_zip else ENDINGS[format_]) as path,
            self._worker(path, budget, cancelled) as worker,
        ):
            if is_zip or format_ != "parquet":  # which the engine reads alone
                worker.start()
            self._fetch(caller, source, path, budget, cancelled)  # before the portal is locked: this may take long
            if format_ in ("json", "csv") and not is_zip:
                worker.call(inspection.prepare, path, format_)
            yield SourceFile(path, format_, worker, budget, cancelled)

    @contextmanager
    def _open_target(
        self, caller: Caller, folder: PortalFolder, file: SourceFile, on_conflict: OnConflict | None
    ) -> Iterator[ImportTarget]:
        """The portal, locked for an import. It is described again when the block ends."""
        with folder.write_lock():
            check_not_cancelled(file.cancelled)
            engine = self._registry.open(folder)
            tables = {table.name: table for table in self._registry.described_tables(folder, engine)}
            with self._registry.changing(caller, folder, engine):
                how = on_conflict or ("refuse" if file.format == "db" else "append")
                yield self._target(folder, engine, how, tables)

    def _check_engine(self) -> None:
        """Raises Unavailable where engines cannot read files of this machine."""
        if not self._registry.engines.read_files:
            raise Unavailable("Files cannot be imported to portals on a ClickHouse server yet. Write their records.")

    def _list_zip(self, file: SourceFile, only: str | None) -> dict[str, str]:
        """The file of each table in a zip, or that of one table."""
        files: dict[str, str] = file.worker.call(zip_files.list_tables, file.path, file.format, self._limits.file_bytes)
        if only is None:
            return files
        if only not in files:
            listed = shorten(", ".join(files))
            raise NotFound(f"table: the zip has no file for a table {only!r}. It has: {listed}.", field="table")
        return {only: files[only]}

    def _target(
        self, folder: PortalFolder, engine: PortalEngine, on_conflict: OnConflict, tables: Mapping[str, Table]
    ) -> ImportTarget:
        return ImportTarget(
            engine,
            on_conflict,
            storage.new_mark(engine),
            tables,
            self._registry.record_schema,
            lambda tables: self._registry.rename_staged(folder, engine, tables),
            lambda about: self._registry.set_missing_labels(folder, engine, about),
            lambda: journal.exists(folder),
        )

    def _worker(self, path: Path, budget: ImportBudget, cancelled: threading.Event | None) -> WorkerProcess:
        """For a staged file, which it may replace by another in the same folder."""
        limits = ProcessLimits(budget.seconds_left(), file_bytes=MAX_NFC_GROWTH * self._limits.file_bytes)
        return WorkerProcess(limits, writable=[path.parent], cancelled=cancelled)

    def _fetch(
        self, caller: Caller, source: str, path: Path, budget: ImportBudget, cancelled: threading.Event | None
    ) -> None:
        max_bytes = self._limits.file_bytes
        if not downloads.is_url(source):
            allowed_folders.copy_in(self._folders.imports(caller), source, path, max_bytes)
        elif self._allow_urls:
            limits = ProcessLimits(min(budget.seconds_left(), downloads.MAX_FETCH_S), file_bytes=max_bytes)
            with WorkerProcess(limits, writable=[path.parent], network=True, cancelled=cancelled) as worker:
                worker.call(downloads.fetch, source, path, max_bytes)
        else:
            raise Invalid(
                "source: addresses are switched off here. Put the file into the imports folder.", field="source"
            )

    def restore_portal(self, folder: PortalFolder, file: Path, mark: int | None = None) -> int:
        """Create a missing portal from its file, as it was; with `mark`, its rows are those of one write from now on.
        Returns how many rows it has. Raises Invalid, and leaves nothing, for a damaged file."""
        self._check_engine()
        engine = self._registry.engine(folder)
        with staged_file(folder, ENDINGS["db"]) as path:
            shutil.copyfile(file, path)
            with archive_worker(path, path.stat().st_size) as worker, folder.write_lock():
                count = archive_imports.restore_archive(engine, worker, path, mark)
                folder.describe(storage.tables(engine))
                folder.label(labels_in(storage.metadata(engine)))
        return count

    def import_portal(self, caller: Caller, address: Address, file: Path) -> int:
        """The same for a caller. Raises Conflict if there is such a portal."""
        folder = self._registry.folders(caller).get(address)
        if folder.exists():
            raise Conflict(f"There is a portal {address.portal_uri} already.")
        mark = storage.new_mark(self._registry.engine(folder))
        count = self.restore_portal(folder, file, mark)
        tables = {
            table.name: table.rows for table in self._registry.described_tables(folder, self._registry.engine(folder))
        }
        written = import_writes(address, tables, {}, mark, replaces=False) or [portal_write(address, "created")]
        self._registry.journal_of_writes.record(caller, *written)
        self._registry.report_change(caller, address, list_changed=True)
        return count

    def receive(self, caller: Caller, name: str, offset: int, data: str) -> Received:
        """Add a piece to an upload. Raises Conflict if it does not follow the pieces received so far."""
        stored = uploads.add(self._folders.imports(caller)[0], name, offset, data, self._limits.file_bytes)
        return Received(f"{uploads.UPLOADS}/{name}", stored)


@contextmanager
def _translate_limits(limits: ImportLimits) -> Iterator[None]:
    try:
        yield
    except LimitExceeded as exc:
        if exc.limit == "time":
            raise Invalid(
                f"source: this took more than {limits.seconds} s, and nothing was imported. Split the file.",
                code="timeout",
                field="source",
            ) from exc
        raise Invalid(
            f"source: the file holds too much, and nothing was imported. It may hold {limits.rows} records, "
            f"{limits.expanded_bytes} bytes of them unpacked and {limits.expansion} times its own size. Split it.",
            code="too_large",
            field="source",
        ) from exc


def _is_zip(source: str, format_: FileFormat) -> bool:
    return format_ != "db" and source.lower().endswith(ZIP)


def _table_name(
    source: str, format_: FileFormat, table: str | None, choices: ColumnChoices, *, is_zip: bool
) -> str | None:
    """The table that a file goes to; of a file with tables, the only one that is wanted."""
    if format_ != "db" and not is_zip:
        return writable(record_imports.table_name(source, table))
    for field, given in (("mapping", choices.names), ("types", choices.types)):
        if given:
            kind = "zip" if is_zip else "db file"
            raise Invalid(f"{field}: a {kind} brings its columns as they are. Leave {field} out.", field=field)
    return table


def _load(
    target: ImportTarget,
    folder: PortalFolder,
    file: SourceFile,
    table: str | None,
    choices: ColumnChoices,
    packed: Mapping[str, str] | None,
) -> tuple[dict[str, int], list[str]]:
    """Load a file: a portal, a zip with these files in it, or records. Returns how many rows each table got, and
    notices."""
    if file.format == "db":
        return archive_imports.import_archive(target, file, table), []
    if packed is not None:
        return record_imports.load_zip(target, file, packed, partial(staged_file, folder))
    return record_imports.load(target, file, str(table), choices)
