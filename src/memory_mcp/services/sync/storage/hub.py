"""SQL for the hub's database."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import Invalid
from memory_mcp.services.sync.records import DELETION, FIELDS, NoteRecord, as_json, parse


def record(tx: Read, user: str, id_: str) -> NoteRecord | None:
    row = tx.one("SELECT record FROM records WHERE user_id = :user AND id = :id", {"user": user, "id": id_})
    return _parsed(json.loads(row[0])) if row else None


def _parsed(stored: dict[str, Any]) -> NoteRecord | None:
    """A stored record. An invalid one, from an earlier version, loses its times; None if that is not enough."""
    for names in (FIELDS, ("id", "registers", DELETION)):
        with suppress(Invalid):
            return parse({name: value for name, value in stored.items() if name in names})
    return None


def is_placed(tx: Read, user: str, record: NoteRecord) -> bool:
    """Whether the namespace in the record is among those that receive the note's changes."""
    row = tx.one(
        "SELECT 1 FROM places WHERE user_id = :user AND id = :id AND namespace = :namespace",
        {"user": user, "id": record.id, "namespace": record.namespace},
    )
    return record.namespace is None or row is not None


def save(tx: Write, user: str, node: str, merged: NoteRecord, also_in: str | None) -> None:
    """Replace the stored record, as the user's latest change. `also_in`: another namespace to notify."""
    values = {
        "user": user,
        "id": merged.id,
        "namespace": merged.namespace,
        "node": node,
        "record": json.dumps(as_json(merged), ensure_ascii=False),
        "seq": tx.number(
            """
            INSERT INTO changes (user_id, seq) VALUES (:user, 1)
            ON CONFLICT (user_id) DO UPDATE SET seq = changes.seq + 1 RETURNING seq
            """,
            {"user": user},
        ),
    }
    tx.all(
        """
        INSERT INTO records (user_id, id, namespace, record) VALUES (:user, :id, :namespace, :record)
        ON CONFLICT (user_id, id) DO UPDATE SET namespace = excluded.namespace, record = excluded.record
        """,
        values,
    )
    tx.all("UPDATE places SET seq = :seq, node = :node WHERE user_id = :user AND id = :id", values)
    for namespace in {merged.namespace, also_in} - {None}:
        tx.all(
            "INSERT INTO places (user_id, id, namespace, seq, node) VALUES (:user, :id, :namespace, :seq, :node)"
            " ON CONFLICT DO NOTHING",
            {**values, "namespace": namespace},
        )


def last_change(tx: Read, user: str) -> int:
    row = tx.one("SELECT seq FROM changes WHERE user_id = :user", {"user": user})
    return row[0] if row else 0


_CHANGED = """
    places.user_id = :user AND places.namespace = :namespace AND seq > :after
        AND (node IS DISTINCT FROM :except_node OR seq <= :doubt)
"""


@dataclass(frozen=True)
class ChangeFilter:
    """Which changes to send to a node."""

    user: str
    namespace: str
    except_node: str | None  # the node itself, which has its own changes
    doubt: int  # up to this change, it may lack its own changes too


def changes(tx: Read, filters: ChangeFilter, after: int) -> Iterator[tuple[int, str | None, str]]:
    """(number, current namespace, record as JSON), in order."""
    return tx.each(
        f"""
        SELECT seq, records.namespace, record FROM places JOIN records USING (user_id, id)
        WHERE {_CHANGED} ORDER BY seq
        """,
        {**vars(filters), "after": after},
    )


def count(tx: Read, filters: ChangeFilter, after: int) -> int:
    return tx.number(f"SELECT count(*) FROM places WHERE {_CHANGED}", {**vars(filters), "after": after})


def tickets(tx: Read, user: str, node: str) -> tuple[str, str | None] | None:
    """A node's latest ticket and the one before it."""
    row = tx.one(
        "SELECT ticket, former FROM nodes WHERE user_id = :user AND node = :node", {"user": user, "node": node}
    )
    return (row[0], row[1]) if row else None


def set_ticket(tx: Write, user: str, node: str, ticket: str, former: str | None) -> None:
    tx.all(
        """
        INSERT INTO nodes (user_id, node, ticket, former) VALUES (:user, :node, :ticket, :former)
        ON CONFLICT (user_id, node) DO UPDATE
        SET ticket = excluded.ticket, former = excluded.former
        """,
        {"user": user, "node": node, "ticket": ticket, "former": former},
    )


def doubt(tx: Read, user: str, node: str) -> int:
    row = tx.one("SELECT doubt FROM nodes WHERE user_id = :user AND node = :node", {"user": user, "node": node})
    return row[0] if row else 0


def set_doubt(tx: Write, user: str, node: str) -> None:
    """The node may lack its own changes up to now: a copy of it may have sent them."""
    tx.all(
        "UPDATE nodes SET doubt = :last WHERE user_id = :user AND node = :node",
        {"user": user, "node": node, "last": last_change(tx, user)},
    )


def seal(tx: Read, user: str, namespace: str) -> tuple[str | None] | None:
    """None for an unknown namespace."""
    row = tx.one(
        "SELECT seal FROM namespaces WHERE user_id = :user AND namespace = :namespace",
        {"user": user, "namespace": namespace},
    )
    return (row[0],) if row else None


def set_seal(tx: Write, user: str, namespace: str, fingerprint: str | None) -> None:
    tx.all(
        "INSERT INTO namespaces (user_id, namespace, seal) VALUES (:user, :namespace, :seal)",
        {"user": user, "namespace": namespace, "seal": fingerprint},
    )


def delete_user(tx: Write, user: str) -> None:
    """Delete everything stored for a user."""
    for table in ("records", "places", "nodes", "namespaces", "changes"):
        tx.all(f"DELETE FROM {table} WHERE user_id = :user", {"user": user})
