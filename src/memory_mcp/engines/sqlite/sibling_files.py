"""The files beside a database: those of SQLite (its log, the index of the log, its journal), and a cache of ours.

No other module knows their names.
"""

from pathlib import Path

SUFFIXES = ("-journal", "-wal", "-shm")
PACKED_VECTORS_SUFFIX = "-vectors"  # of a cache, which is written again if it is missing
ORPHAN_SUFFIX = ".orphan"  # of a log that was renamed because it belonged to another file


def wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def shm(path: Path) -> Path:
    return path.with_name(path.name + "-shm")


def packed_vectors(path: Path) -> Path:
    return path.with_name(path.name + PACKED_VECTORS_SUFFIX)


def packed_vectors_lock(packed: Path) -> Path:
    """The lock of those who write it."""
    return packed.with_name(packed.name + ".lock")


def database_of_packed_vectors(packed: Path) -> Path:
    return packed.with_name(packed.name.removesuffix(PACKED_VECTORS_SUFFIX))


def siblings(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in SUFFIXES]


def orphans(path: Path) -> list[Path]:
    return [orphan(sibling) for sibling in siblings(path)]


def orphan(sibling: Path) -> Path:
    """The new name of a log that belongs to another file."""
    return sibling.with_name(sibling.name + ORPHAN_SUFFIX)


def delete_siblings(path: Path) -> None:
    for sibling in siblings(path):
        sibling.unlink(missing_ok=True)


def delete_database(path: Path) -> None:
    """A file, its siblings and its cache. Only while no process has it open."""
    path.unlink(missing_ok=True)
    delete_siblings(path)
    packed_vectors(path).unlink(missing_ok=True)


def move_database(path: Path, target: Path) -> None:
    """A file and its siblings. The file itself comes last: until then, a move that was interrupted can be repeated."""
    for here, there in zip((*siblings(path), path), (*siblings(target), target), strict=True):
        if here.exists():
            here.rename(there)
