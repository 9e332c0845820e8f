"""What a data directory takes on the disk at rest, next to a new one with the same memories.

While clients work, logs, merges and files of vectors come and go in steps of MB. At rest nothing of that is left. The
new directory imports what the first exports, so what the first has beyond that was leaked. History is the exception:
an export leaves it out, so it has a goal of its own, a number of bytes for each write.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from benchmarks.soak.servers import run_json

INDEXING_TIMEOUT_S = 900.0
POLL_S = 1.0
# Of each database: the records of writes with copies, former versions, and the state of sync.
HISTORY = re.compile(
    r"(?:note|vault|graph|store|portal)_writes|note_versions|former_contents|sync_(?:fields|outbox|tombstones)"
)


@dataclass(frozen=True)
class AtRest:
    """Bytes on the disk of each kind of file, and how many of them are history."""

    kinds: Mapping[str, int]
    history: int

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    @property
    def without_history(self) -> int:
        return self.total - self.history


@dataclass(frozen=True)
class DiskAtRest:
    """What the directory of the run has beyond the new one was leaked."""

    after_run: AtRest
    new_directory: AtRest  # with the same memories
    writes: int


def kinds(data_dir: Path) -> Counter[str]:
    """Bytes on the disk of each kind of file, of all users together."""
    found: Counter[str] = Counter()
    for path, size in _files(data_dir):
        found[_kind(path.relative_to(data_dir))] += size
    return found


def history_bytes(data_dir: Path) -> int:
    """Bytes of the tables that hold no memory, and of their indexes. While no server has the files open."""
    return sum(map(_history_bytes_of, _databases(data_dir)))


def copy_memories(data_dir: Path, new_directory: Path, scratch: Path, users: Iterable[str]) -> None:
    """Export each user's memories and import them into another data directory, which has the same users."""
    for user in users:
        exported = scratch / f"export-{user}"
        run_json("export", exported, "--user", user, data_dir=data_dir)
        run_json("import", "memory-mcp", exported, "--user", user, data_dir=new_directory)


def wait_for_vectors(data_dir: Path) -> None:
    """Until every note has its vectors. Raises RuntimeError if that takes too long."""
    deadline = time.monotonic() + INDEXING_TIMEOUT_S
    while any(map(_queued, data_dir.rglob("notes.db"))):
        if time.monotonic() > deadline:
            raise RuntimeError("The notes of the new data directory have no vectors yet.")
        time.sleep(POLL_S)


def _files(data_dir: Path) -> Iterator[tuple[Path, int]]:
    for path in data_dir.rglob("*"):
        with suppress(OSError):  # it is deleted by now
            if not path.is_dir() or path.is_symlink():
                yield path, path.lstat().st_blocks * 512


def _kind(path: Path) -> str:
    """A file by its name, or by the folder that it is in."""
    parts = path.parts[2:] if path.parts[0] == "users" else path.parts
    return f"{parts[0]}/" if len(parts) > 1 else parts[0]


def _databases(data_dir: Path) -> Iterator[Path]:
    yield from (path for path in data_dir.rglob("*.db") if "portals" not in path.relative_to(data_dir).parts)


def _history_bytes_of(path: Path) -> int:
    with closing(_open(path)) as connection:
        sizes = connection.execute(
            "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) GROUP BY tbl_name"
        )
        return sum(size for table, size in sizes if HISTORY.fullmatch(table))


def _queued(path: Path) -> int:
    with closing(_open(path)) as connection:
        [[count]] = connection.execute("SELECT count(*) FROM embed_queue")
        return int(count)


def _open(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
