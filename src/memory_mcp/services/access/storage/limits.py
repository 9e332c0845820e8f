"""When each client's next request is due, in live.db."""

from memory_mcp.engines.transactions import Write


def due(tx: Write, who: str) -> float:
    """Seconds since 1970; 0 for a new client. No other transaction counts its requests until this one ends."""
    tx.lock(f"limit/{who}")
    row = tx.one("SELECT due FROM limits WHERE who = :who", {"who": who})
    return row[0] if row else 0.0


def set_due(tx: Write, who: str, due: float) -> None:
    tx.all(
        "INSERT INTO limits (who, due) VALUES (:who, :due) ON CONFLICT (who) DO UPDATE SET due = excluded.due",
        {"who": who, "due": due},
    )


def delete_before(tx: Write, now: float) -> None:
    tx.all("DELETE FROM limits WHERE due < :now", {"now": now})
