"""Connected clients and the servers' URLs, in live.db."""

from dataclasses import astuple

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.sessions.model import Client

_COLUMNS = "id, user_id, key_id, name, version, ip, transport, protocol_version, started_at, last_call_at, calls"


def save(tx: Write, server_id: str, client: Client) -> None:
    values = dict(zip(_COLUMNS.split(", "), astuple(client), strict=True))
    tx.all(
        """
        INSERT INTO clients (id, server_id, user_id, key_id, name, version, ip, transport, protocol_version,
            started_at, last_call_at, calls)
        VALUES (:id, :server, :user_id, :key_id, :name, :version, :ip, :transport, :protocol_version,
            :started_at, :last_call_at, :calls)
        ON CONFLICT (id) DO UPDATE SET
            server_id = excluded.server_id, name = excluded.name, version = excluded.version, ip = excluded.ip,
            protocol_version = excluded.protocol_version, last_call_at = excluded.last_call_at, calls = excluded.calls
        """,
        values | {"server": server_id},
    )


def remove(tx: Write, id_: str) -> None:
    tx.all("DELETE FROM clients WHERE id = :id", {"id": id_})


def remove_all_of(tx: Write, server_id: str) -> None:
    tx.all("DELETE FROM clients WHERE server_id = :server", {"server": server_id})
    tx.all("DELETE FROM addresses WHERE server_id = :server", {"server": server_id})


def users_of(tx: Read, server_id: str) -> list[str]:
    rows = tx.all("SELECT DISTINCT user_id FROM clients WHERE server_id = :server", {"server": server_id})
    return [user for (user,) in rows]


def of(tx: Read, user: str) -> list[tuple[str, Client]]:
    """(server, client), the longest connected first."""
    rows = tx.all(
        f"SELECT server_id, {_COLUMNS} FROM clients WHERE user_id = :user ORDER BY started_at, id", {"user": user}
    )
    return [(server, Client(*rest)) for server, *rest in rows]


def all_of(tx: Read, server_id: str) -> list[Client]:
    """The clients of a server, the longest connected first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM clients WHERE server_id = :server ORDER BY started_at, id", {"server": server_id}
    )
    return [Client(*row) for row in rows]


def servers(tx: Read) -> list[str]:
    return [id_ for (id_,) in tx.all("SELECT server_id FROM clients UNION SELECT server_id FROM addresses")]


def mark_unwanted(tx: Write, id_: str) -> None:
    tx.all("UPDATE clients SET is_unwanted = 1 WHERE id = :id", {"id": id_})


def unwanted(tx: Read, server_id: str) -> list[str]:
    rows = tx.all("SELECT id FROM clients WHERE server_id = :server AND is_unwanted = 1", {"server": server_id})
    return [id_ for (id_,) in rows]


def set_address(tx: Write, server_id: str, url: str) -> None:
    tx.all(
        """
        INSERT INTO addresses (server_id, url) VALUES (:server, :url)
        ON CONFLICT (server_id) DO UPDATE SET url = excluded.url
        """,
        {"server": server_id, "url": url},
    )


def addresses(tx: Read) -> list[tuple[str, str]]:
    """(server, url)."""
    return tx.all("SELECT server_id, url FROM addresses")
