"""Files in the folders of projects that the registry does not list."""

from contextlib import closing
from pathlib import Path

import apsw

from memory_mcp.engines.sqlite.connections import sqlite_name


def is_blank(path: Path, application_id: int) -> bool:
    """Whether a file is a project's and empty. False for one that cannot be read."""
    try:
        with closing(apsw.Connection(sqlite_name(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                return connection.pragma("application_id") in (0, application_id)
            is_ours = connection.pragma("application_id") == application_id
            return is_ours and not connection.execute("SELECT 1 FROM entities LIMIT 1").fetchall()
    except apsw.Error:
        return False


def is_of_kind(path: Path, application_id: int) -> bool:
    """Whether a file was made or migrated by this program. False for one that cannot be read."""
    try:
        with closing(apsw.Connection(sqlite_name(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            return bool(connection.pragma("application_id") == application_id)
    except apsw.Error:
        return False
