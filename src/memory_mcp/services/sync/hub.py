"""The hub: stores one merged record of each note of a user, and sends changed records to the user's nodes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import new_id
from memory_mcp.engines.sqlite import Database, migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.errors import AppError, Conflict, Forbidden, Invalid, RateLimited, Unavailable
from memory_mcp.services.access import Limits
from memory_mcp.services.sync.protocol import (
    CLOCK_AHEAD,
    FORKED,
    MAX_AHEAD_MS,
    MAX_PAGE_BYTES,
    MAX_PAGE_VALUES,
    MAX_RECORDS,
    OTHER_SECRET,
)
from memory_mcp.services.sync.records import (
    DELETION,
    NoteRecord,
    as_json,
    check_size,
    check_values,
    limit_times,
    merge,
    milliseconds,
    parse,
)
from memory_mcp.services.sync.storage import hub as storage
from memory_mcp.text.json_counts import count_values

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4348)  # "MMCH"
FILE = DatabaseKind(
    "hub",
    SCHEMA,
    "hub.db",
    is_shared=True,
    is_locked_first=True,
    postgres=Path(__file__).parent / "postgres",
    owner_column="user_id",
)
PUSHES_A_MINUTE = 120  # per user


@dataclass(frozen=True)
class Refusal:
    """A record that the hub refused, and why."""

    id: str | None
    error: str
    message: str


@dataclass(frozen=True)
class Pushed:
    now: str
    ticket: str
    refused: list[Refusal] = field(default_factory=list)
    merged: list[dict[str, Any]] = field(default_factory=list)
    """Records that differ from those sent, because the hub had newer values."""


@dataclass(frozen=True)
class Pulled:
    now: str
    ticket: str
    cursor: int
    records: list[dict[str, Any]]
    left: int  # records after these


class Hub:
    """The hub's operations for nodes."""

    def __init__(self, records_of: Callable[[str], UserDatabase], limits: Limits) -> None:
        """`records_of(user)` has a user's records: one file for all users, or the user's rows in PostgreSQL."""
        self._records_of = records_of
        self._limits = limits

    def push(self, caller: Caller, node: str, ticket: str | None, seal: str | None, sent: Sequence[object]) -> Pushed:
        """Merge the records of a node. A record that is refused does not stop the others."""
        _require(caller, Scope.WRITE)
        allowance = self._limits.take(f"push {caller.user}", PUSHES_A_MINUTE)
        if allowance.is_spent:
            raise RateLimited(
                f"More than {PUSHES_A_MINUTE} pushes in a minute. The outbox keeps the rest.",
                retry_after=allowance.retry_after,
            )
        if len(sent) > MAX_RECORDS:
            raise Invalid(f"A push brings at most {MAX_RECORDS} records. Send the rest in another.", field="records")
        with self._records_of(caller.user).write() as tx:
            next_ticket = _issue_ticket(tx, caller.user, node, ticket)
            refused: list[Refusal] = []
            merged: list[dict[str, Any]] = []
            size = _Size()
            for one in sent:
                try:
                    _require_space(size)
                    current = _merge(tx, caller.user, node, seal, one)
                except AppError as exc:
                    refused.append(Refusal(_id(one), exc.code, exc.message))
                else:
                    if current:
                        merged.append(as_json(current))
                        size.add(merged[-1])
        return Pushed(tx.precise_stamp, next_ticket, refused, merged)

    def pull(
        self,
        caller: Caller,
        node: str,
        ticket: str | None,
        seal: str | None,
        namespace: str,
        after: int,
        *,
        own: bool,
        limit: int,
    ) -> Pulled:
        """The changes in a namespace after a cursor; with `own`, also those that this node sent."""
        _require(caller, Scope.READ)
        with self._records_of(caller.user).read() as tx:
            is_latest = _check(tx, caller.user, node, ticket)
            last = storage.last_change(tx, caller.user)
            _check_seal(tx, caller.user, namespace, seal)
            if after > last:
                raise _forked()
            doubt = storage.doubt(tx, caller.user, node) if is_latest else last
            filters = storage.ChangeFilter(caller.user, namespace, None if own else node, doubt)
            records, cursor = _page(tx, filters, after, limit)
            left = storage.count(tx, filters, cursor) if records else 0
            now = tx.precise_stamp
        given = ticket
        if cursor != after or not is_latest:  # a hub restored to before this must not accept the cursor
            with self._records_of(caller.user).write() as tx:
                given = _issue_ticket(tx, caller.user, node, ticket)
        return Pulled(now, str(given), cursor, records, left)


def delete_user(db: Database, user: str) -> None:
    """Delete everything the hub stores for a user."""
    with db.write() as tx:
        storage.delete_user(tx, user)


