"""What every operation needs: a caller's portals, their engines, and what is noted of their tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_mcp import __version__
from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, precise_stamp
from memory_mcp.engine.client import EngineError, EngineLine
from memory_mcp.errors import AppError, Invalid, NotFound, Unavailable
from memory_mcp.names import hidden_character
from memory_mcp.portals import address as addresses
from memory_mcp.portals import journal, storage, usage
from memory_mcp.portals.address import Address
from memory_mcp.portals.folders import EngineLines, PortalFolder, PortalFolders
from memory_mcp.portals.journal import StagedTable
from memory_mcp.portals.model import Labels, Table

PROTOCOL = "2026-07-28"
MAX_NAME_CHARS = 120  # of what a portal is called
MAX_DESCRIPTION_CHARS = 1000


class Keeping:
    """The portals of all users, one at a time."""

    def __init__(self, folder_of: Callable[[str], Path], lines: EngineLines, changes: Changes, clock: Clock) -> None:
        self.folder_of = folder_of
        self.lines = lines
        self.changes = changes
        self._clock = clock

    def line(self, folder: PortalFolder) -> EngineLine:
        """The engine of a portal, for a caller who does not hold its turn. An import that another process left in its
        last step is finished first."""
        line = self.lines.get(folder)
        if journal.exists(folder):
            with folder.turn():
                self.finish_import(folder, line)
        return line

    def opened(self, folder: PortalFolder) -> EngineLine:
        """The engine of a portal. A new one is there for callers once something has come of the call: see changing."""
        line = self.lines.get(folder)
        self.finish_import(folder, line)
        if not folder.exists():
            storage.create_metadata(line, self._about(folder.address))
        return line

    def put_in_place(self, folder: PortalFolder, line: EngineLine, tables: Sequence[StagedTable]) -> None:
        """Have staged tables take their places: all of them, even if this process or the engine dies meanwhile. The
        caller holds the portal's turn."""
        journal.write(folder, tables)
        try:
            self.finish_import(folder, line)
        except EngineError as exc:
            raise Unavailable("The engine failed in the last step of the import. The next call finishes it.") from exc

    def finish_import(self, folder: PortalFolder, line: EngineLine) -> None:
        """Finish the last step of an import, if one was left in it. The caller holds the portal's turn."""
        if journal.exists(folder):
            folder.announce()
            self._note_schemas(line, journal.put_in_place(folder, line))
            journal.remove(folder)

    def set_labels(self, folder: PortalFolder, line: EngineLine, labels: Labels) -> None:
        """Change what a portal is called, where people and exports find it. The caller holds its turn."""
        name = labels.name or folder.address.portal
        storage.set_metadata(line, {"mcp.portal.name": name, "mcp.portal.description": labels.description})
        folder.label(labels)

    def take_labels(self, folder: PortalFolder, line: EngineLine, about: Mapping[str, str]) -> None:
        """Call a portal what a file that was imported into it says, if it is called nothing yet."""
        if folder.labels() == Labels() and (labels := labels_in(about)) != Labels():
            self.set_labels(folder, line, labels)

    def _note_schemas(self, line: EngineLine, tables: Sequence[str]) -> None:
        """Tables came or were replaced: the next version of the schema, if their statements are others."""
        noted = storage.metadata(line)
        statements = {f"mcp.schema.{table}": storage.statement(line, table) for table in tables}
        changed = {key: statement for key, statement in statements.items() if noted.get(key) != statement}
        if changed:
            version = int(noted.get("mcp.schema_version", "0")) + 1
            storage.set_metadata(line, {**changed, "mcp.schema_version": str(version)})

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

    def new_schema(self, line: EngineLine, table: str) -> None:
        """A table came or changed: the next version of the schema, with the statement that makes it."""
        version = int(storage.metadata(line).get("mcp.schema_version", "0")) + 1
        statement = storage.statement(line, table)
        storage.set_metadata(line, {f"mcp.schema.{table}": statement, "mcp.schema_version": str(version)})

    def old_schema(self, line: EngineLine, table: str) -> None:
        """A table went, and its statement with it."""
        version = int(storage.metadata(line).get("mcp.schema_version", "0")) + 1
        storage.set_metadata(line, {"mcp.schema_version": str(version)}, gone=[f"mcp.schema.{table}"])

    @contextmanager
    def changing(self, caller: Caller, folder: PortalFolder, line: EngineLine) -> Iterator[None]:
        """Tables and columns may come and go in here. Whatever happens, no old description is believed after it."""
        before, existed = folder.described(), folder.exists()
        folder.distrust()
        try:
            yield
        except AppError:
            if existed:
                with suppress(AppError, EngineError):  # the next one asks the engine
                    folder.describe(storage.tables(line))
            raise
        tables = storage.tables(line)
        folder.describe(tables)
        are_new = before is None or [table.name for table in before.tables] != [table.name for table in tables]
        self.tell(caller, folder.address, list_changed=are_new)

    def tell(self, caller: Caller, address: Address, *, list_changed: bool) -> None:
        """Report that a portal has changed."""
        usage.count_write(self.folders(caller).get(address).path, precise_stamp(self._clock()))
        self.changes.tell(caller.user, [address.portal_uri], list_changed=list_changed, namespace=address.namespace)

    def count_read(self, folder: PortalFolder) -> None:
        """Count that a caller has read something of a portal."""
        usage.count_read(folder.path, precise_stamp(self._clock()))

    def folders(self, caller: Caller) -> PortalFolders:
        return PortalFolders(self.folder_of(caller.user), caller.confined_to)

    def existing(self, caller: Caller, address: Address) -> PortalFolder:
        folder = self.folders(caller).get(address)
        if not folder.exists():
            raise folder.not_found()
        return folder


def labels_in(about: Mapping[str, str]) -> Labels:
    """What the metadata of a portal says that it is called. A name that only repeats its address is none, and neither
    is text that no caller could have given."""
    name, description = about.get("mcp.portal.name", ""), about.get("mcp.portal.description", "")
    if name == about.get("mcp.portal.id", "").rpartition("/")[2]:
        name = ""
    return Labels(
        name if len(name) <= MAX_NAME_CHARS and not hidden_character(name) else "",
        description if len(description) <= MAX_DESCRIPTION_CHARS and not hidden_character(description) else "",
    )


def find_table(tables: Sequence[Table], name: str) -> Table | None:
    return next((table for table in tables if table.name == name), None)


def existing_table(tables: Sequence[Table], name: str) -> Table:
    if (table := find_table(tables, name)) is not None:
        return table
    listed = ", ".join(table.name for table in tables) or "none yet"
    raise NotFound(f"There is no table {name!r} in this portal. It has: {listed}.", field="table")


def writable(table: str) -> str:
    if table.startswith("_"):
        raise Invalid("table: names that start with '_' are the server's own.", field="table")
    return addresses.check_table(table)
