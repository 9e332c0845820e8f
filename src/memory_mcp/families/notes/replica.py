"""One user's notes for sync: outgoing records, and the merge of incoming ones.

Triggers stamp every local change (migrations/0002_sync.sql); this module reads stamps, and writes those of other nodes.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.errors import Invalid, NotFound, Unavailable
from memory_mcp.families.notes.replica_merge import (
    MarksByContent,
    ReplicaChanges,
    link_waiting,
    merge_record,
    parse_bodies,
)
from memory_mcp.families.notes.replica_records import first_within, records_of
from memory_mcp.families.notes.storage import notes
from memory_mcp.families.notes.storage.sync import clock, fields, namespaces, outbox, wikilinks
from memory_mcp.services.sync.model import NamespaceCursor, Outgoing, ReplicaState, SkippedRecord, SyncedNamespace
from memory_mcp.services.sync.protocol import MAX_AHEAD_MS
from memory_mcp.services.sync.records import NoteRecord

log = logging.getLogger(__name__)

MIN_OFFSET_CHANGE_MS = 500  # a smaller change of the clock offset is ignored


class NoteReplica:
    """Implements sync's Replica on the notes' file."""

    def __init__(self, user: str, db: UserDatabase, publish: Callable[[ReplicaChanges], None]) -> None:
        self._user = user
        self._db = db
        self._publish = publish

    def state(self) -> ReplicaState:
        with self._db.read() as tx:
            return clock.state(tx)

    def namespaces(self) -> list[SyncedNamespace]:
        with self._db.read() as tx:
            return namespaces.namespaces(tx)

    def skipped(self) -> list[SkippedRecord]:
        with self._db.read() as tx:
            return namespaces.skipped_records(tx)

    def cursors(self) -> list[NamespaceCursor]:
        with self._db.read() as tx:
            return namespaces.cursors(tx)

    def enable(self, namespace: str) -> None:
        with self._db.write() as tx:
            if not namespaces.is_tracked(tx, namespace):
                namespaces.track(tx, namespace)
            elif not namespaces.is_enabled(tx, namespace):
                namespaces.set_enabled(tx, namespace, True)
                namespaces.start_over(tx, namespace)  # records were not merged while it was disabled

    def disable(self, namespace: str) -> None:
        with self._db.write() as tx:
            _require_synced(tx, namespace)
            namespaces.set_enabled(tx, namespace, False)

    def resync(self, namespace: str) -> None:
        with self._db.write() as tx:
            _require_synced(tx, namespace)
            namespaces.start_over(tx, namespace)

    def clear(self, namespace: str) -> None:
        with self._db.write() as tx:
            _require_synced(tx, namespace)
            namespaces.untrack(tx, namespace)

    def outgoing(self, after: int, max_records: int, max_bytes: int) -> list[Outgoing]:
        changed = ReplicaChanges()
        with self._db.write() as tx:
            waiting = outbox.pending(tx, after, max_records)
            ids = [id_ for _, id_ in waiting]
            with _applying_changes(tx):
                link_waiting(tx, ids, changed)
            records = records_of(tx, ids)
            outbox.acknowledge(tx, [ticket for ticket, id_ in waiting if id_ not in records])
            outgoing = [Outgoing(ticket, records[id_]) for ticket, id_ in waiting if id_ in records]
            first = list(first_within(outgoing, max_bytes))
            if stamps := [stamp for one in first for stamp in one.record.stamps]:
                clock.set_exchanged(tx, max(stamps))
        self._publish(changed)
        return first

    def finish_push(
        self,
        outgoing: Sequence[Outgoing],
        refused: Mapping[str, str],
        merged: Sequence[NoteRecord],
        ticket: str,
        hub_now: str,
        skipped: Sequence[SkippedRecord] = (),
    ) -> None:
        marks = parse_bodies(merged)
        with self._db.write() as tx:
            clock.set_ticket(tx, ticket)
            for one in outgoing:
                if why := refused.get(one.record.id):
                    outbox.refuse(tx, one.ticket, why)
            taken = [one for one in outgoing if one.record.id not in refused]
            unchanged = outbox.acknowledge(tx, [one.ticket for one in taken])
            with _applying_changes(tx):
                fields.apply_hub_limits(tx, unchanged, hub_now)
            namespaces.set_pushed(tx, [one.record.id for one in taken])
            changed = self._merge_all(tx, merged, marks, skipped, namespace=None)
        self._publish(changed)

    def merge_page(
        self,
        start: NamespaceCursor,
        records: Sequence[NoteRecord],
        cursor: int,
        ticket: str,
        left: int,
        skipped: Sequence[SkippedRecord] = (),
    ) -> None:
        marks = parse_bodies(records)
        with self._db.write() as tx:
            changed = self._merge_all(tx, records, marks, skipped, namespace=start.namespace)
            clock.set_ticket(tx, ticket)
            namespaces.set_cursor(tx, start, cursor, left)
        self._publish(changed)

    def start_over(self, hub: str | None, *, new_node: bool) -> None:
        with self._db.write() as tx:
            if new_node:
                clock.renew_node(tx)
            clock.set_hub(tx, hub)
            namespaces.start_over(tx, None)

    def set_clock(self, hub_ms: int, here_ms: int) -> None:
        offset = hub_ms - here_ms
        with self._db.read() as tx:
            latest, exchanged, known = clock.times(tx)
        behind = min(exchanged, here_ms) - hub_ms
        if behind > MAX_AHEAD_MS:
            raise Unavailable(
                f"The hub's clock is behind: by {behind / 1000:,.0f} s or more, compared with records that it accepted "
                "or sent before. Nothing is synced until the clock of the hub's computer is set."
            )
        highest = max(hub_ms + MAX_AHEAD_MS, exchanged)
        is_ahead = latest > highest
        if abs(offset - known) < MIN_OFFSET_CHANGE_MS and not is_ahead:
            return
        with self._db.write() as tx:
            clock.set_offset(tx, offset)
            if is_ahead:
                clock.lower_stamps(tx, highest, hub_ms)

    def finish_exchange(self, error: str | None) -> None:
        with self._db.write() as tx:
            clock.set_ended(tx, error)

    def _merge_all(
        self,
        tx: Write,
        records: Sequence[NoteRecord],
        marks: MarksByContent,
        skipped: Sequence[SkippedRecord],
        *,
        namespace: str | None,
    ) -> ReplicaChanges:
        """Merge records one by one. A record that cannot be merged is skipped."""
        changed = ReplicaChanges()
        merged: list[str] = []
        skipped_now = list(skipped)
        with _applying_changes(tx):
            for record in records:
                mine = ReplicaChanges()
                try:
                    with tx.savepoint():
                        merged += [record.id] if merge_record(tx, self._user, record, marks, mine) else []
                except Invalid as exc:
                    skipped_now.append(SkippedRecord(record.id, exc.message))
                else:
                    changed.notes += mine.notes
                    changed.linked += mine.linked
            if stamps := [stamp for record in records for stamp in record.stamps]:
                clock.observe(tx, max(stamps))
                clock.set_exchanged(tx, max(stamps))
            concerned = [*dict.fromkeys(merged + changed.linked)]
            repointed = wikilinks.apply_recorded_targets(tx, concerned)
        namespaces.remove_skipped(tx, merged)
        if skipped_now:
            log.warning("Could not merge %d notes from the hub: `memory-mcp sync status` lists them", len(skipped_now))
            namespaces.add_skipped(tx, skipped_now, namespace)
        # Links that no node has resolved yet are resolved as a local change, which is sent to the others.
        repointed += wikilinks.resolve_dangling(tx, concerned)
        changed.linked += notes.ids_of(tx, repointed)
        return changed


@contextmanager
def _applying_changes(tx: Write) -> Iterator[None]:
    clock.set_arriving(tx, True)
    yield
    clock.set_arriving(tx, False)


def _require_synced(tx: Read, namespace: str) -> None:
    if not namespaces.is_tracked(tx, namespace):
        raise _not_synced(namespace)


def _not_synced(namespace: str) -> NotFound:
    return NotFound(f"The namespace {namespace!r} is not synced. Enable it with `memory-mcp sync enable {namespace}`.")
