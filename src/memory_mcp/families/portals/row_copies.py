"""Copies of rows that an undo has deleted, so that it can be taken back: a file for each undo and table, in the folder
of its portal. It is deleted with its table or portal, and when it expires.

Until the undo is recorded, its copy is pending. Where a pending copy has rows that the table lacks, the server ended
after it had deleted them, and before it recorded that."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.glob import find
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.folders import PORTALS, PortalFolder
from memory_mcp.services.write_journal.model import COPY_LIFETIME, MAX_COPY_BYTES

FOLDER = "undone"
_ENDING = ".native.zst"
_PENDING = f".pending{_ENDING}"


def find_copy(folder: PortalFolder, table: str, undo_id: str, now: datetime) -> Path | None:
    """The copy of an undo, unless it has expired."""
    paths = _path_of(folder, table, undo_id), _path_of(folder, table, undo_id, _PENDING)
    return next((path for path in paths if _is_unexpired(path, now)), None)


def pending_copies(folder: PortalFolder, table: str, now: datetime) -> list[Path]:
    return [path for path in find(folder.path / FOLDER, f"{table}.*{_PENDING}") if _is_unexpired(path, now)]


def mark_recorded(folder: PortalFolder, table: str, undo_id: str) -> None:
    """Rename the copy of an undo, if there is one: the undo is recorded, so the copy is no longer pending."""
    with suppress(FileNotFoundError):
        _path_of(folder, table, undo_id, _PENDING).rename(_path_of(folder, table, undo_id))


def _path_of(folder: PortalFolder, table: str, undo_id: str, ending: str = _ENDING) -> Path:
    return folder.path / FOLDER / f"{table}.{undo_id}{ending}"


@contextmanager
def new_copy(folder: PortalFolder, table: str, undo_id: str) -> Iterator[Path]:
    """The path of a pending copy that the block writes. It is on the disk after the block, and deleted if that fails.
    Raises Unavailable."""
    path = _path_of(folder, table, undo_id, _PENDING)
    with ExitStack() as after_failure:
        after_failure.callback(_delete_if_possible, path)
        try:
            make_private_folder(path.parent)
            yield path
            atomic_write.sync(path)
            atomic_write.sync(path.parent)
        except OSError as exc:
            raise Unavailable(
                f"No copy of the rows could be written ({exc.strerror}), so none was deleted. Free some space, or "
                f"correct the permissions of {FOLDER}/ in the folder of the portal, and try again."
            ) from exc
        after_failure.pop_all()


def _delete_if_possible(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _is_unexpired(path: Path, now: datetime) -> bool:
    try:
        return path.stat().st_mtime >= (now - COPY_LIFETIME).timestamp()
    except FileNotFoundError:
        return False


def delete(folder: PortalFolder, tables: Iterable[str]) -> None:
    """Delete the copies of tables that were dropped or replaced."""
    for table in tables:
        for path in find(folder.path / FOLDER, f"{table}.*{_ENDING}"):
            path.unlink(missing_ok=True)


def delete_expired(user_folder: Path, now: datetime) -> None:
    """Delete a user's expired copies, and the oldest of those beyond the limit of bytes."""
    kept_bytes = 0
    for path, status in _newest_first(user_folder):
        kept_bytes += status.st_size
        if kept_bytes > MAX_COPY_BYTES or status.st_mtime < (now - COPY_LIFETIME).timestamp():
            path.unlink(missing_ok=True)


def _newest_first(user_folder: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in find(user_folder / PORTALS, f"*/*/{FOLDER}/*{_ENDING}"):
        with suppress(FileNotFoundError):  # its portal is deleted by now
            found.append((path, path.stat()))
    return sorted(found, key=lambda one: one[1].st_mtime, reverse=True)
