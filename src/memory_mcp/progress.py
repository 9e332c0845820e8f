"""How long work reports its progress."""

from collections.abc import Callable

ReportProgress = Callable[[str, int, int | None], None]
"""Called during long work: what is being done, how much of it is done, and of how much, where that is known."""


def report_nothing(what: str, done: int, total: int | None) -> None:
    """For work whose progress is not shown."""
