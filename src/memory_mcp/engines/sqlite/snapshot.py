"""A file as it is at one moment, to be copied while others go on writing to it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from memory_mcp.engines.sqlite.connections import connect, sqlite_name
from memory_mcp.engines.sqlite.database import make_ready, translate_errors
from memory_mcp.progress import ReportProgress, report_nothing

PAGES = 2000  # copied at a time

"""Told how many pages are copied, of how many."""


class Snapshot:
    """What a file held when this was made. Others may write on: it stays as it was."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self.path = path
        self._connection = connection

    @property
    def version(self) -> int:
        return int(self._connection.pragma("user_version"))

    def copy(self, target: Path, name: str = "", report_progress: ReportProgress = report_nothing) -> None:
        """Write it to a new file, which only its owner may read. Progress is reported under `name`."""
        with translate_errors(self.path):
            target.touch(mode=0o600)
            with closing(apsw.Connection(sqlite_name(target), flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
                with copy.backup("main", self._connection, "main") as under_way:
                    while not under_way.done:
                        under_way.step(PAGES)
                        report_progress(name, under_way.page_count - under_way.remaining, under_way.page_count)
                # A file by itself: whoever opens it needs no WAL, and a WAL of another never fits.
                copy.pragma("journal_mode", "delete")


@contextmanager
def moment(path: Path, note: str) -> Iterator[Snapshot]:
    """A file as it is now, for whoever has its turn to write. `note` is what was noted at the last one.

    The turn may be given back at once: in WAL mode a reader keeps what it saw first, and keeps nobody from writing.
    """
    with translate_errors(path):
        make_ready(path, note)
        connection = connect(path, "full")
    try:
        with translate_errors(path):
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # from here on it is pinned
        yield Snapshot(path, connection)
    finally:
        connection.close()
