"""The audit log: which keys were used, and what was deleted. Each user reads their own."""

from memory_mcp.access.model import Deed, Entry
from memory_mcp.access.storage import audit as storage
from memory_mcp.sqlite import Database, Write

MOST_ENTRIES = 10_000  # of one user; the oldest go


class Audit:
    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, tx: Write, user: str, deed: Deed) -> None:
        """Add a line, in the transaction of what it tells of."""
        storage.add(tx, user, deed)
        storage.trim(tx, user, MOST_ENTRIES)

    def say(self, user: str, deed: Deed) -> None:
        """Add a line about something that is not kept in this file."""
        with self._db.write() as tx:
            self.note(tx, user, deed)

    def of(self, user: str, before: int | None, limit: int) -> list[Entry]:
        """The newest first; `before` is the id of the last one seen."""
        with self._db.read() as tx:
            return storage.of(tx, user, before, limit)
