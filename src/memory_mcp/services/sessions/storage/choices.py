"""Sessions chosen by clients without a connection, where a PostgreSQL has the tables of live.db."""

from memory_mcp.engines.transactions import Read, Write


def choose(tx: Write, own_session: str, session_id: str) -> None:
    tx.all(
        """
        INSERT INTO chosen_sessions (own_session, session_id, used_at) VALUES (:own, :session, :now)
        ON CONFLICT (own_session) DO UPDATE SET session_id = excluded.session_id, used_at = excluded.used_at
        """,
        {"own": own_session, "session": session_id, "now": tx.stamp},
    )


def chosen(tx: Read, own_session: str) -> tuple[str, str] | None:
    """The session that a client chose, and when this was last used; None if it chose none."""
    row = tx.one("SELECT session_id, used_at FROM chosen_sessions WHERE own_session = :own", {"own": own_session})
    return (row[0], row[1]) if row else None


def touch(tx: Write, own_session: str) -> None:
    tx.all("UPDATE chosen_sessions SET used_at = :now WHERE own_session = :own", {"own": own_session, "now": tx.stamp})


def delete_before(tx: Write, used_at: str) -> None:
    tx.all("DELETE FROM chosen_sessions WHERE used_at < :used_at", {"used_at": used_at})
