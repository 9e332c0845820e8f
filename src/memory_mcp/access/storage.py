"""SQL of access/: users and keys, in server.db."""

import json
from typing import Any

from memory_mcp.access.model import Key, User
from memory_mcp.caller import parse_scopes
from memory_mcp.sqlite import Read, Write

_COLUMNS = """id, user_id, name, key_prefix, secret_hash, scopes, families, made_by, created_at, expires_at, revoked_at,
    last_used_at, namespace"""


def add_user(tx: Write, id_: str, name: str) -> User:
    """A user there is already stays as they are."""
    tx.all(
        "INSERT OR IGNORE INTO users (id, name, created_at) VALUES (:id, :name, :now)",
        {"id": id_, "name": name, "now": tx.stamp},
    )
    return User(id_, name, tx.stamp)


def all_users(tx: Read) -> list[User]:
    return [User(*row) for row in tx.all("SELECT id, name, created_at FROM users ORDER BY created_at, id")]


def remove_user(tx: Write, id_: str) -> None:
    """With all their keys."""
    tx.all("DELETE FROM users WHERE id = :id", {"id": id_})


def add_key(tx: Write, key: Key) -> None:
    tx.all(
        f"""
        INSERT INTO keys ({_COLUMNS})
        VALUES (:id, :user, :name, :key_prefix, :secret_hash, :scopes, :families, :made_by, :created_at, :expires_at,
            :revoked_at, :last_used_at, :namespace)
        """,
        vars(key) | {"scopes": json.dumps(sorted(key.scopes)), "families": json.dumps(sorted(key.families))},
    )


def get_key(tx: Read, key_id: str) -> Key | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM keys WHERE id = :id", {"id": key_id})
    return _key(*row) if row else None


def all_keys(tx: Read) -> list[Key]:
    return [_key(*row) for row in tx.all(f"SELECT {_COLUMNS} FROM keys ORDER BY created_at, id")]


def revoke(tx: Write, key_id: str) -> bool:
    """False if there is no such key, or it was revoked before."""
    rows = tx.all(
        "UPDATE keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id",
        {"id": key_id, "now": tx.stamp},
    )
    return bool(rows)


def note_use(tx: Write, key_id: str) -> None:
    tx.all("UPDATE keys SET last_used_at = :now WHERE id = :id", {"id": key_id, "now": tx.stamp})


def _key(id_: str, user: str, name: str, prefix: str, secret_hash: str, scopes: str, families: str, *rest: Any) -> Key:
    return Key(
        id_,
        user,
        name,
        prefix,
        secret_hash,
        parse_scopes(json.loads(scopes)),
        frozenset(json.loads(families)),
        *rest,
    )
