"""The folder that a user's exports go to: how much it may hold, and how long files stay in it.

There is a quota because read_memory is enough to export, and every export is a file on the server's disk.
"""

import base64
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.glob import find
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import Outside, Root
from memory_mcp.engines.files.uploads import delete_expired
from memory_mcp.engines.portal_engine import ResultTooLarge
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.portals.model import Piece

DOWNLOADS = "downloads"  # in exports/: files for a page, which downloads them piece by piece
PIECE_BYTES = 512 * 1024  # of a download
UNFINISHED = "export-"  # prefix of the names of exports in staging
MAX_ENTRIES = 10_000  # files and folders
MIN_ENTRY_BYTES = 4096  # a smaller file counts as this
RECOUNT_INTERVAL_S = 1.0  # between two counts of the unfinished exports of other calls
DAY_S = 86_400


@dataclass(frozen=True)
class QuotaFolder:
    """The exports folder of one user."""

    path: Path
    portals: Path  # the user's portals, where exports are written first
    quota: int  # in bytes
    max_days: int | None  # None: files do not expire

    def delete_expired(self) -> None:
        """Delete files that are too old, and folders that are empty."""
        delete_expired(self.path / DOWNLOADS)
        if self.max_days is None:
            return
        expired = time.time() - self.max_days * DAY_S
        for path, status in _entries(self.path):
            with suppress(OSError):  # another process was faster, or the folder is not empty
                if stat.S_ISDIR(status.st_mode):
                    if status.st_mtime < expired:
                        path.rmdir()
                elif status.st_mtime < expired:
                    path.unlink()

    def check_growth(self, unfinished: Path) -> Callable[[], None]:
        """A check that raises Invalid once an unfinished export, together with all others, exceeds the quota."""
        finished = self._finished_bytes()
        others, counted_at = 0, -RECOUNT_INTERVAL_S

        def check() -> None:
            nonlocal others, counted_at
            if time.monotonic() - counted_at >= RECOUNT_INTERVAL_S:
                others, counted_at = self._unfinished_bytes(unfinished), time.monotonic()
            if finished + others + _size(unfinished) > self.quota:
                raise self._is_full()

        check()
        return check

    def bytes_left(self) -> int:
        """Raises Invalid if there are none."""
        left = self.quota - self._finished_bytes() - self._unfinished_bytes(None)
        if left <= 0:
            raise self._is_full()
        return left

    @contextmanager
    def limit_export(self, max_bytes: int) -> Iterator[int]:
        """How large an export in this block may be: `max_bytes`, or what is left of the quota. Raises Invalid with the
        quota if that stops it."""
        left = self.bytes_left()
        try:
            yield min(max_bytes, left)
        except ResultTooLarge as exc:
            if left < max_bytes:
                raise self._is_full() from exc
            raise

    @contextmanager
    def reserve(self, unfinished: Path, folders: int) -> Iterator[None]:
        """Lock the folder while the caller moves a finished export into it, `folders` levels deep.

        Raises Invalid if the quota does not allow it. The lock holds for all servers, so the count stays true.
        """
        make_private_folder(self.path)
        with FileLock(self.path).acquire():
            count = sum(1 for _ in _entries(self.path))
            if count + folders + 1 > MAX_ENTRIES:
                raise self._is_full()
            if self._finished_bytes() + max(MIN_ENTRY_BYTES, _size(unfinished)) > self.quota:
                raise self._is_full()
            yield

    def _finished_bytes(self) -> int:
        return sum(max(MIN_ENTRY_BYTES, status.st_size) for _, status in _entries(self.path))

    def _unfinished_bytes(self, but: Path | None) -> int:
        """Of the exports that all servers are writing."""
        found = find(self.portals, f"*/*/staging/{UNFINISHED}*")
        return sum(_size(path) for path in found if path != but)

    def _is_full(self) -> Invalid:
        kept = f", or wait until they are {self.max_days} days old" if self.max_days is not None else ""
        return Invalid(
            f"destination: exports would take up more than {self.quota} bytes, or be more than {MAX_ENTRIES} files. "
            f"Export less, or delete files in the folder {self.path.name!r}{kept}.",
            code="too_large",
            field="destination",
            quota=self.quota,
        )


def read_piece(exports: Path, destination: str, offset: int) -> Piece:
    parts = PurePath(destination).parts
    if len(parts) != 2 or parts[0] != DOWNLOADS:
        raise Invalid(f"destination: only exports to {DOWNLOADS}/ can be downloaded.", field="destination")
    delete_expired(exports / DOWNLOADS)
    try:
        with Root(exports).entry(parts) as entry, entry.opened() as (file, status):
            file.seek(offset)
            piece = file.read(PIECE_BYTES)
    except Outside as exc:
        raise Invalid(f"Only files in the folder {exports.name!r} are possible.", field="destination") from exc
    except FileNotFoundError as exc:
        raise NotFound("destination: there is no such export. Export it again.", field="destination") from exc
    is_last = offset + len(piece) >= status.st_size
    return Piece(base64.b64encode(piece).decode(), offset, status.st_size, is_last)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Files and folders below one, those inside of a folder first. No symlink is followed."""
    for top, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(top) / name
            with suppress(OSError):  # deleted by now
                yield path, path.lstat()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # not begun, or just finished
        return 0
