"""The address of a ClickHouse server, and the names that portals have on it."""

import hmac
import re
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import unquote, urlsplit

from memory_mcp.errors import Invalid

DEFAULT_PREFIX = "memory_mcp"
PORTS = {"http": 8123, "https": 8443}
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,31}")
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class ClickHouseAddress:
    """http(s)://user:password@host:port/prefix"""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    prefix: str  # of all names there, so that several installations can share a server

    @classmethod
    def parse(cls, url: str) -> "ClickHouseAddress":
        """Raises Invalid with the form of an address."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        prefix = parts.path.strip("/") or DEFAULT_PREFIX
        if parts.scheme not in PORTS or not parts.hostname or parts.query or not _PREFIX.fullmatch(prefix):
            raise Invalid(
                "portals_url: give http(s)://user:password@host:port/prefix. The prefix is that of all names on the "
                f"server: a letter, then at most 31 of a-z, 0-9 and '_'; without one it is {DEFAULT_PREFIX}.",
                field="portals_url",
            )
        user, password = unquote(parts.username or "default"), unquote(parts.password or "")
        return cls(parts.scheme, parts.hostname, port or PORTS[parts.scheme], user, password, prefix)

    def tenant(self, user: str) -> str:
        """The prefix of all databases of one user."""
        return f"{self.prefix}_{_digest(user)}_"

    def database(self, user: str, namespace: str, portal: str) -> str:
        """The database of a portal, and its role. It does not show whose it is."""
        return f"{self.tenant(user)}{_digest(user, namespace, portal)}"

    def reader(self, tenant: str) -> str:
        """The user on the server who runs the queries of one user."""
        return f"{tenant}reader"

    def reader_password(self, tenant: str) -> str:
        """Every program with the same address knows it."""
        return hmac.digest(self.password.encode(), self.reader(tenant).encode(), "sha256").hex()


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
