"""Keys, in server.db."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from memory_mcp.caller import parse_scopes
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.access.model import Key

_SELECT = """
    SELECT keys.id, user_id, keys.name, key_prefix, secret_hash, scopes, families, made_by, keys.created_at, expires_at,
        revoked_at, last_used_at, namespace, is_confined, users.plan
    FROM keys JOIN users ON users.id = keys.user_id
"""


def add(tx: Write, key: Key) -> None:
    tx.all(
        """
        INSERT INTO keys (id, user_id, name, key_prefix, secret_hash, scopes, families, made_by, created_at, expires_at,
            revoked_at, last_used_at, namespace, is_confined)
        VALUES (:id, :user, :name, :key_prefix, :secret_hash, :scopes, :families, :made_by, :created_at, :expires_at,
            :revoked_at, :last_used_at, :namespace, :is_confined)
        """,
        vars(key) | {"scopes": json.dumps(sorted(key.scopes)), "families": json.dumps(sorted(key.families))},
    )


def get(tx: Read, key_id: str) -> Key | None:
    row = tx.one(f"{_SELECT} WHERE keys.id = :id", {"id": key_id})
    return _key(*row) if row else None


def every(tx: Read) -> list[Key]:
    return [_key(*row) for row in tx.all(f"{_SELECT} ORDER BY keys.created_at, keys.id")]


def of(tx: Read, user: str) -> list[Key]:
    return [
        _key(*row)
        for row in tx.all(f"{_SELECT} WHERE user_id = :user ORDER BY keys.created_at, keys.id", {"user": user})
    ]


def active(tx: Read, now: str) -> list[Key]:
    rows = tx.all(
        f"""
        {_SELECT} WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY keys.created_at, keys.id
        """,
        {"now": now},
    )
    return [_key(*row) for row in rows]


def active_ids(tx: Read, ids: Iterable[str], now: str) -> set[str]:
    """Those of these keys that are accepted."""
    rows = tx.all(
        """
        SELECT id FROM keys WHERE id IN (SELECT value FROM json_each(:ids))
            AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
        """,
        {"ids": json.dumps(sorted(ids)), "now": now},
    )
    return {id_ for (id_,) in rows}


def revoke(tx: Write, key_id: str, user: str | None) -> str | None:
    """The key's user; None if there is no such key (of this user, if one is given), or it was revoked before."""
    row = tx.one(
        """
        UPDATE keys SET revoked_at = :now
        WHERE id = :id AND revoked_at IS NULL AND (user_id = :user OR :user IS NULL)
        RETURNING user_id
        """,
        {"id": key_id, "user": user, "now": tx.stamp},
    )
    return row[0] if row else None


def set_last_used(tx: Write, key_id: str) -> None:
    tx.all("UPDATE keys SET last_used_at = :now WHERE id = :id", {"id": key_id, "now": tx.stamp})


def _key(id_: str, user: str, name: str, prefix: str, secret_hash: str, scopes: str, families: str, *rest: Any) -> Key:
    key = Key(
        id_,
        user,
        name,
        prefix,
        secret_hash,
        parse_scopes(json.loads(scopes)),
        frozenset(json.loads(families)),
        *rest,
    )
    return replace(key, is_confined=bool(key.is_confined))  # SQLite has numbers only
