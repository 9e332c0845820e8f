"""Files in and out of portals: who may, which files, and how many at a time."""

import math
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePath

from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.engine import archive
from memory_mcp.engine.client import EngineError, EngineLine, LimitReached, check_wanted
from memory_mcp.errors import Conflict, Invalid, NotFound, Unavailable
from memory_mcp.families import Progress
from memory_mcp.portals import address as addresses
from memory_mcp.portals import fetching, inspection, moving, pieces, places, storage
from memory_mcp.portals.address import Address
from memory_mcp.portals.exports import UNFINISHED, ExportFolder
from memory_mcp.portals.folders import PORTALS, PortalFolder
from memory_mcp.portals.keeping import Keeping, existing_table, writable
from memory_mcp.portals.limits import MAX_EXPANSION, ImportBudget, ImportLimits
from memory_mcp.portals.model import Exported, Format, Imported, Piece, Received, Table
from memory_mcp.workers.process import LimitExceeded, Limits, Worker

ENDINGS: dict[Format, str] = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "db": ".tar"}
MAX_IMPORTS = 8  # of one server, those that wait for their portal too: each has a thread and a process
EXPORTS = "exports"
RETRY_AFTER_S = 5
MIN_VERIFY_SECONDS = 600  # that a portal file of any size has to be read through
MIN_BYTES_PER_SECOND = 20_000_000  # and this, for a large one
ANY_SIZE = 2**62  # bytes of a file: the list of its parts is added to a portal's file, however large that is
MAX_NFC_GROWTH = 3  # times its bytes that a text in NFC may have
OF_NAMESPACES = "namespaces"  # in imports/ and exports/: a folder for each namespace that a key is confined to
MOST_EXPORTS = 8  # of one server, those that wait their turn too: the others are refused, and reads go on


