"""Whether a file is sound: its pages, its full-text indexes, its references; and full-text indexes rebuilt."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.connections import connect, sqlite_name
from memory_mcp.engines.sqlite.database import prepare_file, translate_errors
from memory_mcp.engines.sqlite.migrations import Schema
from memory_mcp.errors import AppError, Unavailable, Unusable

MAX_PROBLEMS = 5  # reported for one file
EMPTY = "it is empty, as a full disk or a power cut leaves a file"


@dataclass(frozen=True)
class Fault:
    """A problem of a file, as a message."""

    message: str
    index: str | None = None  # the full-text index to be rebuilt, if that is all
    details: tuple[str, ...] = ()  # in the words of SQLite

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the file, not even tables."""
        return self.message == EMPTY


def check_copy(path: Path, schema: Schema) -> str | None:
    """The problem of a file that no other process uses, after a quick check; None if it has none."""
    try:
        with closing(apsw.Connection(sqlite_name(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            if wrong := _is_of_another_kind(connection, schema):
                return wrong
            found = [text for (text,) in connection.execute("PRAGMA quick_check(1)")]
    except apsw.Error as exc:
        return f"it cannot be read ({exc})"
    return None if found == ["ok"] else f"it is damaged ({found[0]})"


def faults(path: Path, schema: Schema, lock_path: Path) -> Iterator[Fault]:
    """All problems of a file that others may be using. Nothing is changed."""
    lock = FileLock(lock_path)
    if _is_blank(path):
        yield Fault(EMPTY)
        return
    try:
        connection = _connect(path, lock)
    except AppError as exc:
        yield Fault(f"it cannot be opened ({exc.message})")
        return
    try:
        if wrong := _is_of_another_kind(connection, schema):
            yield Fault(wrong)
            return
        if refused := _refusal(connection, schema, lock):
            yield Fault(f"a server cannot use it: {refused}")
            return
        damaged = [text for (text,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})") if text != "ok"]
        indexes = list(word_indexes(connection))
        for text in damaged:
            if index := _named(text, indexes):
                yield Fault(text, index)
        if others := tuple(text for text in damaged if not _named(text, indexes)):
            yield Fault("it is damaged: parts of it cannot be read", details=others)
            return
        for table, column, *_ in connection.execute("PRAGMA foreign_key_check").fetchall()[:MAX_PROBLEMS]:
            yield Fault(f"row {column} of {table} refers to something that is not there")
        reported = {_named(text, indexes) for text in damaged}
        with lock.acquire():  # SQLite runs this check as a write
            wrong_ones = {index: _index_error(connection, index) for index in indexes if index not in reported}
        for index, wrong in wrong_ones.items():
            if wrong:
                yield Fault(f"the index {index} does not fit what it indexes ({wrong})", index)
    except (apsw.BusyError, Unavailable):
        yield Fault("another process holds it: try again")
    except apsw.Error as exc:
        yield Fault(f"it cannot be read to its end ({exc})")
    finally:
        connection.close()


def _refusal(connection: apsw.Connection, schema: Schema, lock: FileLock) -> str | None:
    """Why the migrations that a start would run on this file fail; None if they do not. They are undone."""
    if migrations.version(connection) == schema.version:
        return None
    try:
        with lock.acquire():
            migrations.dry_run(connection, schema)
    except Unusable as exc:
        return exc.message.rstrip(".")
    return None


def word_indexes(connection: apsw.Connection) -> Iterator[str]:
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL"):
        if re.search(r"\busing\s+fts5\b", sql, re.IGNORECASE):
            yield name


def has_its_own_texts(connection: apsw.Connection, index: str) -> bool:
    """Whether an index can be rebuilt from a table it names. One without texts needs the caller to know them."""
    (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (index,)).fetchall()[0]
    return not re.search(r"content\s*=\s*''", str(sql))


def rebuild(connection: apsw.Connection, index: str) -> None:
    connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')").fetchall()


def empty(connection: apsw.Connection, indexes: Iterable[str]) -> None:
    """Delete everything from indexes whose texts the caller knows."""
    for index in indexes:
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('delete-all')").fetchall()


def _index_error(connection: apsw.Connection, index: str) -> str | None:
    rank = 1 if has_its_own_texts(connection, index) else 0
    try:
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', {rank})").fetchall()
    except apsw.BusyError:
        raise
    except apsw.Error as exc:
        return str(exc) or type(exc).__name__
    return None


def _is_blank(path: Path) -> bool:
    """Whether a file has no bytes, or zeros only. False for one that cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return not any(any(block) for block in iter(lambda: file.read(64 * 1024), b""))
    return False


def is_current(path: Path, schema: Schema, lock_path: Path) -> bool:
    """Whether a file can be opened without changing it: it has the schema of this program. Raises Unavailable for one
    that cannot be read, or whose lock is not free in time."""
    with translate_errors(path), closing(_connect(path, FileLock(lock_path))) as connection:
        return migrations.is_current(connection, schema)


def _connect(path: Path, lock: FileLock) -> apsw.Connection:
    """While holding the lock, so that no other file's WAL is applied to it."""
    with translate_errors(path):
        lock.path.parent.mkdir(mode=0o700, exist_ok=True)
        with lock.acquire():
            prepare_file(path, lock.note())
            return connect(path, "full")


def _is_of_another_kind(connection: apsw.Connection, schema: Schema) -> str | None:
    if migrations.is_replaced(connection, schema):
        return None
    version = int(connection.pragma("user_version"))
    if version > schema.version:
        return f"a newer Memory MCP wrote it (its schema is {version}, this program knows {schema.version})"
    if version and connection.pragma("application_id") != schema.application_id:
        return "it is a file of another kind"
    if not version and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        return EMPTY
    return None


def _named(text: str, indexes: Iterable[str]) -> str | None:
    """Which full-text index an error message names."""
    return next((index for index in indexes if re.search(rf"\b{index}\b", text)), None)
