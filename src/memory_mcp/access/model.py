from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_mcp.caller import Scope
from memory_mcp.errors import Forbidden

Maker = Literal["first-start", "person"]
Plan = Literal["community", "pro", "business", "enterprise"]

REQUESTS_A_MINUTE: dict[Plan, int | None] = {"community": 30, "pro": 120, "business": 600, "enterprise": None}
"""What each plan allows where limits are switched on; None is no limit."""


@dataclass(frozen=True)
class User:
    id: str  # what their folder is called
    name: str
    created_at: str
    plan: Plan = "community"


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
    is_confined: bool = False  # nothing outside its namespace exists for it
    plan: Plan = "community"  # its user's

    def is_live(self, now: str) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True)
class IssuedKey:
    """A key just made, with the raw key that is shown once and kept nowhere."""

    key: Key
    raw: str


class KeyRefused(Forbidden):
    """A presented key opens nothing. Its code says why, for the 401 answer."""

    code = "invalid_token"


class NotSignedIn(Forbidden):
    """A person must sign in first, or did not succeed in it."""

    code = "not_signed_in"


@dataclass(frozen=True)
class Allowance:
    """What a limit says to one request."""

    limit: int
    remaining: int
    reset_after: float  # seconds until all of it is there again
    retry_after: float  # seconds until the next request would be let through; 0 if this one is

    @property
    def is_spent(self) -> bool:
        return self.retry_after > 0


@dataclass(frozen=True)
class AuditEvent:
    """Something worth a line in the audit log: what was done, and by whom."""

    action: str
    key_id: str | None = None
    client: str = ""
    ip: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditRecord:
    """A line of the audit log."""

    id: int
    at: str
    event: AuditEvent
