"""Numbered migrations: each runs once per file, whoever comes first; a newer file is refused, an older one copied."""

from dataclasses import dataclass
from pathlib import Path

import apsw

from memory_mcp.clock import Clock
from memory_mcp.errors import Unavailable
from memory_mcp.sqlite.connections import sqlite_name, transaction

APPLICATION_ID = 0x4D4D4350  # "MMCP", in the header of every file that is ours


@dataclass(frozen=True)
class Migration:
    number: int
    sql: str


def load(folder: Path) -> tuple[Migration, ...]:
    """The files 0001_*.sql, 0002_*.sql, ... of a folder, in order."""
    files = sorted(folder.glob("[0-9]*.sql"))
    return tuple(Migration(int(f.name.split("_")[0]), f.read_text(encoding="utf-8")) for f in files)


def version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def is_current(connection: apsw.Connection, migrations: tuple[Migration, ...]) -> bool:
    """True if nothing is to be done. Raises Unavailable for a file from a newer version, or another program."""
    known, found = migrations[-1].number, version(connection)
    if found and connection.pragma("application_id") != APPLICATION_ID:
        raise Unavailable(
            f"{Path(connection.filename).name} belongs to another program. Nothing was changed; use another --data-dir."
        )
    if found > known:
        raise Unavailable(
            f"{Path(connection.filename).name} was written by a newer Memory MCP (its schema is {found}, "
            f"this program knows {known}). Nothing was changed. Upgrade memory-mcp, or use another --data-dir."
        )
    return found == known


def run(connection: apsw.Connection, migrations: tuple[Migration, ...], backups: Path, clock: Clock) -> None:
    """Bring the file up to date. The caller holds the write turn, so this happens once."""
    if is_current(connection, migrations):
        return
    _copy_if_used(connection, backups, clock)
    for migration in migrations:
        if migration.number > version(connection):
            _run_one(connection, migration)


def _run_one(connection: apsw.Connection, migration: Migration) -> None:
    with transaction(connection):
        connection.execute(migration.sql).fetchall()
        connection.pragma("user_version", migration.number)
        connection.pragma("application_id", APPLICATION_ID)


def _copy_if_used(connection: apsw.Connection, backups: Path, clock: Clock) -> None:
    """Keep the file as it was before, if it holds anything."""
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
        return
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{Path(connection.filename).stem}-v{version(connection)}-{clock():%Y%m%dT%H%M%S%f}.db"
    connection.execute("VACUUM INTO ?", (sqlite_name(backups / name),))
    (backups / name).chmod(0o600)
