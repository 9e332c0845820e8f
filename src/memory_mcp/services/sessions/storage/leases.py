"""Leases of running servers, where a PostgreSQL has the tables of live.db."""

from memory_mcp.engines.transactions import Read, Row, Write

_COLUMNS = "id, pid, kind, version, started_at"


def add(tx: Write, server: Row, ends_at: str) -> None:
    """Add or renew the lease of a server (id, pid, kind, version, start)."""
    tx.all(
        f"""
        INSERT INTO leases ({_COLUMNS}, ends_at) VALUES (:id, :pid, :kind, :version, :started_at, :ends_at)
        ON CONFLICT (id) DO UPDATE SET ends_at = excluded.ends_at
        """,
        dict(zip(_COLUMNS.split(", "), server, strict=True)) | {"ends_at": ends_at},
    )


def renew(tx: Write, id_: str, ends_at: str) -> bool:
    """False if there is no such lease."""
    return bool(
        tx.all("UPDATE leases SET ends_at = :ends_at WHERE id = :id RETURNING 1", {"id": id_, "ends_at": ends_at})
    )


def remove(tx: Write, id_: str) -> None:
    tx.all("DELETE FROM leases WHERE id = :id", {"id": id_})


def is_valid(tx: Read, id_: str, now: str) -> bool:
    return tx.one("SELECT 1 FROM leases WHERE id = :id AND ends_at > :now", {"id": id_, "now": now}) is not None


def valid(tx: Read, now: str) -> list[Row]:
    """(id, pid, kind, version, start) of running servers, the oldest first, without relays."""
    return tx.all(
        f"SELECT {_COLUMNS} FROM leases WHERE ends_at > :now AND kind <> '' ORDER BY started_at, id", {"now": now}
    )


def delete_ended(tx: Write, before: str) -> None:
    tx.all("DELETE FROM leases WHERE ends_at <= :before", {"before": before})
