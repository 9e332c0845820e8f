"""Users, in server.db."""

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.access.model import Plan, User

_COLUMNS = "id, name, created_at, plan"


def lock_names(tx: Write) -> None:
    """No other transaction adds a user until this one ends."""
    tx.lock("users")


def add(tx: Write, id_: str, name: str, plan: Plan) -> User:
    tx.all(
        "INSERT INTO users (id, name, created_at, plan) VALUES (:id, :name, :now, :plan)",
        {"id": id_, "name": name, "now": tx.stamp, "plan": plan},
    )
    return User(id_, name, tx.stamp, plan)


def every(tx: Read) -> list[User]:
    return [User(*row) for row in tx.all(f"SELECT {_COLUMNS} FROM users ORDER BY created_at, id")]


def by_name(tx: Read, name: str) -> User | None:
    """Ignores case."""
    row = tx.one(f"SELECT {_COLUMNS} FROM users WHERE lower(name) = lower(:name)", {"name": name})
    return User(*row) if row else None


def by_id(tx: Read, id_: str) -> User | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM users WHERE id = :id", {"id": id_})
    return User(*row) if row else None


def remove(tx: Write, id_: str) -> None:
    """Delete a user with all keys, sign-ins and audit records."""
    tx.all("DELETE FROM users WHERE id = :id", {"id": id_})


def set_plan(tx: Write, id_: str, plan: Plan) -> None:
    tx.all("UPDATE users SET plan = :plan WHERE id = :id", {"id": id_, "plan": plan})


def set_password(tx: Write, id_: str, password_hash: str) -> None:
    tx.all("UPDATE users SET password_hash = :hash WHERE id = :id", {"id": id_, "hash": password_hash})


def with_password(tx: Read) -> set[str]:
    return {id_ for (id_,) in tx.all("SELECT id FROM users WHERE password_hash IS NOT NULL")}


def password_hash(tx: Read, id_: str) -> str | None:
    row = tx.one("SELECT password_hash FROM users WHERE id = :id", {"id": id_})
    return row[0] if row else None
