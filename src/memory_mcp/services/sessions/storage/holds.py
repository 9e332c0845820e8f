"""Running servers and the sessions they hold, in server.db."""

from memory_mcp.engines.transactions import Read, Write


def add_server(tx: Write, server_id: str, persists: bool) -> None:
    tx.all(
        "INSERT INTO servers (id, persists, started_at) VALUES (:id, :persists, :now) ON CONFLICT DO NOTHING",
        {"id": server_id, "persists": persists, "now": tx.stamp},
    )


def remove_server(tx: Write, server_id: str) -> None:
    tx.all("DELETE FROM servers WHERE id = :id", {"id": server_id})


def other_servers(tx: Read, server_id: str) -> list[str]:
    return [id_ for (id_,) in tx.all("SELECT id FROM servers WHERE id <> :id", {"id": server_id})]


def persists(tx: Read, server_id: str) -> bool:
    row = tx.one("SELECT persists FROM servers WHERE id = :id", {"id": server_id})
    return bool(row and row[0])


def hold(tx: Write, server_id: str, connection_id: str, user: str, session_id: str, is_named: bool) -> None:
    """Store a hold. A session that was kept after its end is in use again."""
    _lock(tx, user, session_id)
    values = {"server": server_id, "connection": connection_id, "user": user, "session": session_id}
    tx.all(
        """
        INSERT INTO held_sessions (server_id, connection_id, user_id, session_id, is_named)
        VALUES (:server, :connection, :user, :session, :is_named) ON CONFLICT DO NOTHING
        """,
        values | {"is_named": is_named},
    )
    tx.all("DELETE FROM kept_sessions WHERE user_id = :user AND session_id = :session", values)


def held_by(tx: Read, server_id: str) -> list[tuple[str, str, str, int]]:
    """(connection, user, session, whether a client named it) of all sessions a server holds."""
    return tx.all(
        "SELECT connection_id, user_id, session_id, is_named FROM held_sessions WHERE server_id = :id",
        {"id": server_id},
    )


def save_ended(tx: Write, user: str, session_id: str) -> None:
    """Store that a session has ended, and that its data stays for now."""
    tx.all(
        """
        INSERT INTO kept_sessions (user_id, session_id, ended_at) VALUES (:user, :session, :now)
        ON CONFLICT (user_id, session_id) DO UPDATE SET ended_at = excluded.ended_at
        """,
        {"user": user, "session": session_id, "now": tx.stamp},
    )


def has_expired(tx: Read, before: str) -> bool:
    return bool(tx.all("SELECT 1 FROM kept_sessions WHERE ended_at < :before LIMIT 1", {"before": before}))


def delete_expired(tx: Write, before: str) -> list[tuple[str, str]]:
    """Delete the kept sessions that ended before; returns their (user, session)."""
    return tx.all(
        "DELETE FROM kept_sessions WHERE ended_at < :before RETURNING user_id, session_id", {"before": before}
    )


def release(tx: Write, server_id: str, connection_id: str, user: str, session_id: str) -> bool:
    """True if no connection holds the session any more. None can hold it again until this transaction ends."""
    _lock(tx, user, session_id)
    values = {"server": server_id, "connection": connection_id, "user": user, "session": session_id}
    tx.all(
        """
        DELETE FROM held_sessions
        WHERE server_id = :server AND connection_id = :connection AND user_id = :user AND session_id = :session
        """,
        values,
    )
    held = tx.one("SELECT 1 FROM held_sessions WHERE user_id = :user AND session_id = :session LIMIT 1", values)
    return held is None


def _lock(tx: Write, user: str, session_id: str) -> None:
    tx.lock(f"session/{user}/{session_id}")
