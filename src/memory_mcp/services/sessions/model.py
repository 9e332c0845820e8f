from dataclasses import dataclass, field
from typing import Literal

from memory_mcp.clock import new_id

Transport = Literal["stdio", "streamable-http", "sse"]


@dataclass
class Connection:
    """One client's connection to this server, and the session it chose."""

    user: str
    own_session: str  # the session of a client that names none
    own_is_named: bool = False  # a client or the settings chose that name, so other connections may use it too
    ends_when_idle: bool = False  # the protocol has no connections to close: its sessions end after an idle time
    chosen_session: str | None = None  # by set_session_id
    announced_session: str | None = None  # by clientInfo.extra.sessionId in the handshake
    client: str = ""  # the client's name, by clientInfo in the handshake
    closed: bool = False
    relay: str | None = None  # the relay that it comes through: its sessions outlive this server
    streams: int = 0  # open ones, which keep the connection in use without calls
    id: str = field(default_factory=new_id)


@dataclass(frozen=True)
class Session:
    """The session one call belongs to."""

    id: str
    connection: Connection
    client: str = ""  # the name of the client that makes the call; empty if unknown

    @property
    def is_named(self) -> bool:
        """Whether another connection may be in the same session."""
        return self.id != self.connection.own_session or self.connection.own_is_named


@dataclass(frozen=True)
class Client:
    """A connected client: one connection or, where the protocol has none, one pair of key and client name."""

    id: str
    user: str
    key_id: str | None  # None on stdio
    name: str
    version: str
    ip: str | None
    transport: Transport
    protocol_version: str
    started_at: str
    last_call_at: str
    calls: int = 0
