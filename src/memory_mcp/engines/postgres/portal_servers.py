"""The directory of portals in files: each user's are on one of the servers on this database."""

import secrets
from dataclasses import dataclass

from memory_mcp.engines.postgres.migrations import BASE
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import SERVER_TENANT, TenantRows

SECRET_BYTES = 32


@dataclass(frozen=True)
class PortalServer:
    id: str
    url: str
    users: int = 0  # how many have their portals there


class PortalServers:
    def __init__(self, home: PostgresPool) -> None:
        self._rows = TenantRows(home, BASE, SERVER_TENANT, durable=True)
        self._secret: str | None = None

    def servers(self) -> list[PortalServer]:
        with self._rows.read() as tx:
            rows = tx.all(
                """
                SELECT id, url, (SELECT count(*) FROM portal_users WHERE server_id = id AND removed_at IS NULL)
                FROM portal_servers ORDER BY url
                """
            )
        return [PortalServer(*row) for row in rows]

    def register(self, id_: str, url: str) -> None:
        """Record the address at which a server is reached from now on."""
        with self._rows.write() as tx:
            tx.all(
                """
                INSERT INTO portal_servers (id, url) VALUES (:id, :url)
                ON CONFLICT (id) DO UPDATE SET url = excluded.url
                """,
                {"id": id_, "url": url},
            )

    def server_of(self, user: str) -> PortalServer | None:
        """The server that has a user's portals. None: the user has none yet."""
        with self._rows.read() as tx:
            row = tx.one(
                """
                SELECT id, url FROM portal_users JOIN portal_servers ON id = server_id
                WHERE user_id = :user AND removed_at IS NULL
                """,
                {"user": user},
            )
        return PortalServer(*row) if row else None

    def assign(self, user: str, id_: str) -> None:
        """Record that a user's portals are on this registered server. Nothing changes if they are on another one."""
        with self._rows.write() as tx:
            tx.all(
                """
                INSERT INTO portal_users (user_id, server_id) SELECT :user, id FROM portal_servers WHERE id = :id
                ON CONFLICT (user_id) DO NOTHING
                """,
                {"user": user, "id": id_},
            )

    def move(self, user: str, id_: str) -> None:
        """Record that a user's portals are on this server now, wherever they were."""
        with self._rows.write() as tx:
            tx.all(
                """
                INSERT INTO portal_users (user_id, server_id) VALUES (:user, :id)
                ON CONFLICT (user_id) DO UPDATE SET server_id = excluded.server_id
                """,
                {"user": user, "id": id_},
            )

    def request_deletion(self, user: str) -> None:
        """Let the server that has a user's files delete them."""
        with self._rows.write() as tx:
            tx.all(
                "UPDATE portal_users SET removed_at = :now WHERE user_id = :user",
                {"user": user, "now": tx.stamp},
            )

    def removed_users(self, id_: str) -> list[str]:
        """Those whose files a server still has to delete."""
        with self._rows.read() as tx:
            rows = tx.all(
                "SELECT user_id FROM portal_users WHERE server_id = :id AND removed_at IS NOT NULL", {"id": id_}
            )
        return [user for (user,) in rows]

    def delete_user(self, user: str) -> None:
        """The user has no portals any more."""
        with self._rows.write() as tx:
            tx.all("DELETE FROM portal_users WHERE user_id = :user", {"user": user})

    def secret(self) -> str:
        """The secret of all servers on this database, created at its first use."""
        if self._secret is None:
            with self._rows.write() as tx:
                tx.all(
                    "INSERT INTO server_secrets (secret) VALUES (:secret) ON CONFLICT DO NOTHING",
                    {"secret": secrets.token_urlsafe(SECRET_BYTES)},
                )
                [(self._secret,)] = tx.all("SELECT secret FROM server_secrets")
        return str(self._secret)
