"""Numbered migrations: each runs once per file, in the first process that opens it; a newer file is refused, an older
one copied."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from memory_mcp.clock import Clock
from memory_mcp.engines.sqlite.connections import sqlite_name, transaction
from memory_mcp.errors import Unusable

Adopt = Callable[[apsw.Connection], None]


@dataclass(frozen=True)
class Migration:
    number: int
    sql: str


@dataclass(frozen=True)
class Schema:
    """The tables of a kind of file. Its application id is in the header of every file of the kind."""

    application_id: int
    migrations: tuple[Migration, ...]
    adopt: Adopt | None = None  # what a file of another implementation needs before the first migration
    replaces: int | None = None  # the application id of a former kind of cache: such a file is emptied

    @property
    def version(self) -> int:
        return self.migrations[-1].number


def load(folder: Path, application_id: int, adopt: Adopt | None = None, replaces: int | None = None) -> Schema:
    """The schema that the files 0001_*.sql, 0002_*.sql, ... of a folder make, in order."""
    files = sorted(folder.glob("[0-9]*.sql"))
    steps = (Migration(int(f.name.split("_")[0]), f.read_text(encoding="utf-8")) for f in files)
    return Schema(application_id, tuple(steps), adopt, replaces)


def is_current(connection: apsw.Connection, schema: Schema) -> bool:
    """True if nothing is to be done. Raises Unusable for a file from a newer version, or of another kind."""
    if is_replaced(connection, schema):
        return False
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
    """Bring the file up to date. The caller holds the write lock, so this happens once.

    Raises Unusable, and leaves the file and backups/ as they were, if it cannot be done.
    """
    if is_current(connection, schema):
        return
    if is_replaced(connection, schema):
        _empty(connection)
    if is_foreign(connection):
        dry_run(connection, schema)
    copy, before = _copy_if_used(connection, backups, clock), version(connection)
    try:
        for migration in schema.migrations:
            if migration.number > version(connection):
                with transaction(connection):
                    _run_one(connection, migration, schema)
    except BaseException:
        if copy and version(connection) == before:  # nothing was changed
            copy.unlink(missing_ok=True)
        raise


def dry_run(connection: apsw.Connection, schema: Schema) -> None:
    """Run every migration and undo it. Raises Unusable if one of them fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in schema.migrations:
            if migration.number > version(connection):
                _run_one(connection, migration, schema)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def is_foreign(connection: apsw.Connection) -> bool:
    """Whether another program made the file: it holds something, and no migration of ours has run."""
    return not version(connection) and _is_used(connection)


def is_replaced(connection: apsw.Connection, schema: Schema) -> bool:
    """Whether the file is a cache of a former kind, which this kind took the place of."""
    return schema.replaces is not None and connection.pragma("application_id") == schema.replaces


def _empty(connection: apsw.Connection) -> None:
    """Delete everything from the file, including its version and its kind."""
    connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    try:
        connection.execute("VACUUM")
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)


def version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def _run_one(connection: apsw.Connection, migration: Migration, schema: Schema) -> None:
    """In the transaction of the caller."""
    try:
        if is_foreign(connection):
            _drop_triggers(connection)
            if schema.adopt:
                schema.adopt(connection)
        connection.execute(migration.sql).fetchall()
        connection.pragma("user_version", migration.number)
        connection.pragma("application_id", schema.application_id)
    except (apsw.SQLError, apsw.ConstraintError) as exc:
        name = Path(connection.filename).name
        raise Unusable(
            f"{name} has tables of another shape than this program's ({exc}). Nothing was changed; move it away."
        ) from exc


def _drop_triggers(connection: apsw.Connection) -> None:
    """Another program's would run within our writes, and do anything to them. The migrations make those that the
    specifications have."""
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        quoted = str(name).replace('"', '""')
        connection.execute(f'DROP TRIGGER "{quoted}"')


def _is_used(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall())


def _copy_if_used(connection: apsw.Connection, backups: Path, clock: Clock) -> Path | None:
    """Keep the file as it was before, if it holds anything."""
    if not _is_used(connection):
        return None
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = backups / f"{Path(connection.filename).stem}-v{version(connection)}-{clock():%Y%m%dT%H%M%S%f}.db"
    try:
        connection.execute("VACUUM INTO ?", (sqlite_name(copy),))
        copy.chmod(0o600)
    except BaseException:  # a part of a copy is of no use
        copy.unlink(missing_ok=True)
        raise
    return copy
