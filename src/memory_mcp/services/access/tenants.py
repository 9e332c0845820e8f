"""A tenant is a folder: the local user's is the data directory, every other user's is users/<id>/ inside it."""

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.sqlite import Database, sibling_files
from memory_mcp.errors import Unavailable

REMOVED = ".removed-"  # in front of the name of a folder that is being deleted


def folder_of(data_dir: Path, user: str) -> Path:
    return data_dir if user == LOCAL_USER else data_dir / "users" / user


def delete_folder(data_dir: Path, user: str) -> None:
    """Delete all data of a further user. Raises Unavailable naming a file that is still there.

    The folder is renamed first: a server that looks while files are deleted one by one would create them again.
    """
    folder = folder_of(data_dir, user)
    leaving = folder.with_name(f"{REMOVED}{user}")
    with suppress(OSError):  # it does not exist, or cannot be renamed: then it is deleted in place
        folder.rename(leaving)
    shutil.rmtree(leaving, ignore_errors=True)
    if leaving.exists():
        leaving.rename(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        left = next((path for path in folder.rglob("*") if not path.is_dir()), folder)
        raise Unavailable(f"{left} cannot be deleted. Correct its permissions, and delete {folder} yourself.")


class Tenants:
    """One family's database for each user, opened at first use."""

    def __init__(self, data_dir: Path, local_path: Path, open_file: Callable[[Path], Database]) -> None:
        self._data_dir = data_dir
        self._local_path = local_path
        self._open = open_file
        self._opening = threading.Lock()
        self._databases: dict[str, Database] = {}

    def database(self, user: str) -> Database:
        with self._opening:
            if user not in self._databases:
                opened = self._databases[user] = self._open(self._path(user))
                if user != LOCAL_USER and opened.path == self._path(user):
                    data_directory.mark(self.folder(user))
            return self._databases[user]

    def recreate(self, user: str) -> None:
        """Delete a user's file, which must be a cache; the next use creates an empty one."""
        with self._opening:
            database = self._databases.pop(user, None)
            if database:
                database.close()
            sibling_files.delete_database(self._path(user))

    def exists(self, user: str) -> bool:
        """Whether this user has a file. Creates none."""
        return self._path(user).exists()

    def opened(self) -> list[Database]:
        with self._opening:
            return list(self._databases.values())

    def close(self) -> None:
        for database in self.opened():
            database.close()

    def folder(self, user: str) -> Path:
        return folder_of(self._data_dir, user)

    def _path(self, user: str) -> Path:
        return self._local_path if user == LOCAL_USER else self.folder(user) / self._local_path.name
