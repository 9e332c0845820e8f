"""How long work reports its progress."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

ReportProgress = Callable[[str, int, int | None], None]
"""Called during long work: what is being done, how much of it is done, and of how much, where that is known."""

T = TypeVar("T")


class Bytes(int):
    """A total that counts bytes, to be shown as a size."""


def report_nothing(what: str, done: int, total: int | None) -> None:
    """For work whose progress is not shown."""


def track(items: Iterable[T], what: str, total: int | None, report_progress: ReportProgress) -> Iterator[T]:
    """The items. Progress is reported before the first and after each."""
    report_progress(what, 0, total)
    for done, one in enumerate(items, start=1):
        yield one
        report_progress(what, done, total)


class ProgressCount:
    """Counts towards a total, such as the bytes of a file, and reports each step."""

    def __init__(self, what: str, total: int, report_progress: ReportProgress) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._report_progress = report_progress

    def add(self, count: int) -> None:
        """A file that is read twice counts no more than once."""
        self._done = min(self._done + count, self._total)
        self._report_progress(self._what, self._done, self._total)
