"""Files in and out of portals: who may, which files, and how many at a time."""

import math
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from hashlib import file_digest
from pathlib import Path, PurePath

from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.client import EngineError, EngineLine
from memory_mcp.engines.files.compressed import MAX_EXPANSION
from memory_mcp.engines.isolation.worker_process import ProcessLimits, WorkerProcess
from memory_mcp.errors import Conflict, Invalid, LimitExceeded, NotFound, Unavailable, shorten
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import (
    allowed_folders,
    archive_imports,
    downloads,
    inspection,
    journal,
    record_imports,
    storage,
    uploads,
    zip_files,
)
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.exports import UNFINISHED, ExportFolder
from memory_mcp.families.portals.folders import PORTALS, PortalFolder
from memory_mcp.families.portals.import_context import ImportTarget, SourceFile, staged_file
from memory_mcp.families.portals.limits import ImportBudget, ImportLimits
from memory_mcp.families.portals.model import Exported, Format, Imported, OnConflict, Piece, Received, Table
from memory_mcp.families.portals.portal_registry import PortalRegistry, existing_table, labels_in, writable
from memory_mcp.progress import ReportProgress

ENDINGS: dict[Format, str] = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "db": ".tar"}
ZIP = ".zip"
MAX_IMPORTS = 8  # of one server, waiting ones included: each has a thread and a process
EXPORTS = "exports"
RETRY_AFTER_S = 5
MIN_VERIFY_S = 600  # to read through a portal file of any size
MIN_VERIFY_BYTES_PER_S = 20_000_000  # a large file gets more time, at this rate
MAX_ARCHIVE_BYTES = 2**62  # no limit in effect: a portal file may have any size
MAX_NFC_GROWTH = 3  # a text in NFC may have this many times its bytes
NAMESPACE_FOLDERS = "namespaces"  # in imports/ and exports/: a folder for each namespace that a key is confined to
MAX_EXPORTS = 8  # of one server, waiting ones included: further ones are refused, so that threads stay free for reads


