from dataclasses import dataclass
from typing import Literal

from memory_mcp.caller import Scope
from memory_mcp.errors import Forbidden

Maker = Literal["first-start", "person"]


@dataclass(frozen=True)
class User:
    id: str  # what their folder is called
    name: str
    created_at: str


@dataclass(frozen=True)
class Key:
    """A key as it is kept: everything but the key itself."""

    id: str
    user: str
    name: str
    key_prefix: str
    secret_hash: str
    scopes: frozenset[Scope]
    families: frozenset[str]  # empty means all
    made_by: Maker
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None
    namespace: str = "default"  # of notes that name none

    def is_live(self, now: str) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True)
class IssuedKey:
    """A key just made, with the raw key that is shown once and kept nowhere."""

    key: Key
    raw: str


class Refused(Forbidden):
    """A presented key opens nothing. Its word says why, for the 401 answer."""