class Transfers:
    """Imports and exports."""

    def __init__(
        self,
        keeping: Keeping,
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
        self._exporting = threading.BoundedSemaphore(MOST_EXPORTS)
        self._importing = threading.BoundedSemaphore(MAX_IMPORTS)

    def import_file(
        self,
        caller: Caller,
        uri: str,
        source: str,
        format_: Format,
        table: str | None,
        mapping: Mapping[str, str],
        tell: Progress,
        cancelled: threading.Event | None = None,
    ) -> Imported:
        """Add what a file holds: all of it, or nothing. A missing portal or table is made. A caller who leaves before
        the rows are moved to their table has imported nothing."""
        address = addresses.portal(uri)
        if format_ == "db" and mapping:
            raise Invalid("mapping: a db file brings its columns as they are. Leave mapping out.", field="mapping")
        name = writable(moving.table_name(source, table)) if format_ != "db" else table
        folder = self._keeping.folders(caller).get(address)
        budget = self._import_limits.begin()
        with (
            self._one_of_few(self._importing, MAX_IMPORTS, "imports"),
            _translate_limits(self._import_limits),
            moving.staged(folder, ENDINGS[format_]) as path,
            self._worker(path, budget, cancelled) as worker,
        ):
            if format_ != "parquet":  # which the engine reads alone
                worker.start()
            self._get(caller, source, path, budget, cancelled)  # before the turn: it may take a while
            arrival = moving.Arrival(path, format_, worker, budget, cancelled)
            if format_ in ("json", "csv"):
                worker.call(inspection.prepare, path, format_)
            tell(1, 3, "The file is there.")
            with folder.turn():
                check_wanted(cancelled)
                line = self._keeping.opened(folder)
                with self._keeping.changing(caller, folder, line):
                    if format_ == "db":
                        names, count = moving.open_file(line, arrival, name, self._keeping.new_schema)
                    else:
                        names = [str(name)]
                        count = moving.load(line, arrival, str(name), mapping, self._keeping.new_schema)
            pieces.forget(self._import_folders(caller)[0], source)
            tell(2, 3, f"{count} records are in.")
            tell(3, 3, "Done.")
        return Imported(address.portal_uri, ", ".join(names), count)

    def _worker(self, path: Path, budget: ImportBudget, cancelled: threading.Event | None) -> Worker:
        """For a staged file, which it may replace by another in the same folder."""
        limits = Limits(budget.seconds_left(), file_bytes=MAX_NFC_GROWTH * self._import_limits.file_bytes)
        return Worker(limits, writable=[path.parent], cancelled=cancelled)

    def _get(
        self, caller: Caller, source: str, path: Path, budget: ImportBudget, cancelled: threading.Event | None
    ) -> None:
        max_bytes = self._import_limits.file_bytes
        if not fetching.is_url(source):
            places.copy_in(self._import_folders(caller), source, path, max_bytes)
        elif self._urls:
            limits = Limits(min(budget.seconds_left(), fetching.MAX_FETCH_SECONDS), file_bytes=max_bytes)
            with Worker(limits, writable=[path.parent], network=True, cancelled=cancelled) as worker:
                worker.call(fetching.fetch, source, path, max_bytes)
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
        tell: Progress,
        cancelled: threading.Event | None = None,
    ) -> Exported:
        """Write a table, what a query gives, or as db the whole portal, to a file. It stops when its caller leaves.

        Who may only read writes to the exports folder, as far as its quota goes; other folders need write_memory.
        """
        folder = self._keeping.existing(caller, addresses.portal(uri))
        target = self._export_folder(caller)
        if not (is_counted := places.is_in(target.path, destination)):
            caller.require(Scope.WRITE)
        with (
            self._one_of_few(self._exporting, MOST_EXPORTS, "exports"),
            moving.staged(folder, ENDINGS[format_], UNFINISHED if is_counted else "") as path,
        ):
            line, largest = self._keeping.line(folder), self._largest_export
            if is_counted:
                target.delete_expired()
                largest = min(largest, target.bytes_left())
                line = line.within(dict, target.check_growth(path))
            if format_ == "db":
                tables, rows = self._export_portal(folder, line, path, table or query, largest, cancelled)
            else:
                tables, rows = self._export_table(
                    line.until(cancelled), path, destination, format_, table, query, largest
                )
            check_wanted(cancelled)
            tell(1, 2, "The file is made.")
            size, digest = path.stat().st_size, moving.digest(path)
            with target.adding(path, len(PurePath(destination).parts)) if is_counted else nullcontext():
                shown = places.move_out(self._export_folders(caller), path, destination)
            tell(2, 2, "Done.")
        return Exported(shown, format_, tables, rows, size, digest)

    def delete_expired_exports(self) -> None:
        """Of all users. The local user's files stay, save those that were made for a download."""
        top = self._keeping.folder_of(LOCAL_USER)
        self._folder_for_exports(top, None).delete_expired()
        for folder in (top / "users").glob("*"):
            self._folder_for_exports(folder, self._export_days).delete_expired()

    def _export_folder(self, caller: Caller) -> ExportFolder:
        max_days = None if caller.user == LOCAL_USER else self._export_days
        return self._folder_for_exports(self._keeping.folder_of(caller.user), max_days)

    def _folder_for_exports(self, user_folder: Path, max_days: int | None) -> ExportFolder:
        return ExportFolder(user_folder / EXPORTS, user_folder / PORTALS, self._export_quota, max_days)

    @contextmanager
    def _one_of_few(self, free: threading.BoundedSemaphore, most: int, what: str) -> Iterator[None]:
        """Raises Unavailable when too many are under way: each has a thread that reads would lack."""
        if not free.acquire(blocking=False):
            raise Unavailable(
                f"{most} {what} are under way here. Try again when one has ended.", retry_after=RETRY_AFTER_S
            )
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
            with folder.turn():
                check_wanted(cancelled)
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
        with moving.staged(folder, ENDINGS["db"]) as path:
            tables = self._written(folder, line, path, math.inf)
            shutil.copyfile(path, target)
        return tables

    def export_to(self, folder: PortalFolder, table: str, target: Path, format_: Format) -> int:
        """Write a whole table to a new file. How many rows that was."""
        line = self._keeping.line(folder)
        with moving.staged(folder, ENDINGS[format_]) as path:
            _, rows = self._export_table(line, path, target.name, format_, table, None, self._largest_export)
            shutil.copyfile(path, target)
        return rows

    def put_back(self, folder: PortalFolder, file: Path) -> int:
        """Make a portal that is not there from its file, as it was. How many rows. Raises Invalid, and leaves nothing,
        for a damaged file."""
        line = self._keeping.line(folder)
        with moving.staged(folder, ENDINGS["db"]) as path:
            shutil.copyfile(file, path)
            with _archive_worker(path, path.stat().st_size) as worker, folder.turn():
                count = moving.open_whole(line, worker, path)
                folder.describe(storage.tables(line))
        return count

    def take_in(self, caller: Caller, address: Address, file: Path) -> int:
        """The same for a caller. Raises Conflict if there is such a portal."""
        folder = self._keeping.folders(caller).get(address)
        if folder.exists():
            raise Conflict(f"There is a portal {address.portal_uri} already.")
        count = self.put_back(folder, file)
        self._keeping.tell(caller, address, list_changed=True)
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
        lines = format_ == "json" and destination.endswith((".jsonl", ".ndjson"))
        try:
            kind = "lines" if lines else "json" if format_ == "json" else storage.FORMATS[format_]
            return names, line.export(query, path, kind, largest, field)
        except EngineError as exc:
            raise Invalid(f"{field}: {exc}", field=field) from exc

    def receive(self, caller: Caller, name: str, offset: int, data: str) -> Received:
        """Add a piece to a file that comes in. Raises Conflict if it does not follow what is there."""
        return pieces.add(self._import_folders(caller)[0], name, offset, data, self._import_limits.file_bytes)

    def hand_over(self, caller: Caller, destination: str, offset: int) -> Piece:
        """The piece of an exported file that begins at `offset`. Raises NotFound."""
        return pieces.take(self._export_folders(caller)[0], destination, offset)

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
        return [own / OF_NAMESPACES / caller.confined_to]