class Transfers:
    """Imports and exports."""

    def __init__(
        self,
        keeping: PortalRegistry,
        *,
        import_folders: Sequence[Path],
        export_folders: Sequence[Path],
        import_limits: ImportLimits,
        largest_export: int,
        export_quota: int,
        export_days: int,
        urls: bool,
    ) -> None:
        self._keeping = keeping
        self._imports = import_folders
        self._exports = export_folders
        self._import_limits = import_limits
        self._largest_export = largest_export
        self._export_quota = export_quota
        self._export_days = export_days
        self._urls = urls
        self._exporting = threading.BoundedSemaphore(MAX_EXPORTS)
        self._importing = threading.BoundedSemaphore(MAX_IMPORTS)

    def import_file(
        self,
        caller: Caller,
        uri: str,
        source: str,
        format_: Format,
        table: str | None,
        mapping: Mapping[str, str],
        report_progress: ReportProgress,
        cancelled: threading.Event | None = None,
        on_conflict: OnConflict | None = None,
    ) -> Imported:
        """Add what a file holds: all of it, or nothing. A missing portal or table is created; `on_conflict` says what
        to do with tables that exist. If the caller leaves before the rows are moved to their table, nothing is
        imported."""
        address = addresses.portal(uri)
        is_zip = format_ != "db" and source.lower().endswith(ZIP)
        has_tables = format_ == "db" or is_zip
        if has_tables and mapping:
            kind = "zip" if is_zip else "db file"
            raise Invalid(f"mapping: a {kind} brings its columns as they are. Leave mapping out.", field="mapping")
        name = table if has_tables else writable(record_imports.table_name(source, table))
        folder = self._keeping.folders(caller).get(address)
        budget = self._import_limits.begin()
        with (
            self._limit_running(self._importing, MAX_IMPORTS, "imports"),
            _translate_limits(self._import_limits),
            staged_file(folder, ZIP if is_zip else ENDINGS[format_]) as path,
            self._worker(path, budget, cancelled) as worker,
        ):
            if is_zip or format_ != "parquet":  # which the engine reads alone
                worker.start()
            self._get(caller, source, path, budget, cancelled)  # before the portal is locked: this may take long
            file = SourceFile(path, format_, worker, budget, cancelled)
            packed = self._list_zip(file, table) if is_zip else {}
            if format_ in ("json", "csv") and not is_zip:
                worker.call(inspection.prepare, path, format_)
            report_progress("The file is there.", 1, 3)
            with folder.write_lock():
                check_not_cancelled(cancelled)
                line = self._keeping.open(folder)
                with self._keeping.changing(caller, folder, line):
                    target = self._target(folder, line, on_conflict or ("refuse" if format_ == "db" else "append"))
                    if format_ == "db":
                        names, count = archive_imports.import_archive(target, file, name)
                    elif is_zip:
                        names, count = record_imports.load_zip(target, file, packed, partial(staged_file, folder))
                    else:
                        names, count = [str(name)], record_imports.load(target, file, str(name), mapping)
            uploads.forget(self._import_folders(caller)[0], source)
            report_progress(f"{count} records are in.", 2, 3)
            report_progress("Done.", 3, 3)
        return Imported(address.portal_uri, ", ".join(names), count)

    def _list_zip(self, file: SourceFile, only: str | None) -> dict[str, str]:
        """The file of each table in a zip, or that of one table."""
        files: dict[str, str] = file.worker.call(
            zip_files.list_tables, file.path, file.format, self._import_limits.file_bytes
        )
        if only is None:
            return files
        if only not in files:
            listed = shorten(", ".join(files))
            raise NotFound(f"table: the zip has no file for a table {only!r}. It has: {listed}.", field="table")
        return {only: files[only]}

    def _target(self, folder: PortalFolder, line: EngineLine, on_conflict: OnConflict) -> ImportTarget:
        return ImportTarget(
            line,
            on_conflict,
            self._keeping.record_schema,
            lambda tables: self._keeping.put_in_place(folder, line, tables),
            lambda about: self._keeping.set_missing_labels(folder, line, about),
            lambda: journal.exists(folder),
        )

    def _worker(self, path: Path, budget: ImportBudget, cancelled: threading.Event | None) -> WorkerProcess:
        """For a staged file, which it may replace by another in the same folder."""
        limits = ProcessLimits(budget.seconds_left(), file_bytes=MAX_NFC_GROWTH * self._import_limits.file_bytes)
        return WorkerProcess(limits, writable=[path.parent], cancelled=cancelled)

    def _get(
        self, caller: Caller, source: str, path: Path, budget: ImportBudget, cancelled: threading.Event | None
    ) -> None:
        max_bytes = self._import_limits.file_bytes
        if not downloads.is_url(source):
            allowed_folders.copy_in(self._import_folders(caller), source, path, max_bytes)
        elif self._urls:
            limits = ProcessLimits(min(budget.seconds_left(), downloads.MAX_FETCH_S), file_bytes=max_bytes)
            with WorkerProcess(limits, writable=[path.parent], network=True, cancelled=cancelled) as worker:
                worker.call(downloads.fetch, source, path, max_bytes)
        else:
            raise Invalid(
                "source: addresses are switched off here. Put the file into the imports folder.", field="source"
            )

    def export_file(
        self,
        caller: Caller,
        uri: str,
        destination: str,
        format_: Format,
        table: str | None,
        query: str | None,
        report_progress: ReportProgress,
        cancelled: threading.Event | None = None,
    ) -> Exported:
        """Write a file: a table, the result of a query, a zip of all tables, or as db the whole portal. It stops when
        the caller leaves.

        The exports folder needs read_memory only and has a quota; other folders need write_memory.
        """
        folder = self._keeping.existing(caller, addresses.portal(uri))
        target = self._export_folder(caller)
        if not (is_counted := allowed_folders.is_in(target.path, destination)):
            caller.require(Scope.WRITE)
        with ExitStack() as running:
            running.enter_context(self._limit_running(self._exporting, MAX_EXPORTS, "exports"))
            line, largest = self._keeping.line(folder), self._largest_export
            zipped = _tables_to_zip(line, destination) if format_ != "db" and not (table or query) else []
            if zipped and not destination.lower().endswith(ZIP):
                destination += ZIP
            stage = partial(staged_file, folder, beginning=UNFINISHED if is_counted else "")
            path = running.enter_context(stage(ZIP if zipped else ENDINGS[format_]))
            if is_counted:
                target.delete_expired()
                largest = min(largest, target.bytes_left())
                line = line.within(dict, target.check_growth(path))
            if format_ == "db":
                tables, rows = self._export_portal(folder, line, path, table or query, largest, cancelled)
            else:
                line = line.until(cancelled)
                if zipped:
                    parts = partial(stage, _ending_in_zip(destination, format_))
                    tables, rows = self._export_zip(line, path, parts, format_, zipped, largest, cancelled)
                else:
                    tables, rows = self._export_table(line, path, destination, format_, table, query, largest)
            check_not_cancelled(cancelled)
            report_progress("The file is made.", 1, 2)
            size, digest = path.stat().st_size, _sha256(path)
            with target.reserve(path, len(PurePath(destination).parts)) if is_counted else nullcontext():
                shown = allowed_folders.move_out(self._export_folders(caller), path, destination)
            report_progress("Done.", 2, 2)
        self._keeping.count_read(folder)
        return Exported(shown, format_, tables, rows, size, digest)

    def _export_zip(
        self,
        line: EngineLine,
        path: Path,
        stage: Callable[[], AbstractContextManager[Path]],
        format_: Format,
        tables: Sequence[Table],
        largest: int,
        cancelled: threading.Event | None,
    ) -> tuple[list[str], int]:
        """Write a zip with a file for each table, as the table is when it is read. `stage` gives a temporary file."""
        rows = 0
        with _archive_worker(path, sum(table.bytes for table in tables), cancelled) as worker:
            worker.start()
            for table in tables:
                with stage() as part:
                    _, count = self._export_table(line, part, part.name, format_, table.name, None, max(1, largest))
                    worker.call(zip_files.add, path, part, f"{table.name}{part.suffix}")
                    rows, largest = rows + count, largest - part.stat().st_size
        return [table.name for table in tables], rows

    def delete_expired_exports(self) -> None:
        """Delete expired exports of all users. The local user's files stay, except those made for a download."""
        top = self._keeping.folder_of(LOCAL_USER)
        self._exports_of(top, None).delete_expired()
        for folder in (top / "users").glob("*"):
            self._exports_of(folder, self._export_days).delete_expired()

    def _export_folder(self, caller: Caller) -> ExportFolder:
        max_days = None if caller.user == LOCAL_USER else self._export_days
        return self._exports_of(self._keeping.folder_of(caller.user), max_days)

    def _exports_of(self, user_folder: Path, max_days: int | None) -> ExportFolder:
        return ExportFolder(user_folder / EXPORTS, user_folder / PORTALS, self._export_quota, max_days)

    @contextmanager
    def _limit_running(self, free: threading.BoundedSemaphore, limit: int, kind: str) -> Iterator[None]:
        """Raises Unavailable if too many run: each occupies a thread."""
        if not free.acquire(blocking=False):
            raise Unavailable(f"{limit} {kind} are running. Try again when one has ended.", retry_after=RETRY_AFTER_S)
        try:
            yield
        finally:
            free.release()

    def _export_portal(
        self,
        folder: PortalFolder,
        line: EngineLine,
        path: Path,
        part: str | None,
        largest: int,
        cancelled: threading.Event | None,
    ) -> tuple[list[str], int]:
        if part is not None:
            raise Invalid(
                "format: db holds the whole portal. Leave table and query out, or choose another.", field="format"
            )
        tables = self._written(folder, line, path, largest, cancelled)
        return [table.name for table in tables], sum(table.rows for table in tables)

    def _written(
        self,
        folder: PortalFolder,
        line: EngineLine,
        path: Path,
        largest: float,
        cancelled: threading.Event | None = None,
    ) -> list[Table]:
        """A whole portal in a sealed file, as it is at one moment. What tables it holds."""
        size = sum(table.bytes for table in storage.tables(line))
        with _archive_worker(path, size, cancelled) as worker:
            worker.start()  # it gets ready while the engine writes
            tables, about = self._back_up(folder, line, path, largest, cancelled)
            worker.call(archive.seal, path, {"metadata": about, "tables": {table.name: table.rows for table in tables}})
        _check_size(path.stat().st_size, largest)
        return tables

    def _back_up(
        self, folder: PortalFolder, line: EngineLine, path: Path, largest: float, cancelled: threading.Event | None
    ) -> tuple[list[Table], dict[str, str]]:
        """Have the engine write a portal to a file. What tables it holds, and what is noted of it."""
        try:
            with folder.existing_write_lock():
                check_not_cancelled(cancelled)
                self._keeping.finish_import(folder, line)
                storage.drop_left_behind(line)
                checksum, about = storage.checksum(line), storage.metadata(line)
                if about.get("mcp.checksum") != checksum:
                    storage.set_metadata(line, {"mcp.checksum": checksum})
                    about["mcp.checksum"] = checksum
                tables = storage.tables(line)
                _check_size(sum(table.bytes for table in tables), largest)
                storage.back_up(line.until(cancelled), str(path))
        except EngineError as exc:
            raise Unavailable("The engine cannot write this portal to a file. Look at the log, or try again.") from exc
        return tables, about

    # Upkeep

    def back_up(self, folder: PortalFolder, target: Path) -> list[Table]:
        """Write a whole portal to a new file, as it is at one moment, while servers go on. What tables it holds."""
        line = self._keeping.line(folder)
        with staged_file(folder, ENDINGS["db"]) as path:
            tables = self._written(folder, line, path, math.inf)
            shutil.copyfile(path, target)
        return tables

    def export_to(self, folder: PortalFolder, table: str, target: Path, format_: Format) -> int:
        """Write a whole table to a new file. How many rows that was."""
        line = self._keeping.line(folder)
        with staged_file(folder, ENDINGS[format_]) as path:
            _, rows = self._export_table(line, path, target.name, format_, table, None, self._largest_export)
            shutil.copyfile(path, target)
        return rows

    def put_back(self, folder: PortalFolder, file: Path) -> int:
        """Make a portal that is not there from its file, as it was. How many rows. Raises Invalid, and leaves nothing,
        for a damaged file."""
        line = self._keeping.line(folder)
        with staged_file(folder, ENDINGS["db"]) as path:
            shutil.copyfile(file, path)
            with _archive_worker(path, path.stat().st_size) as worker, folder.write_lock():
                count = archive_imports.restore_archive(line, worker, path)
                folder.describe(storage.tables(line))
                folder.label(labels_in(storage.metadata(line)))
        return count

    def take_in(self, caller: Caller, address: Address, file: Path) -> int:
        """The same for a caller. Raises Conflict if there is such a portal."""
        folder = self._keeping.folders(caller).get(address)
        if folder.exists():
            raise Conflict(f"There is a portal {address.portal_uri} already.")
        count = self.put_back(folder, file)
        self._keeping.report_change(caller, address, list_changed=True)
        return count

    def _export_table(
        self,
        line: EngineLine,
        path: Path,
        destination: str,
        format_: Format,
        table: str | None,
        query: str | None,
        largest: int,
    ) -> tuple[list[str], int]:
        field = "table" if query is None else "query"
        if query is None:
            chosen = _chosen(storage.tables(line), table)
            query, names = storage.whole_table(chosen.name), [chosen.name]
        elif table is not None:
            raise Invalid("query: give either this or table.", field="query")
        else:
            names = []
        try:
            return names, line.export(query, path, _engine_format(destination, format_), largest, field)
        except EngineError as exc:
            raise Invalid(f"{field}: {exc}", field=field) from exc

    def receive(self, caller: Caller, name: str, offset: int, data: str) -> Received:
        """Add a piece to a file that comes in. Raises Conflict if it does not follow what is there."""
        return uploads.add(self._import_folders(caller)[0], name, offset, data, self._import_limits.file_bytes)

    def hand_over(self, caller: Caller, destination: str, offset: int) -> Piece:
        """The piece of an exported file that begins at `offset`. Raises NotFound."""
        return uploads.take(self._export_folders(caller)[0], destination, offset)

    def _import_folders(self, caller: Caller) -> list[Path]:
        return self._folders(caller, "imports", self._imports)

    def _export_folders(self, caller: Caller) -> list[Path]:
        return self._folders(caller, EXPORTS, self._exports)

    def _folders(self, caller: Caller, name: str, of_local_user: Sequence[Path]) -> list[Path]:
        """A caller who is confined to a namespace shares no file with the user's other keys."""
        own = self._keeping.folder_of(caller.user) / name
        if caller.confined_to is None:
            return [own, *(of_local_user if caller.user == LOCAL_USER else ())]
        if not addresses.NAME.fullmatch(caller.confined_to):
            raise NotFound(f"The namespace {caller.confined_to!r} has no portals: no address can name it.")
        return [own / NAMESPACE_FOLDERS / caller.confined_to]


