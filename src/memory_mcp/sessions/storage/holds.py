"""Living servers and the sessions they hold, in server.db."""

from memory_mcp.sqlite import Read, Write


def add_server(tx: Write, server_id: str, persists: bool) -> None:
    tx.all(
        "INSERT OR IGNORE INTO servers (id, persists, started_at) VALUES (:id, :persists, :now)",
        {"id": server_id, "persists": persists, "now": tx.stamp},
    )


def remove_server(tx: Write, server_id: str) -> None:
    tx.all("DELETE FROM servers WHERE id = :id", {"id": server_id})


def other_servers(tx: Read, server_id: str) -> list[str]:
    return [id_ for (id_,) in tx.all("SELECT id FROM servers WHERE id <> :id", {"id": server_id})]


def persists(tx: Read, server_id: str) -> bool:
    row = tx.one("SELECT persists FROM servers WHERE id = :id", {"id": server_id})
    return bool(row and row[0])


def hold(tx: Write, server_id: str, connection_id: str, user: str, session_id: str) -> None:
    tx.all(
        """
        INSERT OR IGNORE INTO held_sessions (server_id, connection_id, user_id, session_id)
        VALUES (:server, :connection, :user, :session)
        """,
        {"server": server_id, "connection": connection_id, "user": user, "session": session_id},
    )


def held_by(tx: Read, server_id: str) -> list[tuple[str, str, str]]:
    """(connection, user, session) of everything a server holds."""
    return tx.all(
        "SELECT connection_id, user_id, session_id FROM held_sessions WHERE server_id = :id",
        {"id": server_id},
    )


def release(tx: Write, server_id: str, connection_id: str, user: str, session_id: str) -> bool:
    """True if nobody holds the session any more."""
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