def _archive_worker(path: Path, size: int, cancelled: threading.Event | None = None) -> Worker:
    """For a portal's file of about this size that is read through, however large it is."""
    seconds = MIN_VERIFY_SECONDS + size / MIN_BYTES_PER_SECOND
    return Worker(Limits(seconds, file_bytes=ANY_SIZE), writable=[path.parent], cancelled=cancelled)


@contextmanager
def _translate_limits(limits: ImportLimits) -> Iterator[None]:
    try:
        yield
    except (LimitReached, LimitExceeded) as exc:
        is_time = exc.is_time if isinstance(exc, LimitReached) else exc.limit == "time"
        if is_time:
            raise Invalid(
                f"source: this took more than {limits.seconds} s, and nothing was imported. Split the file.",
                word="timeout",
                field="source",
            ) from exc
        raise Invalid(
            f"source: the file holds too much, and nothing was imported. It may hold {limits.rows} records, "
            f"{limits.expanded_bytes} bytes of them unpacked and {MAX_EXPANSION} times its own size. Split it.",
            word="too_large",
            field="source",
        ) from exc


def _chosen(tables: Sequence[Table], name: str | None) -> Table:
    if name is not None:
        return existing_table(tables, name)
    if len(tables) != 1:
        listed = ", ".join(table.name for table in tables) or "none"
        raise Invalid(f"table: name one of the portal's tables ({listed}), or give a query.", field="table")
    return tables[0]


def _check_size(size: int, largest: float) -> None:
    if size > largest:
        raise Invalid(
            f"format: as db this portal is over {largest:.0f} bytes. Export its tables one by one, or what queries "
            "give of them.",
            word="too_large",
            field="format",
        )
