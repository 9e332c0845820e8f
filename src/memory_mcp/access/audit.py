"""The audit log: which keys were used, and what was deleted. Each user reads their own."""

from memory_mcp.access.model import AuditEvent, AuditRecord
from memory_mcp.access.storage import audit as storage
from memory_mcp.engines.sqlite import Database, Write

MAX_ENTRIES_PER_USER = 10_000  # of one user; the oldest go


class Audit:
    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, tx: Write, user: str, event: AuditEvent) -> None:
        """Add a line, in the transaction of what it tells of."""
        storage.add(tx, user, event)
        storage.trim(tx, user, MAX_ENTRIES_PER_USER)

    def say(self, user: str, event: AuditEvent) -> None:
        """Add a line about something that is not kept in this file."""
        with self._db.write() as tx:
            self.note(tx, user, event)

    def of(self, user: str, before: int | None, limit: int) -> list[AuditRecord]:
        """The newest first; `before` is the id of the last one seen."""
        with self._db.read() as tx:
            return storage.of(tx, user, before, limit)
