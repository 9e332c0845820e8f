"""SQL of the journal of writes to portals. An item is NAMESPACE/PORTAL/TABLE, or NAMESPACE/PORTAL: the whole portal."""

import json
from collections.abc import Iterable
from dataclasses import replace

from memory_mcp.engines.transactions import Read
from memory_mcp.services.write_journal import Writer, WriteTable

WRITES = WriteTable("portal_writes", has_rows=True)
_WITHIN = "substr(item, 1, length(:within) + 1) = :within || '/'"


def writes_within(namespace: str) -> WriteTable:
    """The writes to portals of a namespace."""
    return replace(WRITES, visible=_WITHIN, within=namespace)


def portal_of(item: str) -> str:
    return "/".join(item.split("/")[:2])


def items_in(tx: Read, portal: str) -> list[str]:
    """The portal and its tables, those that are deleted by now, too: as far as there are records of them.

    Each step seeks in the index, so that the number of records does not matter.
    """
    rows = tx.all(
        """
        WITH RECURSIVE found(item) AS (
            SELECT min(item) FROM portal_writes WHERE item >= :portal || '/' AND item < :portal || '0'
            UNION ALL
            SELECT (SELECT min(item) FROM portal_writes WHERE item > found.item AND item < :portal || '0')
            FROM found WHERE item IS NOT NULL
        )
        SELECT item FROM found WHERE item IS NOT NULL
        """,
        {"portal": portal},
    )
    return [portal, *(item for (item,) in rows)]


def writers(tx: Read, items: Iterable[str]) -> dict[str, list[Writer]]:
    """Everyone who wrote to each item since it was last deleted, alone or with its portal: the last first."""
    rows = tx.all(
        """
        WITH RECURSIVE wanted(item, deleted) AS (
            SELECT value ->> 'item', (
                SELECT coalesce(max(number), 0) FROM portal_writes
                WHERE action = 'deleted' AND item IN (value ->> 'item', value ->> 'portal')
            )
            FROM json_each(:items)
        ),
        found(item, writer) AS (
            SELECT item, (SELECT min(writer) FROM portal_writes AS one WHERE one.item = wanted.item) FROM wanted
            UNION ALL
            SELECT item, (
                SELECT min(writer) FROM portal_writes AS one WHERE one.item = found.item AND one.writer > found.writer
            )
            FROM found WHERE writer IS NOT NULL
        )
        SELECT last.item, source, client, key_id, key_name, session_id
        FROM found JOIN wanted USING (item) JOIN portal_writes AS last ON last.number = (
            SELECT max(number) FROM portal_writes AS one WHERE one.item = found.item AND one.writer = found.writer
        )
        WHERE last.number > wanted.deleted ORDER BY last.number DESC
        """,
        {"items": json.dumps([{"item": item, "portal": portal_of(item)} for item in items])},
    )
    found: dict[str, list[Writer]] = {}
    for item, *writer in rows:
        found.setdefault(item, []).append(Writer(*writer))
    return found
