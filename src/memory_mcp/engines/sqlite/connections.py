"""One connection to one file: how it is opened, and its transactions."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import apsw

BUSY_TIMEOUT_MS = 5000  # milliseconds to wait for a program that does not use our lock
MAX_CONNECTION_CACHE_KIB = 64_000  # pages of a file that a connection keeps in memory
MAX_CACHE_BYTES = 128 * 1024 * 1024  # of all connections: beyond it, each reuses its own memory for other pages
Durability = Literal["full", "normal"]


def connect(path: Path, durability: Durability) -> apsw.Connection:
    apsw.soft_heap_limit(MAX_CACHE_BYTES)
    connection = apsw.Connection(sqlite_name(path), flags=apsw.SQLITE_OPEN_READWRITE)  # it never creates the file
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # One plan for each statement: otherwise SQLite looks at the bound values, and compiles many of them at every call.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.pragma("synchronous", durability)
    connection.pragma("foreign_keys", "on")
    connection.pragma("cache_size", -MAX_CONNECTION_CACHE_KIB)
    connection.pragma("secure_delete", "on")  # deleted rows are overwritten, not only unlinked
    return connection


def leave_wal(connection: apsw.Connection) -> None:
    """Keep SQLite from removing the WAL when it closes: the name may belong to another file by now."""
    yes = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(yes))


def sqlite_name(path: Path) -> str:
    """A path as SQLite wants it: in UTF-8, also where the locale made Python read it as something else."""
    return os.fsencode(path).decode()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commit if the block finishes, undo everything if it raises."""
    # IMMEDIATE takes the write lock now: a read that turns into a write fails when others write.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite has undone it by itself
            connection.execute("ROLLBACK")
        raise
