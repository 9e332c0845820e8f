"""Who is calling, and what they may do."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from memory_mcp.errors import Forbidden, Invalid

WriteSource = Literal["mcp", "ui", "cli", "import", "hook", "sync"]

LOCAL_USER = "local"  # the person whose data directory this is


class Scope(StrEnum):
    READ = "read_memory"
    WRITE = "write_memory"
    DELETE = "delete_memory"
    LINK = "manage_links"


ALL_SCOPES = frozenset(Scope)
LEVELS = {"read-only": frozenset({Scope.READ}), "read-write": ALL_SCOPES}
"""The vault spec's names for two sets of scopes."""


@dataclass(frozen=True)
class Caller:
    user: str
    scopes: frozenset[Scope]
    families: frozenset[str]
    key_id: str | None = None  # which key was presented; None on stdio
    namespace: str = "default"  # of notes that name none
    requests_a_minute: int | None = None  # None: no limit
    ip: str | None = None  # None on stdio
    is_person: bool = False  # a user of the web app, not an agent
    is_confined: bool = False  # to its namespace
    # For the journal of writes:
    source: WriteSource = "mcp"
    client: str = ""  # the name that the calling program gave itself
    key_name: str | None = None
    session_id: str | None = None
    undo_id: str | None = None  # of the undo that writes

    @property
    def confined_to(self) -> str | None:
        """The one namespace that exists for this caller. None: all of the user's do."""
        return self.namespace if self.is_confined else None

    def unconfined(self) -> "Caller":
        """The same user, for work that the server does for all of the user's keys, such as indexing."""
        return replace(self, is_confined=False)

    def require(self, scope: Scope) -> None:
        if scope not in self.scopes:
            raise Forbidden(
                f"This needs the {scope} scope, which this connection does not have. "
                "Use a key or --scopes that grants it.",
                scope=scope.value,
            )


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes from their names or from a level's name. Raises Invalid for an unknown name."""
    scopes: set[Scope] = set()
    for name in names:
        if name in LEVELS:
            scopes |= LEVELS[name]
        elif name in set(Scope):
            scopes.add(Scope(name))
        else:
            known = ", ".join([*Scope, *LEVELS])
            raise Invalid(f"{name!r} is not a scope. Use any of: {known}.", field="scopes")
    return frozenset(scopes)
