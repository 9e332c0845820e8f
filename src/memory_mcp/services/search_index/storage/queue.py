"""SQL of the texts that wait for their vectors."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.search_index.tables import Tables


@dataclass(frozen=True)
class EmbedQueue:
    tables: Tables

    def add(self, tx: Write, seq: int) -> None:
        """Queue a text to be embedded (again). The result of a worker that has claimed it is discarded."""
        self.remove(tx, seq)
        self.insert(tx, seq)

    def insert(self, tx: Write, seq: int) -> None:
        """Queue a text that is not in the queue."""
        tx.all(
            f"INSERT INTO embed_queue ({self.tables.queue_owner}, due_at) VALUES (:seq, :now)",
            {"seq": seq, "now": tx.precise_stamp},
        )

    def remove(self, tx: Write, seq: int) -> None:
        tx.all(f"DELETE FROM embed_queue WHERE {self.tables.queue_owner} = :seq", {"seq": seq})

    def refill(self, tx: Write) -> None:
        """Queue every live text to be embedded again."""
        tx.all("DELETE FROM embed_queue")
        tx.all(
            f"""
            INSERT INTO embed_queue ({self.tables.queue_owner}, due_at)
            SELECT seq, :now FROM {self.tables.texts} WHERE {self.tables.live}
            """,
            {"now": tx.precise_stamp},
        )

    def holds(self, tx: Read, seq: int) -> bool:
        return tx.one(f"SELECT 1 FROM embed_queue WHERE {self.tables.queue_owner} = :seq", {"seq": seq}) is not None

    def due(self, tx: Read, limit: int) -> list[tuple[int, int, int]]:
        """(ticket, attempts, length) of texts that are due and that no worker has claimed."""
        return tx.all(
            f"""
            SELECT queue.ticket, queue.attempts, length(text.content)
            FROM embed_queue AS queue JOIN {self.tables.texts} AS text ON text.seq = queue.{self.tables.queue_owner}
            WHERE queue.due_at <= :now AND (queue.claimed_until IS NULL OR queue.claimed_until <= :now)
            ORDER BY queue.attempts, queue.ticket LIMIT :limit
            """,
            {"now": tx.precise_stamp, "limit": limit},
        )

    def claim(self, tx: Write, worker: str, tickets: Sequence[int], until: str) -> list[tuple[int, int]]:
        """(ticket, seq) of the texts that the worker has claimed."""
        rows = tx.all(
            f"""
            UPDATE embed_queue SET claimed_by = :worker, claimed_until = :until
            WHERE ticket IN (SELECT CAST(value AS BIGINT) FROM json_each(:tickets))
            RETURNING ticket, {self.tables.queue_owner}
            """,
            {"worker": worker, "until": until, "tickets": json.dumps(list(tickets))},
        )
        return sorted(rows)


def is_waiting(tx: Read) -> bool:
    return tx.one("SELECT 1 FROM embed_queue LIMIT 1") is not None


def finish(tx: Write, ticket: int) -> bool:
    """Remove a text from the queue. False if it has changed and waits again, or was deleted."""
    return bool(tx.all("DELETE FROM embed_queue WHERE ticket = :ticket RETURNING 1", {"ticket": ticket}))


def postpone(tx: Write, ticket: int, until: str, reason: str) -> None:
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


def release(tx: Write, worker: str) -> None:
    tx.all(
        "UPDATE embed_queue SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = :worker", {"worker": worker}
    )
