"""SQL of the outbox: notes, and deleted notes, with changes that the hub has not acknowledged. Triggers fill it."""

import json
from collections.abc import Collection

from memory_mcp.engines.transactions import Read, Write

OUTBOX = """
    sync_outbox AS waiting
    LEFT JOIN notes ON notes.id = waiting.note_id
    LEFT JOIN sync_tombstones AS tombstone ON tombstone.id = waiting.note_id
    LEFT JOIN sync_namespaces AS synced ON synced.namespace = coalesce(notes.namespace, tombstone.namespace)
"""


def pending(tx: Read, after: int, max_records: int) -> list[tuple[int, str]]:
    """(ticket, note's id) of the notes and deletions that may leave this node: those of enabled namespaces.
    Nothing else is sent, even if the hub requests it. Only this function decides that (docs/sync.md)."""
    rows = tx.all(
        f"""
        SELECT ticket, note_id FROM {OUTBOX}
        WHERE ticket > :after AND synced.enabled ORDER BY ticket LIMIT :most
        """,
        {"after": after, "most": max_records},
    )
    return [(ticket, id_) for ticket, id_ in rows]


def acknowledge(tx: Write, tickets: Collection[int]) -> list[str]:
    """Remove notes from the outbox, except those that have changed since. Returns the ids of the removed ones."""
    rows = tx.all(
        "DELETE FROM sync_outbox WHERE ticket IN (SELECT value FROM json_each(:tickets)) RETURNING note_id",
        {"tickets": json.dumps(list(tickets))},
    )
    return [id_ for (id_,) in rows]


def refuse(tx: Write, ticket: int, why: str) -> None:
    tx.all("UPDATE sync_outbox SET refused = :why WHERE ticket = :ticket", {"ticket": ticket, "why": why})


def add(tx: Write, id_: str) -> None:
    tx.all("INSERT INTO sync_outbox (note_id) VALUES (:id) ON CONFLICT (note_id) DO NOTHING", {"id": id_})


def add_all(tx: Write, namespace: str | None) -> None:
    """Put all notes into the outbox, and those that were deleted: of one namespace, or of all."""
    tx.all(
        """
        INSERT INTO sync_outbox (note_id)
        SELECT id FROM notes
        WHERE namespace IN (SELECT namespace FROM sync_namespaces) AND (:namespace IS NULL OR namespace = :namespace)
        UNION ALL
        SELECT id FROM sync_tombstones WHERE :namespace IS NULL OR namespace = :namespace
        ON CONFLICT (note_id) DO NOTHING
        """,
        {"namespace": namespace},
    )
