"""A database file as it is at one moment, to be copied while others go on writing to it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from memory_mcp.engines.sqlite.connections import connect, sqlite_name
from memory_mcp.engines.sqlite.database import prepare_file, translate_errors
from memory_mcp.progress import ReportProgress, report_nothing

PAGES_PER_STEP = 2000


class Snapshot:
    """The content of a file when this was made. Others may write to the file: the snapshot does not change."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self.path = path
        self._connection = connection

    @property
    def version(self) -> int:
        return int(self._connection.pragma("user_version"))

    def copy(self, target: Path, name: str = "", report_progress: ReportProgress = report_nothing) -> None:
        """Write the snapshot to a new file, which only its owner may read. Progress is reported under `name`."""
        with translate_errors(self.path):
            target.touch(mode=0o600)
            with closing(apsw.Connection(sqlite_name(target), flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
                with copy.backup("main", self._connection, "main") as under_way:
                    while not under_way.done:
                        under_way.step(PAGES_PER_STEP)
                        report_progress(name, under_way.page_count - under_way.remaining, under_way.page_count)
                # One file without a WAL: a WAL of another file would not fit.
                copy.pragma("journal_mode", "delete")


@contextmanager
def open_snapshot(path: Path, known_identities: str) -> Iterator[Snapshot]:
    """A file as it is now, for a caller that holds the write lock. `known_identities` are those of
    the file and its WAL when it was last opened.

    The lock may be released at once: in WAL mode a reader keeps its view of the file, and blocks no writer.
    """
    with translate_errors(path):
        prepare_file(path, known_identities)
        connection = connect(path, "full")
    try:
        with translate_errors(path):
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # this pins the view
        yield Snapshot(path, connection)
    finally:
        connection.close()