def _require(caller: Caller, scope: Scope) -> None:
    caller.require(scope)
    if "notes" not in caller.families:
        raise Forbidden(
            "This key does not open notes. Make one with `keys create --families notes`, or without --families."
        )
    if caller.is_confined:
        raise Forbidden("A confined key does not sync. Make one with `keys create`, without --confined.")


@dataclass
class _Size:
    """Size of the records in an answer, as JSON."""

    byte_count: int = 0
    value_count: int = 0

    def add(self, sent: dict[str, Any]) -> None:
        text = json.dumps(sent, ensure_ascii=False).encode()
        self.byte_count += len(text)
        self.value_count += count_values(text, MAX_PAGE_VALUES)

    @property
    def is_over(self) -> bool:
        return self.byte_count > MAX_PAGE_BYTES or self.value_count > MAX_PAGE_VALUES


def _require_space(size: _Size) -> None:
    if size.is_over:
        raise Unavailable("The answer is full: other nodes wrote much about these notes. Sync again to send the rest.")


def _merge(tx: Write, user: str, node: str, seal: str | None, sent: object) -> NoteRecord | None:
    """Merge one record. Returns the merged record if it differs from the one sent."""
    record = limit_times(parse(sent), tx.precise_stamp)
    if seal is None:
        check_values(record)
    now = int(tx.now.timestamp() * 1000)
    ahead = max((milliseconds(stamp) - now for stamp in record.stamps), default=0)
    if ahead > MAX_AHEAD_MS:
        raise Invalid(
            f"Its clock is {ahead / 1000:,.0f} s ahead of the hub's; {MAX_AHEAD_MS // 1000} s are allowed. "
            "Set the clock of the computer that wrote it.",
            code=CLOCK_AHEAD,
            ahead_ms=ahead,
        )
    known = storage.record(tx, user, record.id)
    if known is None and not record.deleted and record.namespace is None:
        raise Invalid("It names no namespace, and the hub does not know it.")
    for namespace in {record.namespace, known.namespace if known else None} - {None}:
        if not _check_seal(tx, user, str(namespace), seal):
            storage.set_seal(tx, user, str(namespace), seal)
    merged = merge(known, record) if known else merge(record, record)
    check_size(merged)
    if merged != known or not storage.is_placed(tx, user, record):
        storage.save(tx, user, node, merged, also_in=record.namespace)
    return merged if merged != record else None


def _check_seal(tx: Read, user: str, namespace: str, seal: str | None) -> bool:
    """Whether the namespace has a seal. Raises Conflict if its notes are sealed with another secret."""
    known = storage.seal(tx, user, namespace)
    if known is not None and known != (seal,):
        are = "not encrypted" if known[0] is None else "encrypted with another secret"
        raise Conflict(
            f"The notes of {namespace!r} are {are} at this hub. Link every node with the same --secret, or with none.",
            code=OTHER_SECRET,
        )
    return known is not None


def _id(sent: object) -> str | None:
    found = sent.get("id") if isinstance(sent, dict) else None
    return found if isinstance(found, str) else None


def _page(tx: Read, filters: storage.ChangeFilter, after: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """As many records as fit, and the number of the last one; at the end, the number of the user's last change."""
    page: list[dict[str, Any]] = []
    size, cursor = _Size(), after
    for seq, is_now_in, text in storage.changes(tx, filters, after):
        sent = json.loads(text) if is_now_in == filters.namespace else _location(text)
        size.add(sent)
        if len(page) == limit or (page and size.is_over):
            return page, cursor
        page.append(sent)
        cursor = seq
    return page, max(cursor, storage.last_change(tx, filters.user))


def _location(text: str) -> dict[str, Any]:
    """The part of a record for nodes that do not sync its namespace. Reads invalid records of earlier versions too."""
    stored = json.loads(text)
    return as_json(NoteRecord(stored["id"], stored.get("registers", {}), deleted=stored.get(DELETION)).location_only)


def _check(tx: Read, user: str, node: str, ticket: str | None) -> bool:
    """Whether it is the latest ticket. Raises Conflict if the hub did not issue this ticket to the node."""
    known = storage.tickets(tx, user, node)
    if (known is None and ticket is not None) or (known and ticket not in known):
        raise _forked()
    return known is not None and ticket == known[0]


def _issue_ticket(tx: Write, user: str, node: str, ticket: str | None) -> str:
    """Store and return the ticket for the next exchange."""
    is_latest = _check(tx, user, node, ticket)
    given = new_id()
    storage.set_ticket(tx, user, node, given, former=ticket)
    if not is_latest:
        storage.set_doubt(tx, user, node)
    return given


def _forked() -> Conflict:
    return Conflict(
        "The hub last saw this node in another state: it is a copy, or it or the hub was restored to an earlier one. "
        "Take a new node id and send everything again.",
        code=FORKED,
    )
