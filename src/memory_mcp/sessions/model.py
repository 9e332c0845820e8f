from dataclasses import dataclass, field

from memory_mcp.clock import new_id


@dataclass
class Connection:
    """One client's line to this server, and what it chose on it."""

    user: str
    own_session: str  # the session of a client that names none
    own_is_named: bool = False  # somebody chose that name, so others may use it too
    idles: bool = False  # the protocol has no close: its sessions end after an idle time
    chosen_session: str | None = None  # by set_session_id
    announced_session: str | None = None  # by clientInfo.extra.sessionId in the handshake
    client: str = ""  # the client's name, by clientInfo in the handshake
    closed: bool = False
    streams: int = 0  # open ones, which need no calls to stay
    id: str = field(default_factory=new_id)


@dataclass(frozen=True)
class Session:
    """The session one call belongs to."""

    id: str
    connection: Connection
    client: str = ""  # the name of the client that makes the call; empty if it does not tell

    @property
    def is_named(self) -> bool:
        """Whether another connection may be in the same session."""
        return self.id != self.connection.own_session or self.connection.own_is_named
