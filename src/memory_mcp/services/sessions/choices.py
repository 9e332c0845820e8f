"""The sessions that clients without a connection chose, known to every server on one PostgreSQL.

On one data directory each such client is served by one process, whose memory has its choice.
"""

from datetime import timedelta

from memory_mcp.clock import stamp
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.services.sessions.model import Connection
from memory_mcp.services.sessions.storage import choices as storage

TOUCH_INTERVAL_S = 60.0  # between two writes of when a choice was used


class SessionChoices:
    def __init__(self, db: SharedDatabase) -> None:
        self._db = db

    def save(self, connection: Connection) -> None:
        if connection.ends_when_idle and connection.chosen_session:
            with self._db.write() as tx:
                storage.choose(tx, connection.own_session, connection.chosen_session)

    def load(self, connection: Connection) -> None:
        """Set what the client chose, perhaps at another server."""
        if not connection.ends_when_idle:
            return
        with self._db.read() as tx:
            found = storage.chosen(tx, connection.own_session)
            is_due = found is not None and found[1] < stamp(tx.now - timedelta(seconds=TOUCH_INTERVAL_S))
        connection.chosen_session = found[0] if found else None
        if is_due:
            with self._db.write() as writing:
                storage.touch(writing, connection.own_session)

    def delete_idle(self, idle_seconds: float) -> None:
        with self._db.write() as tx:
            storage.delete_before(tx, stamp(tx.now - timedelta(seconds=idle_seconds)))
