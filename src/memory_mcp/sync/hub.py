"""The hub: where a user's nodes meet. It keeps one merged record of each note and hands out what changed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.access import Limits
from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import new_id
from memory_mcp.engines.sqlite import Database, Read, Write, migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.errors import AppError, Conflict, Forbidden, Invalid, RateLimited, Unavailable
from memory_mcp.sync.protocol import (
    CLOCK_AHEAD,
    FORKED,
    MAX_AHEAD_MS,
    MAX_PAGE_BYTES,
    MAX_PAGE_VALUES,
    MAX_RECORDS,
    OTHER_SECRET,
    count_values,
)
from memory_mcp.sync.records import Record, as_json, at_most, check_size, check_values, merge, milliseconds, parse
from memory_mcp.sync.storage import hub as storage

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4348)  # "MMCH"
FILE = DatabaseKind("hub", SCHEMA, "hub.db", is_shared=True, is_locked_first=True)
PUSHES_A_MINUTE = 120  # of one user


@dataclass(frozen=True)
class Refusal:
    """A record that was not taken, and why."""

    id: str | None
    error: str
    message: str


@dataclass(frozen=True)
class Pushed:
    now: str
    ticket: str
    refused: list[Refusal] = field(default_factory=list)
    merged: list[dict[str, Any]] = field(default_factory=list)
    """Records that are not as they were sent: the hub knew more."""


@dataclass(frozen=True)
class Pulled:
    now: str
    ticket: str
    cursor: int
    records: list[dict[str, Any]]
    left: int  # how many there are after these


class Hub:
    """Everything a hub can do for a node."""

    def __init__(self, db: Database, limits: Limits) -> None:
        self._db = db
        self._limits = limits

    def push(self, caller: Caller, node: str, ticket: str | None, seal: str | None, told: Sequence[object]) -> Pushed:
        """Merge what a node tells. One record that cannot be taken does not keep the others out."""
        _require(caller, Scope.WRITE)
        allowance = self._limits.take(f"push {caller.user}", PUSHES_A_MINUTE)
        if allowance.is_spent:
            raise RateLimited(
                f"More than {PUSHES_A_MINUTE} pushes in a minute. The outbox keeps what is left.",
                retry_after=allowance.retry_after,
            )
        if len(told) > MAX_RECORDS:
            raise Invalid(f"A push brings at most {MAX_RECORDS} records. Send the rest in another.", field="records")
        with self._db.write() as tx:
            next_ticket = _exchanged(tx, caller.user, node, ticket)
            refused: list[Refusal] = []
            merged: list[dict[str, Any]] = []
            size = _Size()
            for one in told:
                try:
                    _require_space(size)
                    taken = _take(tx, caller.user, node, seal, one)
                except AppError as exc:
                    refused.append(Refusal(_id(one), exc.code, exc.message))
                else:
                    if taken:
                        merged.append(as_json(taken))
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
        """What changed in a namespace since a cursor; `own`: also what this node told itself."""
        _require(caller, Scope.READ)
        with self._db.read() as tx:
            is_latest = _check(tx, caller.user, node, ticket)
            last = storage.last_change(tx, caller.user)
            _check_seal(tx, caller.user, namespace, seal)
            if after > last:
                raise _forked()
            doubt = storage.doubt(tx, caller.user, node) if is_latest else last
            wanted = storage.Wanted(caller.user, namespace, None if own else node, doubt)
            records, cursor = _page(tx, wanted, after, limit)
            left = storage.count(tx, wanted, cursor) if records else 0
            now = tx.precise_stamp
        given = ticket
        if cursor != after or not is_latest:  # a hub put back to before this must not take the cursor for its own
            with self._db.write() as tx:
                given = _exchanged(tx, caller.user, node, ticket)
        return Pulled(now, str(given), cursor, records, left)


def forget(db: Database, user: str) -> None:
    """Delete all that a hub keeps for a user."""
    with db.write() as tx:
        storage.forget(tx, user)


def _require(caller: Caller, scope: Scope) -> None:
    caller.require(scope)
    if "notes" not in caller.families:
        raise Forbidden("This key does not open notes. Make one with `keys create --families notes`, or without.")
    if caller.is_confined:
        raise Forbidden("A confined key does not sync. Make one with `keys create`, without --confined.")


@dataclass
class _Size:
    """Of the records in an answer, as JSON."""

    n_bytes: int = 0
    n_values: int = 0

    def add(self, told: dict[str, Any]) -> None:
        text = json.dumps(told, ensure_ascii=False).encode()
        self.n_bytes += len(text)
        self.n_values += count_values(text)

    @property
    def is_over(self) -> bool:
        return self.n_bytes > MAX_PAGE_BYTES or self.n_values > MAX_PAGE_VALUES


def _require_space(size: _Size) -> None:
    if size.is_over:
        raise Unavailable("The answer is full: other nodes wrote much about these notes. Sync again to send the rest.")


def _take(tx: Write, user: str, node: str, seal: str | None, told: object) -> Record | None:
    """The record as it is now, unless that is what was told."""
    record = at_most(parse(told), tx.precise_stamp)
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
    if known is None and not record.dead and record.namespace is None:
        raise Invalid("It says no namespace, and the hub does not know it.")
    for namespace in {record.namespace, known.namespace if known else None} - {None}:
        if not _check_seal(tx, user, str(namespace), seal):
            storage.set_seal(tx, user, str(namespace), seal)
    merged = merge(known, record) if known else merge(record, record)
    check_size(merged)
    if merged != known or not storage.is_placed(tx, user, record):
        storage.keep(tx, user, node, merged, also_in=record.namespace)
    return merged if merged != record else None


def _check_seal(tx: Read, user: str, namespace: str, seal: str | None) -> bool:
    """Whether anything is known of the namespace. Raises Conflict if its notes are sealed otherwise."""
    known = storage.seal(tx, user, namespace)
    if known is not None and known != (seal,):
        are = "not encrypted" if known[0] is None else "encrypted with another secret"
        raise Conflict(
            f"The notes of {namespace!r} are {are} at this hub. Link every node with the same --secret, or with none.",
            code=OTHER_SECRET,
        )
    return known is not None


def _id(told: object) -> str | None:
    found = told.get("id") if isinstance(told, dict) else None
    return found if isinstance(found, str) else None


def _page(tx: Read, wanted: storage.Wanted, after: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """As many as fit, and the number of the last; past the end, that of the user's last change."""
    page: list[dict[str, Any]] = []
    size, cursor = _Size(), after
    for seq, is_now_in, text in storage.changes(tx, wanted, after):
        told = json.loads(text) if is_now_in == wanted.namespace else _slim(text)
        size.add(told)
        if len(page) == limit or (page and size.is_over):
            return page, cursor
        page.append(told)
        cursor = seq
    return page, max(cursor, storage.last_change(tx, wanted.user))


def _slim(text: str) -> dict[str, Any]:
    """What those may know who do not sync the namespace it is in. Also of what an earlier version let in."""
    told = json.loads(text)
    slim = Record(told["id"], told.get("registers", {}), dead=told.get("dead")).slim
    return as_json(slim)


def _check(tx: Read, user: str, node: str, ticket: str | None) -> bool:
    """Whether it is the latest ticket. Raises Conflict for a node that is not where the hub last saw it."""
    known = storage.tickets(tx, user, node)
    if (known is None and ticket is not None) or (known and ticket not in known):
        raise _forked()
    return known is not None and ticket == known[0]


def _exchanged(tx: Write, user: str, node: str, ticket: str | None) -> str:
    """The ticket for the next exchange."""
    is_latest = _check(tx, user, node, ticket)
    given = new_id()
    storage.give_ticket(tx, user, node, given, former=ticket)
    if not is_latest:
        storage.set_doubt(tx, user, node)
    return given


def _forked() -> Conflict:
    return Conflict(
        "The hub last saw this node in another state: it is a copy, or it or the hub was put back to an earlier one. "
        "Take a new node id and send everything again.",
        code=FORKED,
    )
