"""Changes files of other implementations of the graph's specification into the form that our migrations expect.

Each function runs in the transaction of the first migration, after a copy of the file went to backups/.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import apsw

from memory_mcp.families.graph import storage

UNNAMED = "unnamed"
_NOW = "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"


def adopt_registry(connection: apsw.Connection) -> None:
    """Give every project a name that tools accept: in UTF-8 and NFC, not empty, and unique."""
    rows: list[Any] = connection.execute(
        "SELECT rowid, CAST(name AS BLOB), typeof(name) FROM projects ORDER BY rowid"
    ).fetchall()
    wrong = [(rowid, raw) for rowid, raw, type_ in rows if type_ != "text" or not raw or not storage.is_correct(raw)]
    taken = {raw.decode() for rowid, raw, _ in rows if (rowid, raw) not in wrong}
    for rowid, raw in wrong:
        name = _free(storage.corrected(raw) or UNNAMED, taken)
        taken.add(name)
        connection.execute("UPDATE projects SET name = ? WHERE rowid = ?", (name, rowid))


def adopt_project(connection: apsw.Connection) -> None:
    """Correct texts, and merge duplicates. No row is deleted: duplicates are only marked as deleted.

    The specification's full-text tables and triggers are dropped; the next migration creates and fills them.
    """
    for table in ("entities", "observations"):
        for event in ("ai", "ad", "au"):
            connection.execute(f"DROP TRIGGER IF EXISTS {table}_{event}")
        connection.execute(f"DROP TABLE IF EXISTS {table}_fts")

    def execute(sql: str, values: Mapping[str, Any]) -> list[Any]:
        return connection.execute(sql, values).fetchall()

    storage.correct_texts(execute, "entities", ("name", "entity_type"))
    storage.correct_texts(execute, "observations", ("content",))
    storage.correct_texts(execute, "relations", ("relation_type",))
    _name_unnamed(connection)
    _merge_entities(connection)
    _delete_with_their_entities(connection)
    _delete_repeated(connection, "observations", "entity_id, content")
    _delete_repeated(connection, "relations", "from_entity, to_entity, relation_type")


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number appended if it is taken."""
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def _name_unnamed(connection: apsw.Connection) -> None:
    connection.execute("UPDATE entities SET name = ? WHERE name = ''", (UNNAMED,))


def _merge_entities(connection: apsw.Connection) -> None:
    """Of active entities with one name the oldest stays, with the observations and relations of all. A type that only
    another one had becomes an observation."""
    connection.execute(
        """
        CREATE TEMP TABLE doubled AS SELECT * FROM (
            SELECT id, entity_type, created_at, first_value(id) OVER same AS kept,
                first_value(entity_type) OVER same AS kept_type
            FROM entities WHERE deleted_at IS NULL
            WINDOW same AS (PARTITION BY name ORDER BY datetime(created_at), rowid)
        ) WHERE id <> kept;
        UPDATE observations SET entity_id = (SELECT kept FROM doubled WHERE doubled.id = entity_id)
        WHERE deleted_at IS NULL AND entity_id IN (SELECT id FROM doubled);
        UPDATE relations SET from_entity = (SELECT kept FROM doubled WHERE doubled.id = from_entity)
        WHERE deleted_at IS NULL AND from_entity IN (SELECT id FROM doubled);
        UPDATE relations SET to_entity = (SELECT kept FROM doubled WHERE doubled.id = to_entity)
        WHERE deleted_at IS NULL AND to_entity IN (SELECT id FROM doubled);
        """
    ).fetchall()
    other_types = connection.execute(
        """
        SELECT kept, 'entity_type: ' || entity_type, min(created_at) FROM doubled
        WHERE entity_type <> kept_type GROUP BY kept, entity_type
        """
    ).fetchall()
    connection.executemany(
        "INSERT INTO observations (id, entity_id, content, created_at) VALUES (?, ?, ?, ?)",
        [(str(uuid4()), *row) for row in other_types],
    )
    connection.execute(
        f"""
        UPDATE entities SET deleted_at = {_NOW} WHERE id IN (SELECT id FROM doubled);
        DROP TABLE doubled;
        """
    ).fetchall()


def _delete_with_their_entities(connection: apsw.Connection) -> None:
    """Delete observations and relations of deleted entities, as the specification says."""
    deleted = "(SELECT id FROM entities WHERE deleted_at IS NOT NULL)"
    for table, column in (("observations", "entity_id"), ("relations", "from_entity"), ("relations", "to_entity")):
        connection.execute(f"UPDATE {table} SET deleted_at = {_NOW} WHERE deleted_at IS NULL AND {column} IN {deleted}")


def _delete_repeated(connection: apsw.Connection, table: str, same: str) -> None:
    """Mark active rows as deleted that repeat an older one."""
    connection.execute(
        f"""
        UPDATE {table} SET deleted_at = {_NOW} WHERE rowid IN (
            SELECT rowid FROM (
                SELECT rowid, row_number() OVER (PARTITION BY {same} ORDER BY datetime(created_at), rowid) AS number
                FROM {table} WHERE deleted_at IS NULL
            ) WHERE number > 1
        )
        """
    )
