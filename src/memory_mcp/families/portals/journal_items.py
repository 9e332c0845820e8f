"""Tables of portals in the journal of writes. A record says which rows a write has added; `table_undo` deletes them."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from memory_mcp.caller import Caller
from memory_mcp.clock import instant
from memory_mcp.engines.transactions import Read, UserDatabases, Write
from memory_mcp.errors import AppError, Invalid
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals.address import SCHEME, Address
from memory_mcp.families.portals.folders import PortalFolders
from memory_mcp.families.portals.storage import writes
from memory_mcp.families.portals.table_undo import TableUndo, WrittenRows
from memory_mcp.families.writes import ItemShown, Journal, origins
from memory_mcp.services.write_journal import Action, ItemWrite, Writer

log = logging.getLogger(__name__)

Exists: TypeAlias = Callable[[Address], bool]
"""Whether there is a portal or a table."""

WHY_NO_UNDO = (
    "rows on a ClickHouse server do not say which write they are from; look at them with portal_query, and delete what "
    "is wrong"
)

MAX_RECORDS_PER_TABLE = 2000  # that are read to find out which session wrote a row: the newest
MAX_RECORD_DELAY = timedelta(seconds=5)  # between the time in a row and the record of its write


@dataclass(frozen=True)
class TableSessions:
    """Which sessions wrote to a table, and when."""

    times: Sequence[datetime]  # of the writes, in order
    sessions: Sequence[str | None]  # None where it is not known

    def session_at(self, moment: datetime) -> str | None:
        """The session that wrote the rows with this time: that of the first write that was recorded since. None if it
        is not known."""
        number = bisect_left(self.times, moment)
        if number == len(self.times) or self.times[number] - moment > MAX_RECORD_DELAY:
            return None
        return self.sessions[number]


def item_of(address: Address) -> str:
    return "/".join(filter(None, (address.namespace, address.portal, address.table)))


def table_write(portal: Address, table: str, action: Action, rows: int, mark: int | None = None) -> ItemWrite:
    """`rows` is how many were added, with this mark, or, below 0, deleted."""
    return ItemWrite(f"{item_of(portal)}/{table}", action, rows=rows, mark=mark)


def portal_write(portal: Address, action: Action, rows: int | None = None) -> ItemWrite:
    """The portal as a whole was deleted, or its name or description changed."""
    return ItemWrite(item_of(portal), action, rows=rows)


def import_writes(
    portal: Address, imported: Mapping[str, int], former: Mapping[str, int], mark: int | None, *, replaces: bool
) -> list[ItemWrite]:
    """The tables of an import, with how many rows each got, all with this mark, after those that it replaced. `former`
    has the tables that there were before."""
    gone = [name for name in imported if replaces and name in former]
    updated = former.keys() - gone
    return [
        *(table_write(portal, name, "deleted", -former[name]) for name in gone),
        *(
            table_write(portal, name, "updated" if name in updated else "created", imported[name], mark)
            for name in imported
        ),
    ]


class PortalJournal:
    """The journals of all users' portals. A power cut may lose the last records."""

    def __init__(self, databases: UserDatabases | None, portals: Callable[[Caller], PortalFolders]) -> None:
        """Without `databases` nothing is recorded: for maintenance, which writes for no caller."""
        self._databases = databases
        self._portals = portals

    def record(self, caller: Caller, *written: ItemWrite) -> None:
        """Record what an engine has confirmed. Never fails: it is written, whether or not that can be recorded."""
        self._record(caller, written, lambda tx: writes.WRITES.record(tx, caller, *written))

    def record_undo(self, caller: Caller, written: Sequence[tuple[ItemWrite, int]]) -> bool:
        """The same for an undo: each write with the number of the record that it undoes. Returns whether it
        is recorded."""

        def record(tx: Write) -> None:
            for one, number in written:
                writes.WRITES.record(tx, caller, one, undoes=number)

        return self._record(caller, [one for one, _ in written], record)

    def _record(self, caller: Caller, written: Sequence[ItemWrite], record: Callable[[Write], None]) -> bool:
        if self._databases is None or not written:
            return False
        try:
            with self._databases.database(caller.user).write() as tx:
                record(tx)
            return True
        except AppError as exc:
            writer = Writer(caller.source, caller.client, caller.key_id, caller.key_name)
            for one in written:
                written_rows = f"{one.item} {one.action}, {one.rows} rows"
                message = "A write is missing in the journal of portals: %s, by %r. %s"
                log.warning(message, written_rows, str(writer), exc.message)
            return False

    def origins(self, caller: Caller, refs: Sequence[str]) -> dict[str, str]:
        """Who wrote to each of these tables and portals. None are known while the journal cannot be read."""
        if self._databases is None or not self._databases.exists(caller.user):
            return {}
        try:
            with self._databases.database(caller.user).read() as tx:
                return origins(tx, self._items(caller), refs)
        except AppError:
            return {}

    def sessions(self, caller: Caller, table: Address) -> TableSessions:
        """None are known while the journal cannot be read."""
        if self._databases is None or not self._databases.exists(caller.user):
            return TableSessions((), ())
        try:
            with self._databases.database(caller.user).read() as tx:
                records = self._items(caller).table.newest(tx, [item_of(table)], MAX_RECORDS_PER_TABLE)
        except AppError:
            return TableSessions((), ())
        added = sorted((one for one in records if (one.rows or 0) > 0), key=lambda one: one.at)
        return TableSessions([instant(one.at) for one in added], [one.writer.session_id for one in added])

    def journals(self, caller: Caller, rows: WrittenRows | None, exists: Exists | None = None) -> list[Journal]:
        """`rows` are those of the caller's tables; None: they do not say which write they are from. `exists` says which
        portals and tables there are, if they are not on this server."""
        if self._databases is None or not self._databases.exists(caller.user):
            return []
        read, items = self._databases.database(caller.user).read, self._items(caller, exists)
        undo = None if rows is None else TableUndo(items.table, read, rows, caller)
        return [Journal(items, read, undo, why_no_undo=WHY_NO_UNDO)]

    def _items(self, caller: Caller, exists: Exists | None = None) -> "PortalItems":
        return PortalItems(exists or partial(_exists, self._portals(caller)), caller.confined_to)


def _exists(folders: PortalFolders, address: Address) -> bool:
    folder = folders.get(address)
    if address.table is None or not folder.exists():
        return folder.exists()
    described = folder.described()
    return described is None or address.table in {table.name for table in described.tables}


class PortalItems:
    def __init__(self, exists: Exists, within: str | None) -> None:
        """`within` is the namespace that the caller is confined to: writes to others are left out."""
        self.table = writes.WRITES if within is None else writes.writes_within(within)
        self._exists = exists
        self._within = within

    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        """Those that exist."""
        return {item: ItemShown(f"{SCHEME}{item}", item) for item in items if self._exists(Address(*item.split("/")))}

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        """A table, or all tables of a portal."""
        found = {ref: address for ref in refs if (address := self._address(ref))}
        return {
            ref: [item_of(address)] if address.table else writes.items_in(tx, item_of(address))
            for ref, address in found.items()
        }

    def _address(self, ref: str) -> Address | None:
        try:
            address = addresses.parse(ref)
        except Invalid:
            return None
        return address if self._within in (None, address.namespace) else None

    def writers(self, tx: Read, items: Iterable[str]) -> dict[str, list[Writer]]:
        """Of every row that was ever written, as the writer of a single one is not known."""
        return writes.writers(tx, items)
