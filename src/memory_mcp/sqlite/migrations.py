"""Numbered migrations: each runs once per file, whoever comes first; a newer file is refused, an older one copied."""

from dataclasses import dataclass
from pathlib import Path

import apsw

from memory_mcp.clock import Clock
from memory_mcp.errors import Unusable
from memory_mcp.sqlite.connections import sqlite_name, transaction


@dataclass(frozen=True)
class Migration:
    number: int
    sql: str


@dataclass(frozen=True)
class Schema:
    """What a kind of file holds. Its application id stands in the header of every file of the kind."""

    application_id: int
    migrations: tuple[Migration, ...]

    @property
    def version(self) -> int:
        return self.migrations[-1].number


def load(folder: Path, application_id: int) -> Schema:
    """The schema that the files 0001_*.sql, 0002_*.sql, ... of a folder make, in order."""
    files = sorted(folder.glob("[0-9]*.sql"))
    steps = (Migration(int(f.name.split("_")[0]), f.read_text(encoding="utf-8")) for f in files)
    return Schema(application_id, tuple(steps))


def is_current(connection: apsw.Connection, schema: Schema) -> bool:
    """True if nothing is to be done. Raises Unusable for a file from a newer version, or of another kind."""
    name, found = Path(connection.filename).name, version(connection)
    if found > schema.version:
        raise Unusable(
            f"{name} was written by a newer Memory MCP (its schema is {found}, this program knows {schema.version}). "
            "Nothing was changed. Upgrade memory-mcp, or use another --data-dir."
        )
    if found and connection.pragma("application_id") != schema.application_id:
        raise Unusable(f"{name} is a file of another kind. Nothing was changed; choose another file or --data-dir.")
    return found == schema.version


def run(connection: apsw.Connection, schema: Schema, backups: Path, clock: Clock) -> None:
    """Bring the file up to date. The caller holds the write turn, so this happens once."""
    if is_current(connection, schema):
        return
    _copy_if_used(connection, backups, clock)
    for migration in schema.migrations:
        if migration.number > version(connection):
            _run_one(connection, migration, schema.application_id)


def version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def _run_one(connection: apsw.Connection, migration: Migration, application_id: int) -> None:
    try:
        with transaction(connection):
            connection.execute(migration.sql).fetchall()
            connection.pragma("user_version", migration.number)
            connection.pragma("application_id", application_id)
    except apsw.SQLError as exc:
        name = Path(connection.filename).name
        raise Unusable(
            f"{name} has tables of another shape than this program's ({exc}). Nothing was changed; move it away."
        ) from exc


def _copy_if_used(connection: apsw.Connection, backups: Path, clock: Clock) -> None:
    """Keep the file as it was before, if it holds anything."""
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
        return
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{Path(connection.filename).stem}-v{version(connection)}-{clock():%Y%m%dT%H%M%S%f}.db"
    connection.execute("VACUUM INTO ?", (sqlite_name(backups / name),))
    (backups / name).chmod(0o600)
