"""Shared by all operations: a caller's portals, their engines, and the recorded schemas of their tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from memory_mcp import __version__
from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, precise_stamp
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import AppError, Invalid, NotFound, Unavailable
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import journal, storage
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.folders import Engines, PortalFolder, PortalFolders
from memory_mcp.families.portals.journal import StagedTable
from memory_mcp.families.portals.journal_items import PortalJournal
from memory_mcp.families.portals.model import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, Labels, Table
from memory_mcp.families.portals.usage import UsageCounter
from memory_mcp.text.names import hidden_character
from memory_mcp.text.nearness import error_data, nearest, not_found, seen_by

PROTOCOL = "2026-07-28"


class PortalRegistry:
    """The portals of all users, one at a time."""

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        engines: Engines,
        changes: Changes,
        clock: Clock,
        journal_of_writes: PortalJournal,
    ) -> None:
        self.folder_of = folder_of
        self.engines = engines
        self.journal_of_writes = journal_of_writes
        self.changes = changes
        self.usage = UsageCounter()
        self._clock = clock

    def now(self) -> datetime:
        return self._clock()

    def engine(self, folder: PortalFolder) -> PortalEngine:
        """The engine of a portal, for a caller who does not hold its lock. An import that was interrupted in its last
        step is finished first."""
        engine = self.engines.get(folder)
        if journal.exists(folder):
            with folder.write_lock():
                self.finish_import(folder, engine)
        return engine

    def open(self, folder: PortalFolder) -> PortalEngine:
        """The engine of a portal, for a caller who holds its lock. A new portal gets its metadata, and is listed once
        the call has succeeded: see changing."""
        engine = self.engines.get(folder)
        self.finish_import(folder, engine)
        if not folder.exists():
            storage.create_metadata(engine, self._about(folder.address))
        return engine

    def described_tables(self, folder: PortalFolder, engine: PortalEngine) -> list[Table]:
        """The tables of a portal. Its description is written if there is none."""
        if described := folder.described():
            return described.tables
        tables = storage.tables(engine)
        if folder.exists():
            folder.describe(tables)
        return tables

    def rename_staged(self, folder: PortalFolder, engine: PortalEngine, tables: Sequence[StagedTable]) -> None:
        """Give staged tables their names: all of them, even if this process or the engine ends meanwhile. The caller
        holds the portal's lock."""
        journal.write(folder, tables)
        try:
            self.finish_import(folder, engine)
        except EngineError as exc:
            raise Unavailable("The engine failed in the last step of the import. The next call finishes it.") from exc

    def finish_import(self, folder: PortalFolder, engine: PortalEngine) -> None:
        """Finish an import that was interrupted in its last step, if there is one. The caller holds the lock."""
        if journal.exists(folder):
            folder.record_existence()
            self._record_schemas(engine, journal.rename_staged(folder, engine))
            journal.remove(folder)

    def set_labels(self, folder: PortalFolder, engine: PortalEngine, labels: Labels) -> None:
        """Set the name and description of a portal, in its metadata and its folder. The caller holds its lock."""
        name = labels.name or folder.address.portal
        storage.set_metadata(engine, {"mcp.portal.name": name, "mcp.portal.description": labels.description})
        folder.label(labels)

    def set_missing_labels(self, folder: PortalFolder, engine: PortalEngine, about: Mapping[str, str]) -> None:
        """Give a portal the name and description in the metadata of an imported file, if it has neither."""
        if folder.labels() == Labels() and (labels := labels_in(about)) != Labels():
            self.set_labels(folder, engine, labels)

    def _record_schemas(self, engine: PortalEngine, tables: Sequence[str]) -> None:
        """Record tables that were created or replaced. The schema has a new version if a statement differs."""
        noted = storage.metadata(engine)
        statements = {f"mcp.schema.{table}": storage.statement(engine, table) for table in tables}
        changed = {key: statement for key, statement in statements.items() if noted.get(key) != statement}
        if changed:
            storage.set_metadata(engine, {**changed, "mcp.schema_version": _next_version(noted)})

    def _about(self, address: Address) -> dict[str, str]:
        return {
            "mcp.version": PROTOCOL,
            "mcp.portal.id": f"{address.namespace}/{address.portal}",
            "mcp.portal.name": address.portal,
            "mcp.portal.description": "",
            "mcp.server.name": "memory-mcp",
            "mcp.server.version": __version__,
            "mcp.created_at": precise_stamp(self._clock()),
            "mcp.schema_version": "0",
        }

    def record_schema(self, engine: PortalEngine, table: str) -> None:
        """Record the statement of a table that was created or changed, as a new version of the schema."""
        version, statement = _next_version(storage.metadata(engine)), storage.statement(engine, table)
        storage.set_metadata(engine, {f"mcp.schema.{table}": statement, "mcp.schema_version": version})

    def delete_schema(self, engine: PortalEngine, table: str) -> None:
        """Delete the statement of a table that was dropped, as a new version of the schema."""
        version = _next_version(storage.metadata(engine))
        storage.set_metadata(engine, {"mcp.schema_version": version}, gone=[f"mcp.schema.{table}"])

    @contextmanager
    def changing(self, caller: Caller, folder: PortalFolder, engine: PortalEngine) -> Iterator[None]:
        """A block that may create or drop tables and columns. The old description is never used after it."""
        before, existed = folder.described(), folder.exists()
        folder.invalidate_description()
        try:
            yield
        except AppError:
            if existed:
                with suppress(AppError, EngineError):  # the next call reads from the engine
                    folder.describe(storage.tables(engine))
            raise
        tables = storage.tables(engine)
        folder.describe(tables)
        are_new = before is None or [table.name for table in before.tables] != [table.name for table in tables]
        self.report_change(caller, folder.address, list_changed=are_new)

    def report_change(self, caller: Caller, address: Address, *, list_changed: bool, is_counted: bool = True) -> None:
        """Notify clients that a portal has changed. `is_counted` is whether this counts as a write."""
        if is_counted:
            self.usage.count_write(self.folders(caller).get(address).path, precise_stamp(self._clock()))
        self.changes.publish(caller.user, [address.portal_uri], list_changed=list_changed, namespace=address.namespace)

    def count_read(self, folder: PortalFolder) -> None:
        """Count that a caller has read something of a portal."""
        self.usage.count_read(folder.path, precise_stamp(self._clock()))

    def folders(self, caller: Caller) -> PortalFolders:
        return self.folders_of(caller.user, caller.confined_to)

    def folders_of(self, user: str, within: str | None = None) -> PortalFolders:
        return self.engines.portals(self.folder_of(user), user, within)

    def existing(self, caller: Caller, address: Address) -> PortalFolder:
        """Raises NotFound, with the nearest portals that the caller may see."""
        folders = self.folders(caller)
        folder = folders.get(address)
        if folder.exists():
            return folder
        uri = address.portal_uri
        raise not_found(
            f"There is no portal {uri}.",
            uri,
            seen_by(caller, lambda: (one.address.portal_uri for one in folders.all())),
            hint="portal_write makes it.",
            field="portalUri",
        )


