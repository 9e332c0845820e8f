"""Which folders a caller may import from and export to, and how many transfers run at a time."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.engines.files.uploads import IMPORTS
from memory_mcp.engines.isolation.worker_process import ProcessLimits, WorkerProcess
from memory_mcp.errors import NotFound, Unavailable
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals.limits import TransferLimits
from memory_mcp.families.portals.model import FileFormat

ENDINGS: dict[FileFormat, str] = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "db": ".tar"}
ZIP = ".zip"
RETRY_AFTER_S = 5
MIN_VERIFY_S = 600  # to read through a portal file of any size
MIN_VERIFY_BYTES_PER_S = 20_000_000  # a large file gets more time, at this rate
MAX_ARCHIVE_BYTES = 2**62  # no limit in effect: a portal file may have any size
EXPORTS = "exports"
NAMESPACE_FOLDERS = "namespaces"  # in imports/ and exports/: a folder for each namespace that a key is confined to


class TransferFolders:
    """The folders of each user, and those that the local user may use beside them."""

    def __init__(
        self, folder_of: Callable[[str], Path], import_folders: Sequence[Path], export_folders: Sequence[Path]
    ) -> None:
        self._folder_of = folder_of
        self._imports = import_folders
        self._exports = export_folders

    def imports(self, caller: Caller) -> list[Path]:
        return self._folders(caller, IMPORTS, self._imports)

    def exports(self, caller: Caller) -> list[Path]:
        return self._folders(caller, EXPORTS, self._exports)

    def _folders(self, caller: Caller, name: str, of_local_user: Sequence[Path]) -> list[Path]:
        """A caller who is confined to a namespace shares no file with the user's other keys."""
        own = self._folder_of(caller.user) / name
        if caller.confined_to is None:
            return [own, *(of_local_user if caller.user == LOCAL_USER else ())]
        if not addresses.NAME.fullmatch(caller.confined_to):
            raise NotFound(f"The namespace {caller.confined_to!r} has no portals: no address can name it.")
        return [own / NAMESPACE_FOLDERS / caller.confined_to]


class RunningTransfers:
    """The imports or the exports that run, waiting ones included: each occupies a thread, and the disk."""

    def __init__(self, kind: str, limits: TransferLimits) -> None:
        self._kind = kind
        self._limits = limits
        self._by_user: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def begin(self, user: str) -> Iterator[None]:
        """Count one of this user until the block ends. Raises Unavailable if too many run."""
        with self._lock:
            self._check(self._by_user.total(), self._limits.total, "")
            self._check(self._by_user[user], self._limits.per_user, " of yours")
            self._by_user[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._by_user[user] -= 1
                self._by_user += Counter()  # drops users without any

    def _check(self, count: int, limit: int, whose: str) -> None:
        if count >= limit:
            raise Unavailable(
                f"{limit} {self._kind}{whose} are running. Try again when one has ended.", retry_after=RETRY_AFTER_S
            )


def archive_worker(path: Path, size: int, cancelled: threading.Event | None = None) -> WorkerProcess:
    """A process with enough time to read through a portal file of about this size."""
    seconds = MIN_VERIFY_S + size / MIN_VERIFY_BYTES_PER_S
    return WorkerProcess(
        ProcessLimits(seconds, file_bytes=MAX_ARCHIVE_BYTES), writable=[path.parent], cancelled=cancelled
    )
