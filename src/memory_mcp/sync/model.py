"""What a node knows about itself, and what it is asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.sync.records import Record


@dataclass(frozen=True)
class ReplicaState:
    """Where a copy of the notes stands with its hub."""

    node: str
    hub: str | None  # whose ticket it is
    ticket: str | None
    synced_at: str | None
    error: str | None
    to_send: int  # changes the hub has not acknowledged, of namespaces that are enabled


@dataclass(frozen=True)
class Synced:
    """A namespace, as `sync status` shows it."""

    namespace: str
    enabled: bool
    notes: int  # that are not archived
    outbox: int
    to_pull: int  # at the hub when it was last asked
    refused: list[str]  # which of the outbox the hub does not take, and why
    cursor: int
    enabled_at: str
    pushed_at: str | None
    pulled_at: str | None


@dataclass(frozen=True)
class SetAside:
    """A record from the hub that could not be taken in, and why."""

    id: str  # of the note; empty if the record names none
    reason: str


@dataclass(frozen=True)
class NamespaceCursor:
    """How far a namespace has been read."""

    namespace: str
    cursor: int
    rereading: bool


@dataclass(frozen=True)
class Outgoing:
    """A record in the outbox. The ticket tells whether the note has changed since."""

    ticket: int
    record: Record


class Replica(Protocol):
    """One user's notes as nodes see them: who keeps them stamps every change and merges what arrives."""

    def standing(self) -> ReplicaState: ...

    def namespaces(self) -> list[Synced]: ...

    def set_aside(self) -> list[SetAside]:
        """What could not be taken in, the latest first. `resync` asks for it again."""

    def places(self) -> list[NamespaceCursor]:
        """Of namespaces that are enabled."""

    def enable(self, namespace: str) -> None: ...

    def disable(self, namespace: str) -> None: ...

    def resync(self, namespace: str) -> None:
        """Tell the hub everything again, and read everything from it again."""

    def clear(self, namespace: str) -> None:
        """Forget all that is known about syncing it. The notes stay."""

    def outgoing(self, after: int, most: int, most_bytes: int) -> list[Outgoing]:
        """The next in the outbox after a ticket."""

    def sent(
        self,
        outgoing: Sequence[Outgoing],
        refused: Mapping[str, str],
        merged: Sequence[Record],
        ticket: str,
        hub_now: str,
        set_aside: Sequence[SetAside] = (),
    ) -> None:
        """The hub has all of these but the refused ones since `hub_now`, and knew more about some."""

    def take_in(
        self,
        place: NamespaceCursor,
        records: Sequence[Record],
        cursor: int,
        ticket: str,
        left: int,
        set_aside: Sequence[SetAside] = (),
    ) -> None:
        """Merge what the hub has, and move the cursor, together. What cannot be merged joins what was set aside."""

    def start_over(self, hub: str | None, *, new_node: bool) -> None:
        """Forget where the hub was, and tell and read everything again."""

    def set_clock(self, hub_ms: int, here_ms: int) -> None:
        """Go by the hub's clock. Stamps that are ahead of it beyond what it takes, and were never sent, are lowered.

        Raises Unavailable if that clock is behind what the hub has taken or given before."""

    def ended(self, error: str | None) -> None:
        """Note how an exchange ended."""