def labels_in(about: Mapping[str, str]) -> Labels:
    """The name and description in the metadata of a portal. Left out are a name that only repeats the portal's address,
    and texts that portal_write would refuse."""
    name, description = about.get("mcp.portal.name", ""), about.get("mcp.portal.description", "")
    if name == about.get("mcp.portal.id", "").rpartition("/")[2]:
        name = ""
    return Labels(
        name if len(name) <= MAX_NAME_CHARS and not hidden_character(name) else "",
        description if len(description) <= MAX_DESCRIPTION_CHARS and not hidden_character(description) else "",
    )


def _next_version(metadata: Mapping[str, str]) -> str:
    return str(int(metadata.get("mcp.schema_version", "0")) + 1)


def find_table(tables: Sequence[Table], name: str) -> Table | None:
    return next((table for table in tables if table.name == name), None)


def existing_table(tables: Sequence[Table], name: str) -> Table:
    if (table := find_table(tables, name)) is not None:
        return table
    listed = ", ".join(table.name for table in tables) or "none yet"
    near = error_data(nearest(name, (table.name for table in tables)))
    raise NotFound(f"There is no table {name!r} in this portal. It has: {listed}.", field="table", **near)


def writable(table: str) -> str:
    if table.startswith("_"):
        raise Invalid("table: names that start with '_' are the server's own.", field="table")
    return addresses.check_table(table)
