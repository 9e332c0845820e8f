"""SQL of the notes that wait for their vectors."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.families.notes.storage.notes import inside


@dataclass(frozen=True)
class Waiting:
    """A note whose turn it is to be embedded."""

    seq: int
    ticket: int
    title: str  # empty if it is the content's first line
    content: str
    context: str  # the note before it


def add(tx: Write, seq: int) -> None:
    """Have a note embedded, or embedded anew. Whoever has claimed it works in vain."""
    remove(tx, seq)
    tx.all("INSERT INTO embed_queue (note_id, due_at) VALUES (:seq, :now)", {"seq": seq, "now": tx.precise_stamp})


def remove(tx: Write, seq: int) -> None:
    tx.all("DELETE FROM embed_queue WHERE note_id = :seq", {"seq": seq})


def refill(tx: Write) -> None:
    """Have every live note embedded anew."""
    tx.all("DELETE FROM embed_queue")
    tx.all(
        "INSERT INTO embed_queue (note_id, due_at) SELECT seq, :now FROM notes WHERE archived = 0",
        {"now": tx.precise_stamp},
    )


def is_waiting(tx: Read, within: str | None = None) -> bool:
    row = tx.one(
        f"SELECT 1 FROM embed_queue JOIN notes ON notes.seq = note_id WHERE {inside(within)} LIMIT 1",
        {"within": within},
    )
    return row is not None


def holds(tx: Read, seq: int) -> bool:
    return tx.one("SELECT 1 FROM embed_queue WHERE note_id = :seq", {"seq": seq}) is not None


def size(tx: Read, within: str | None = None) -> int:
    if within is None:
        return tx.number("SELECT waiting FROM vector_counts")
    return tx.number(
        "SELECT count(*) FROM embed_queue JOIN notes ON notes.seq = note_id WHERE namespace = :within",
        {"within": within},
    )


def due(tx: Read, most: int) -> list[tuple[int, int, int]]:
    """(ticket, attempts, length) of notes whose turn it is and that nobody has claimed."""
    return tx.all(
        """
        SELECT queue.ticket, queue.attempts, length(note.content)
        FROM embed_queue AS queue JOIN notes AS note ON note.seq = queue.note_id
        WHERE queue.due_at <= :now AND (queue.claimed_until IS NULL OR queue.claimed_until <= :now)
        ORDER BY queue.attempts, queue.ticket LIMIT :most
        """,
        {"now": tx.precise_stamp, "most": most},
    )


def claim(tx: Write, worker: str, tickets: Sequence[int], until: str) -> list[Waiting]:
    tx.all(
        """
        UPDATE embed_queue SET claimed_by = :worker, claimed_until = :until
        WHERE ticket IN (SELECT value FROM json_each(:tickets))
        """,
        {"worker": worker, "until": until, "tickets": json.dumps(list(tickets))},
    )
    rows = tx.all(
        """
        SELECT note.seq, queue.ticket, CASE note.has_own_title WHEN 1 THEN note.title ELSE '' END, note.content,
            coalesce(before.content, '')
        FROM embed_queue AS queue JOIN notes AS note ON note.seq = queue.note_id
        LEFT JOIN notes AS before ON before.seq = note.previous AND before.expires_at IS NULL
        WHERE queue.ticket IN (SELECT value FROM json_each(:tickets)) ORDER BY queue.ticket
        """,
        {"tickets": json.dumps(list(tickets))},
    )
    return [Waiting(*row) for row in rows]


def finish(tx: Write, ticket: int) -> bool:
    """Take a note off the queue. False if it has changed since and waits anew, or is gone."""
    return bool(tx.all("DELETE FROM embed_queue WHERE ticket = :ticket RETURNING 1", {"ticket": ticket}))


def put_off(tx: Write, ticket: int, until: str, reason: str) -> None:
    tx.all(
        """
        UPDATE embed_queue
        SET attempts = attempts + 1, due_at = :until, claimed_by = NULL, claimed_until = NULL, last_error = :reason
        WHERE ticket = :ticket
        """,
        {"ticket": ticket, "until": until, "reason": reason},
    )


def attempts(tx: Read, ticket: int) -> int:
    row = tx.one("SELECT attempts FROM embed_queue WHERE ticket = :ticket", {"ticket": ticket})
    return row[0] if row else 0


def has_claims(tx: Read, worker: str) -> bool:
    return tx.one("SELECT 1 FROM embed_queue WHERE claimed_by = :worker LIMIT 1", {"worker": worker}) is not None


def let_go(tx: Write, worker: str) -> None:
    tx.all(
        "UPDATE embed_queue SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = :worker", {"worker": worker}
    )
