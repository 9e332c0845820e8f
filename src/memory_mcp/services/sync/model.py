"""A node's state, and the interface to the notes that it syncs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.services.sync.records import NoteRecord


@dataclass(frozen=True)
class ReplicaState:
    """How far a copy of the notes is in sync with its hub."""

    node: str
    hub: str | None  # the URL of the hub that issued the ticket
    ticket: str | None
    synced_at: str | None
    error: str | None
    to_send: int  # changes in enabled namespaces that the hub has not acknowledged


@dataclass(frozen=True)
class SyncedNamespace:
    """A namespace, as `sync status` shows it."""

    namespace: str
    enabled: bool
    notes: int  # without archived ones
    outbox: int
    to_pull: int  # at the hub, as of the last exchange
    refused: list[str]  # notes in the outbox that the hub refuses, and why
    cursor: int
    enabled_at: str
    pushed_at: str | None
    pulled_at: str | None


@dataclass(frozen=True)
class SkippedRecord:
    """A record from the hub that could not be merged, and why."""

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
    """A record in the outbox. If the note changes, it gets a new ticket."""

    ticket: int
    record: NoteRecord


class Replica(Protocol):
    """One user's notes as records. The implementation stamps every change and merges incoming records."""

    def state(self) -> ReplicaState: ...

    def namespaces(self) -> list[SyncedNamespace]: ...

    def skipped(self) -> list[SkippedRecord]:
        """The skipped records, latest first. `resync` requests them again."""

    def cursors(self) -> list[NamespaceCursor]:
        """Of the enabled namespaces."""

    def enable(self, namespace: str) -> None: ...

    def disable(self, namespace: str) -> None: ...

    def resync(self, namespace: str) -> None:
        """Send everything to the hub again, and read everything from it again."""

    def clear(self, namespace: str) -> None:
        """Delete the sync state of a namespace. The notes stay."""

    def outgoing(self, after: int, max_records: int, max_bytes: int) -> list[Outgoing]:
        """The next records in the outbox after a ticket."""

    def finish_push(
        self,
        outgoing: Sequence[Outgoing],
        refused: Mapping[str, str],
        merged: Sequence[NoteRecord],
        ticket: str,
        hub_now: str,
        skipped: Sequence[SkippedRecord] = (),
    ) -> None:
        """Since `hub_now` the hub has all of these but the refused ones. `merged`: the hub had newer values."""

    def merge_page(
        self,
        start: NamespaceCursor,
        records: Sequence[NoteRecord],
        cursor: int,
        ticket: str,
        left: int,
        skipped: Sequence[SkippedRecord] = (),
    ) -> None:
        """Merge a page of records and move the cursor in one transaction. Records that cannot be merged are skipped."""

    def start_over(self, hub: str | None, *, new_node: bool) -> None:
        """Reset the cursors, and send and read everything again."""

    def set_clock(self, hub_ms: int, here_ms: int) -> None:
        """Adjust to the hub's clock. Unsent stamps that are further ahead of it than the hub accepts are lowered.

        Raises Unavailable if that clock is behind the stamps already exchanged with the hub."""

    def finish_exchange(self, error: str | None) -> None:
        """Record the result of an exchange."""
