"""One-time links and sign-in cookies, in server.db. Only their SHA-256 is stored."""

from memory_mcp.engines.transactions import Read, Write


def add_link(tx: Write, token_hash: bytes, user: str, expires_at: str) -> None:
    tx.all("DELETE FROM sign_in_links WHERE expires_at <= :now", {"now": tx.stamp})
    tx.all(
        "INSERT INTO sign_in_links (token_hash, user_id, expires_at) VALUES (:hash, :user, :expires_at)",
        {"hash": token_hash, "user": user, "expires_at": expires_at},
    )


def consume_link(tx: Write, token_hash: bytes) -> str | None:
    """Delete a link, which works once. Returns its user."""
    row = tx.one(
        "DELETE FROM sign_in_links WHERE token_hash = :hash AND expires_at > :now RETURNING user_id",
        {"hash": token_hash, "now": tx.stamp},
    )
    return row[0] if row else None


def add(tx: Write, cookie_hash: bytes, user: str, expires_at: str) -> None:
    tx.all("DELETE FROM sign_ins WHERE expires_at <= :now", {"now": tx.stamp})
    tx.all(
        """
        INSERT INTO sign_ins (cookie_hash, user_id, created_at, expires_at)
        VALUES (:hash, :user, :now, :expires_at)
        """,
        {"hash": cookie_hash, "user": user, "now": tx.stamp, "expires_at": expires_at},
    )


def user_of(tx: Read, cookie_hash: bytes, now: str) -> str | None:
    row = tx.one(
        "SELECT user_id FROM sign_ins WHERE cookie_hash = :hash AND expires_at > :now",
        {"hash": cookie_hash, "now": now},
    )
    return row[0] if row else None


def has_signed_in(tx: Read, user: str, after: str = "") -> bool:
    """Whether the user has a sign-in that expires after a time; by default one that may have expired."""
    found = tx.one(
        "SELECT 1 FROM sign_ins WHERE user_id = :user AND expires_at > :after LIMIT 1", {"user": user, "after": after}
    )
    return found is not None


def signed_in_users(tx: Read, now: str) -> set[str]:
    rows = tx.all("SELECT DISTINCT user_id FROM sign_ins WHERE expires_at > :now", {"now": now})
    return {user for (user,) in rows}


def remove(tx: Write, cookie_hash: bytes) -> None:
    tx.all("DELETE FROM sign_ins WHERE cookie_hash = :hash", {"hash": cookie_hash})


def remove_all_of(tx: Write, user: str) -> None:
    tx.all("DELETE FROM sign_ins WHERE user_id = :user", {"user": user})
    tx.all("DELETE FROM sign_in_links WHERE user_id = :user", {"user": user})