def _archive_worker(path: Path, size: int, cancelled: threading.Event | None = None) -> WorkerProcess:
    """A process with enough time to read through a portal file of about this size."""
    seconds = MIN_VERIFY_S + size / MIN_VERIFY_BYTES_PER_S
    return WorkerProcess(
        ProcessLimits(seconds, file_bytes=MAX_ARCHIVE_BYTES), writable=[path.parent], cancelled=cancelled
    )


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
            f"{limits.expanded_bytes} bytes of them unpacked and {MAX_EXPANSION} times its own size. Split it.",
            code="too_large",
            field="source",
        ) from exc


def _tables_to_zip(line: EngineLine, destination: str) -> list[Table]:
    """All tables, if an export that names none is a zip: there are several, or the destination says so."""
    tables = storage.tables(line)
    return tables if len(tables) > 1 or destination.lower().endswith(ZIP) else []


def _ending_in_zip(destination: str, format_: Format) -> str:
    """The ending of each file in a zip that has this name: all.jsonl.zip holds JSON lines."""
    inner = destination[: -len(ZIP)]
    return PurePath(inner).suffix if _has_lines(inner, format_) else ENDINGS[format_]


def _engine_format(destination: str, format_: Format) -> str:
    """What the engine calls the format of an export to a file of this name."""
    if format_ == "json":
        return "lines" if _has_lines(destination, format_) else "json"
    return storage.FORMATS[format_]


def _has_lines(destination: str, format_: Format) -> bool:
    """Whether a JSON export has a record a line."""
    return format_ == "json" and destination.endswith((".jsonl", ".ndjson"))


def _chosen(tables: Sequence[Table], name: str | None) -> Table:
    if name is not None:
        return existing_table(tables, name)
    if not tables:
        raise Invalid("table: this portal has no table to export yet. Write records to one first.", field="table")
    if len(tables) > 1:  # several are a zip, unless another call has just created one
        raise Invalid("table: another table was just created. Name a table, or try again for all.", field="table")
    return tables[0]


def _check_size(size: int, largest: float) -> None:
    if size > largest:
        raise Invalid(
            f"format: as db this portal is over {largest:.0f} bytes. Export its tables one by one, or what queries "
            "give of them.",
            code="too_large",
            field="format",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
