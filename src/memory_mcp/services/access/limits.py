"""Rate limits, counted over all server processes on the same data directory."""

import math
from collections.abc import Callable
from time import time

from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.services.access.model import Allowance
from memory_mcp.services.access.storage import limits as storage


class Limits:
    """GCRA, a leaky bucket that stores one number per client: the time at which the next request is due. A client that
    is a whole minute ahead of it must wait."""

    def __init__(self, db: SharedDatabase, now: Callable[[], float] = time) -> None:
        self._db = db
        self._now = now

    def take(self, who: str, limit: int, seconds: float = 60.0) -> Allowance:
        """Count one request of at most `limit` in `seconds`. A refused request is not counted."""
        every = seconds / limit
        with self._db.write() as tx:
            now = self._now()
            kept = storage.due(tx, who)
            due = min(max(kept, now), now + seconds)
            ahead = due + every - now
            if ahead > seconds:
                if kept > due:  # no client can be that far ahead: the clock was set back
                    storage.set_due(tx, who, due)
                return Allowance(limit, 0, reset_after=due - now, retry_after=ahead - seconds)
            storage.set_due(tx, who, due + every)
        return Allowance(limit, math.floor((seconds - ahead) / every + 1e-9), reset_after=ahead, retry_after=0.0)

    def delete_unused(self) -> None:
        """Delete the rows of clients that have their full allowance again."""
        with self._db.write() as tx:
            storage.delete_before(tx, self._now())
