"""The bar that long work shows at a terminal, and what a verb says if it is interrupted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from memory_mcp.cli.interrupts import Interrupted
from memory_mcp.progress import Bytes, ReportProgress

BAR_COLUMNS = 20
MAX_NAME_CHARS = 24
MIN_COLUMNS_FOR_COUNTS = 80


@contextmanager
def show_progress(as_json: bool, *, if_interrupted: str | Callable[[], str]) -> Iterator[ReportProgress]:
    """Show a bar with percentage, rate and time left on stderr, if that is a terminal.

    If the work is interrupted, the error says how far it came and, in the words of `if_interrupted`, what was done and
    how to go on."""
    last: tuple[str, int, int | None] = ("", 0, None)

    def report_progress(what: str, done: int, total: int | None) -> None:
        nonlocal last
        last = (what, done, total)
        if bar is not None:
            bar.show(*last)

    bar = None
    try:
        err = Console(stderr=True)
        if as_json or not err.is_terminal:
            yield report_progress
        else:
            with _bar(err) as bar:
                yield report_progress
    except Interrupted as exc:
        advice = if_interrupted if isinstance(if_interrupted, str) else if_interrupted()
        raise Interrupted(f"Interrupted{_progress_text(*last)}. {advice}") from exc


def _progress_text(what: str, done: int, total: int | None) -> str:
    return f" at {100 * done // total} % ({what})" if total and done < total else ""


class _Bar:
    """One bar. It starts again when the count does, so that rate and time left are those of the current work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._count: tuple[int, int | None] = (0, None)

    def show(self, what: str, done: int, total: int | None) -> None:
        if total == 0:
            return
        former_done, former_total = self._count
        if self._task is None or done < former_done or total != former_total:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(what, total=total)
        self._count = (done, total)
        self._progress.update(self._task, completed=done, description=what)


@contextmanager
def _bar(err: Console) -> Iterator[_Bar]:
    is_wide = err.width >= MIN_COLUMNS_FOR_COUNTS
    columns: list[ProgressColumn] = [
        _Name("{task.description}"),
        BarColumn(bar_width=BAR_COLUMNS if is_wide else None),
        TaskProgressColumn(),
        *([_Count(), _Rate()] if is_wide else []),
        TimeRemainingColumn(compact=True),
    ]
    with Progress(*columns, console=err, transient=True) as progress:
        yield _Bar(progress)


class _Name(TextColumn):
    def render(self, task: Task) -> Text:
        name = task.description
        return Text(name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 1]}…")


class _Count(ProgressColumn):
    def render(self, task: Task) -> Text:
        total = f"/{_shown(task.total, task)}" if task.total else ""
        return Text(f"{_shown(task.completed, task)}{total}", "progress.download")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{_shown(speed, task)}/s" if speed else "", "progress.data.speed")


def _shown(count: float, task: Task) -> str:
    return decimal(int(count)) if isinstance(task.total, Bytes) else f"{int(count):,}"
