from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_mcp.caller import Scope
from memory_mcp.errors import Forbidden

Maker = Literal["first-start", "person"]
Plan = Literal["community", "pro", "business", "enterprise"]

REQUESTS_PER_MINUTE: dict[Plan, int | None] = {"community": 30, "pro": 120, "business": 600, "enterprise": None}
"""The limit of each plan, where limits are switched on; None is no limit."""


@dataclass(frozen=True)
class User:
    id: str  # also the name of their folder
    name: str
    created_at: str
    plan: Plan = "community"


@dataclass(frozen=True)
class Key:
    """A stored key: everything but the raw key."""

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

    def is_active(self, now: str) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True)
class IssuedKey:
    """A new key with the raw key, which is shown once and stored nowhere."""

    key: Key
    raw: str


class KeyRefused(Forbidden):
    """A presented key is not accepted. The code says why, for the 401 answer."""

    code = "invalid_token"


class NotSignedIn(Forbidden):
    """The request has no valid sign-in, or an attempt to sign in failed."""

    code = "not_signed_in"


@dataclass(frozen=True)
class Allowance:
    """The state of a rate limit after one request."""

    limit: int
    remaining: int
    reset_after: float  # seconds until the full limit is available again
    retry_after: float  # seconds until a request would be accepted; 0 if this one was

    @property
    def is_spent(self) -> bool:
        return self.retry_after > 0


@dataclass(frozen=True)
class AuditEvent:
    """An action for the audit log, and who did it."""

    action: str
    key_id: str | None = None
    client: str = ""
    ip: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditRecord:
    """A stored audit event."""

    id: int
    at: str
    event: AuditEvent
