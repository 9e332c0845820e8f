"""The audit log: which keys were used, and what was deleted. Each user reads their own."""

from memory_mcp.engines.transactions import SharedDatabase, Write
from memory_mcp.services.access.model import AuditEvent, AuditRecord
from memory_mcp.services.access.storage import audit as storage

MAX_RECORDS_PER_USER = 10_000  # beyond it the oldest are deleted


class Audit:
    def __init__(self, db: SharedDatabase) -> None:
        self._db = db

    def record_in(self, tx: Write, user: str, event: AuditEvent) -> None:
        """Add a record in the transaction of the recorded change."""
        storage.add(tx, user, event)
        storage.trim(tx, user, MAX_RECORDS_PER_USER)

    def record(self, user: str, event: AuditEvent) -> None:
        """Add a record of something that is not stored in server.db."""
        with self._db.write() as tx:
            self.record_in(tx, user, event)

    def of(self, user: str, before: int | None, limit: int) -> list[AuditRecord]:
        """A page of records, the newest first; `before` is the last id of the page before."""
        with self._db.read() as tx:
            return storage.of(tx, user, before, limit)
