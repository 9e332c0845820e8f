"""SQL for the synced namespaces: their cursors, and the skipped records."""

import json
from collections.abc import Collection, Sequence

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.storage.sync import fields, outbox
from memory_mcp.families.notes.storage.sync.outbox import OUTBOX
from memory_mcp.services.sync.model import NamespaceCursor, SkippedRecord, SyncedNamespace

MAX_REFUSALS = 20  # shown of a namespace

MAX_SKIPPED_STORED = 200  # stored; the oldest are deleted first

MAX_SKIPPED_SHOWN = 20


def namespaces(tx: Read) -> list[SyncedNamespace]:
    rows = tx.all(
        f"""
        WITH waiting AS (
            SELECT synced.namespace, count(*) AS outbox,
                json_group_array(note_id || ': ' || refused) FILTER (WHERE refused IS NOT NULL) AS refused
            FROM {OUTBOX} GROUP BY synced.namespace
        )
        SELECT namespace, enabled,
            (SELECT coalesce(sum(notes), 0) FROM note_counts WHERE note_counts.namespace = synced.namespace),
            coalesce(outbox, 0), ahead, coalesce(refused, '[]'), cursor, enabled_at, pushed_at, pulled_at
        FROM sync_namespaces AS synced LEFT JOIN waiting USING (namespace) ORDER BY namespace
        """
    )
    return [
        SyncedNamespace(name, bool(enabled), notes, outbox, ahead, json.loads(refused)[:MAX_REFUSALS], *rest)
        for name, enabled, notes, outbox, ahead, refused, *rest in rows
    ]


def cursors(tx: Read) -> list[NamespaceCursor]:
    rows = tx.all("SELECT namespace, cursor, rereading FROM sync_namespaces WHERE enabled ORDER BY namespace")
    return [NamespaceCursor(namespace, cursor, bool(rereading)) for namespace, cursor, rereading in rows]


def is_tracked(tx: Read, namespace: str) -> bool:
    return tx.one("SELECT 1 FROM sync_namespaces WHERE namespace = :namespace", {"namespace": namespace}) is not None


def is_enabled(tx: Read, namespace: str | None) -> bool:
    row = tx.one("SELECT enabled FROM sync_namespaces WHERE namespace = :namespace", {"namespace": namespace})
    return row is not None and bool(row[0])


def set_enabled(tx: Write, namespace: str, enabled: bool) -> None:
    tx.all(
        "UPDATE sync_namespaces SET enabled = :enabled WHERE namespace = :namespace",
        {"namespace": namespace, "enabled": enabled},
    )


def track(tx: Write, namespace: str) -> None:
    """Stamp every change in a namespace from now on, and existing notes with the time of their last change."""
    tx.all(
        "INSERT INTO sync_namespaces (namespace, enabled, rereading, enabled_at) VALUES (:namespace, 1, 1, :now)",
        {"namespace": namespace, "now": tx.precise_stamp},
    )
    tx.all("UPDATE sync_node SET ticks = ticks + 1")
    seqs = "SELECT seq FROM notes WHERE namespace = :namespace"
    fields.stamp_by_update_time(tx, seqs, {"namespace": namespace})
    outbox.add_all(tx, namespace)


def untrack(tx: Write, namespace: str) -> None:
    values = {"namespace": namespace}
    tx.all(
        """
        DELETE FROM sync_outbox WHERE note_id IN (
            SELECT id FROM notes WHERE namespace = :namespace
            UNION ALL SELECT id FROM sync_tombstones WHERE namespace = :namespace
        )
        """,
        values,
    )
    tx.all("DELETE FROM sync_fields WHERE note_seq IN (SELECT seq FROM notes WHERE namespace = :namespace)", values)
    tx.all("DELETE FROM sync_set_aside WHERE namespace = :namespace", values)
    tx.all("DELETE FROM sync_namespaces WHERE namespace = :namespace", values)


def start_over(tx: Write, namespace: str | None) -> None:
    """Read and send everything again, for one namespace or all."""
    values = {"namespace": namespace}
    tx.all(
        """
        UPDATE sync_namespaces SET cursor = 0, rereading = 1 WHERE :namespace IS NULL OR namespace = :namespace
        """,
        values,
    )
    tx.all(
        """
        DELETE FROM sync_set_aside WHERE :namespace IS NULL OR namespace IS NULL OR namespace = :namespace
        """,
        values,
    )
    outbox.add_all(tx, namespace)


def set_cursor(tx: Write, former: NamespaceCursor, cursor: int, left: int) -> None:
    """Move the cursor, unless it is no longer the former one."""
    tx.all(
        """
        UPDATE sync_namespaces
        SET cursor = :cursor, ahead = :left, pulled_at = :now, rereading = CASE :left WHEN 0 THEN 0 ELSE rereading END
        WHERE namespace = :namespace AND cursor = :read_from
        """,
        {
            "namespace": former.namespace,
            "read_from": former.cursor,
            "cursor": cursor,
            "left": left,
            "now": tx.precise_stamp,
        },
    )


def set_pushed(tx: Write, ids: Collection[str]) -> None:
    tx.all(
        """
        UPDATE sync_namespaces SET pushed_at = :now WHERE namespace IN (
            SELECT namespace FROM notes WHERE id IN (SELECT value FROM json_each(:ids))
            UNION SELECT namespace FROM sync_tombstones WHERE id IN (SELECT value FROM json_each(:ids))
        )
        """,
        {"ids": json.dumps(list(ids)), "now": tx.precise_stamp},
    )


# Skipped records: those that could not be merged


def skipped_records(tx: Read) -> list[SkippedRecord]:
    rows = tx.all(
        "SELECT note_id, reason FROM sync_set_aside ORDER BY at DESC, note_id LIMIT :most",
        {"most": MAX_SKIPPED_SHOWN},
    )
    return [SkippedRecord(*row) for row in rows]


def add_skipped(tx: Write, several: Sequence[SkippedRecord], namespace: str | None) -> None:
    tx.all(
        """
        INSERT INTO sync_set_aside (note_id, namespace, reason, at)
        SELECT value ->> 0, :namespace, value ->> 1, :now FROM json_each(:several) WHERE true
        ON CONFLICT (note_id) DO UPDATE SET namespace = excluded.namespace, reason = excluded.reason, at = excluded.at
        """,
        {
            "several": json.dumps([[one.id, one.reason] for one in several]),
            "namespace": namespace,
            "now": tx.precise_stamp,
        },
    )
    tx.all(
        """
        DELETE FROM sync_set_aside WHERE note_id NOT IN (
            SELECT note_id FROM sync_set_aside ORDER BY at DESC, note_id LIMIT :most
        )
        """,
        {"most": MAX_SKIPPED_STORED},
    )


def remove_skipped(tx: Write, ids: Collection[str]) -> None:
    """These could be merged after all."""
    tx.all(
        "DELETE FROM sync_set_aside WHERE note_id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids))},
    )
