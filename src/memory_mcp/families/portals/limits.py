"""Limits of imports, and of how many transfers run."""

import math
import time
from dataclasses import dataclass, replace

from memory_mcp.engines.files import compressed


@dataclass(frozen=True)
class TransferLimits:
    """How many imports, and how many exports, a server runs at once, waiting ones included."""

    total: int
    per_user: int


@dataclass(frozen=True)
class ImportLimits:
    """The limits of one import, from the settings."""

    file_bytes: int
    rows: int
    expanded_bytes: int  # of all records, as the engine holds them
    expansion: int  # how many times the size of the file that may be
    memory_bytes: int  # of the engine, at a time
    seconds: int

    def begin(self) -> "ImportBudget":
        return ImportBudget(self, time.monotonic() + self.seconds)


@dataclass(frozen=True)
class ImportBudget:
    """The rest of one import's limits."""

    limits: ImportLimits
    deadline: float  # by time.monotonic()

    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def without(self, rows: int, expanded_bytes: int) -> "ImportBudget":
        """The rest for the next file of the same import."""
        limits = replace(
            self.limits,
            rows=max(1, self.limits.rows - rows),  # the engine takes 0 for no limit
            expanded_bytes=max(1, self.limits.expanded_bytes - expanded_bytes),
        )
        return ImportBudget(limits, self.deadline)

    def max_expanded_bytes(self, file_bytes: int) -> int:
        """How much the records of a file of this size may take up."""
        return min(self.limits.expanded_bytes, compressed.max_expanded_bytes(file_bytes, self.limits.expansion))

    def engine_limits(self, file_bytes: int) -> dict[str, int]:
        """The limits as settings of the engine, for its next statement."""
        return {
            "max_rows_to_read": self.limits.rows,
            "max_bytes_to_read": self.max_expanded_bytes(file_bytes),
            "max_memory_usage": self.limits.memory_bytes,
            "max_execution_time": max(1, math.ceil(self.seconds_left())),
        }
