"""SQL for the order of notes within a session: which note was written just before another."""

from memory_mcp.engines.transactions import Read, Write

MAX_NEIGHBORS = 50  # notes of a session on each side of a restored one, among which a live one is looked for


def position(tx: Read, seq: int) -> tuple[str | None, str | None]:
    """The session that a note was written in, and the id of the note before it there."""
    [(session_id, previous_id)] = tx.all(
        """
        SELECT note.session_id, before.id FROM notes AS note LEFT JOIN notes AS before ON before.seq = note.previous
        WHERE note.seq = :seq
        """,
        {"seq": seq},
    )
    return session_id, previous_id


def latest_of_session(tx: Read, session_id: str | None, namespace: str, since: str) -> int | None:
    if session_id is None:
        return None
    row = tx.one(
        """
        SELECT seq FROM notes
        WHERE session_id = :session AND +namespace = :namespace AND +archived = 0 AND +created_at >= :since
        ORDER BY seq DESC LIMIT 1
        """,
        {"session": session_id, "namespace": namespace, "since": since},
    )
    return row[0] if row else None


def followers(tx: Read, seq: int) -> list[int]:
    return [row[0] for row in tx.all("SELECT seq FROM notes WHERE previous = :seq", {"seq": seq})]


def unlink_from_session(tx: Write, seq: int) -> list[int]:
    """Take a note out of the order of its session: the notes after it follow the one before it. Returns the former."""
    following = followers(tx, seq)
    tx.all(
        "UPDATE notes SET previous = (SELECT previous FROM notes WHERE seq = :seq) WHERE previous = :seq", {"seq": seq}
    )
    return following


def rejoin_session(tx: Write, seq: int, since: str, until: str) -> tuple[int | None, list[int]]:
    """Let a restored note follow the nearest live note before it in its session, and the next one follow it, unless
    these were created before `since` or after `until`. Returns the one before it, and those that follow it now."""
    values = {"seq": seq, "since": since, "until": until, "most": MAX_NEIGHBORS}
    row = tx.one(f"SELECT seq FROM ({_neighbors('<', 'DESC')}) AS near WHERE created_at >= :since", values)
    previous = row[0] if row else None
    following = tx.all(
        f"""
        UPDATE notes SET previous = :seq
        WHERE seq IN (SELECT seq FROM ({_neighbors(">", "ASC")}) AS near WHERE created_at <= :until)
            AND previous IS NOT DISTINCT FROM CAST(:previous AS BIGINT)
        RETURNING seq
        """,
        {**values, "previous": previous},
    )
    return previous, [later for (later,) in following]


def _neighbors(comparison: str, order: str) -> str:
    """The SQL of the nearest live note of a note's session, on one side of it."""
    return f"""
        SELECT seq, created_at FROM (
            SELECT other.seq, other.created_at, other.archived
            FROM notes AS own JOIN notes AS other
                ON other.session_id = own.session_id AND other.namespace = own.namespace
            WHERE own.seq = :seq AND other.seq {comparison} :seq ORDER BY other.seq {order} LIMIT :most
        ) AS others WHERE archived = 0 ORDER BY seq {order} LIMIT 1
    """
