"""The audit log, in server.db."""

import json

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.access.model import AuditEvent, AuditRecord


def add(tx: Write, user: str, event: AuditEvent) -> None:
    """Adds nothing for a user who was removed meanwhile."""
    tx.lock(f"audit/{user}")
    tx.all(
        """
        INSERT INTO audit (user_id, id, at, action, key_id, client, ip, details)
        SELECT id, (SELECT coalesce(max(id), 0) + 1 FROM audit WHERE user_id = :user),
            :now, :action, :key, :client, :ip, :details
        FROM users WHERE id = :user
        """,
        {
            "user": user,
            "now": tx.stamp,
            "action": event.action,
            "key": event.key_id,
            "client": event.client,
            "ip": event.ip,
            "details": json.dumps(event.details, ensure_ascii=False, sort_keys=True),
        },
    )


def trim(tx: Write, user: str, max_entries: int) -> None:
    """Delete the oldest records beyond `max_entries`."""
    tx.all(
        """
        DELETE FROM audit WHERE user_id = :user AND id <= (
            SELECT id FROM audit WHERE user_id = :user ORDER BY id DESC LIMIT 1 OFFSET :max_entries
        )
        """,
        {"user": user, "max_entries": max_entries},
    )


def of(tx: Read, user: str, before: int | None, limit: int) -> list[AuditRecord]:
    """The newest first, with ids below `before`."""
    rows = tx.all(
        """
        SELECT id, at, action, key_id, client, ip, details FROM audit
        WHERE user_id = :user AND (id < :before OR :before IS NULL)
        ORDER BY id DESC LIMIT :limit
        """,
        {"user": user, "before": before, "limit": limit},
    )
    return [
        AuditRecord(id_, at, AuditEvent(action, key, client, ip, json.loads(d)))
        for id_, at, action, key, client, ip, d in rows
    ]
