"""How often somebody may come, counted over all server processes on the same data."""

import math
from collections.abc import Callable
from time import time

from memory_mcp.access.model import Allowance
from memory_mcp.access.storage import limits as storage
from memory_mcp.engines.sqlite import Database


class Limits:
    """GCRA, the leaky bucket that needs one number: when the next request would be on time. Whoever is ahead of it by a
    whole minute's worth must wait."""

    def __init__(self, db: Database, now: Callable[[], float] = time) -> None:
        self._db = db
        self._now = now

    def take(self, who: str, limit: int, seconds: float = 60.0) -> Allowance:
        """Count one request of at most `limit` in so many seconds. A request that is refused counts for nothing."""
        every = seconds / limit
        with self._db.write() as tx:
            now = self._now()
            kept = storage.due(tx, who)
            due = min(max(kept, now), now + seconds)
            ahead = due + every - now
            if ahead > seconds:
                if kept > due:  # nobody gets that far ahead: the clock was set back
                    storage.set_due(tx, who, due)
                return Allowance(limit, 0, reset_after=due - now, retry_after=ahead - seconds)
            storage.set_due(tx, who, due + every)
        return Allowance(limit, math.floor((seconds - ahead) / every + 1e-9), reset_after=ahead, retry_after=0.0)

    def tidy(self) -> None:
        """Forget whoever has all of it again."""
        with self._db.write() as tx:
            storage.forget_before(tx, self._now())
