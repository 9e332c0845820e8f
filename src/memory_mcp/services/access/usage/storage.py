"""SQL of access/usage/: usage by the hour, in server.db."""

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.access.usage.model import Coverage, Hour


def add(tx: Write, user: str, hour: str, calls: int, errors: int, coverage: Coverage | None) -> None:
    """Adds nothing for a user who was removed meanwhile."""
    tx.all(
        """
        INSERT INTO usage (user_id, hour, calls, errors, notes, embedded)
        SELECT id, :hour, :calls, :errors, CAST(:notes AS BIGINT), CAST(:embedded AS BIGINT) FROM users WHERE id = :user
        ON CONFLICT (user_id, hour) DO UPDATE SET
            calls = usage.calls + excluded.calls, errors = usage.errors + excluded.errors,
            notes = coalesce(excluded.notes, usage.notes), embedded = coalesce(excluded.embedded, usage.embedded)
        """,
        {
            "user": user,
            "hour": hour,
            "calls": calls,
            "errors": errors,
            "notes": coverage and coverage.notes,
            "embedded": coverage and coverage.embedded,
        },
    )


def delete_before(tx: Write, hour: str) -> None:
    tx.all("DELETE FROM usage WHERE hour < :hour", {"hour": hour})


def since(tx: Read, user: str, hour: str) -> list[Hour]:
    rows = tx.all(
        """
        SELECT hour || ':00:00Z', calls, errors, notes, embedded FROM usage
        WHERE user_id = :user AND hour >= :hour ORDER BY hour
        """,
        {"user": user, "hour": hour},
    )
    return [Hour(*row) for row in rows]
