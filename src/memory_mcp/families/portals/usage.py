"""How often a portal was read and written, and when it last was: a small file in its folder, for all servers."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.model import Usage

FILE = "usage.json"
LOCK = ".usage.lock"
LOCK_TIMEOUT_S = 1.0  # no call fails or waits long because of these figures


def read(folder: Path) -> Usage:
    try:
        return Usage(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, or not written by this server
        return Usage()


def count_read(folder: Path, now: str) -> None:
    _change(folder, lambda usage: replace(usage, reads=usage.reads + 1, lastRead=now))


def count_write(folder: Path, now: str) -> None:
    _change(folder, lambda usage: replace(usage, writes=usage.writes + 1, lastWrite=now))


def _change(folder: Path, change: Callable[[Usage], Usage]) -> None:
    with (
        suppress(OSError, Unavailable),
        FileLock(folder / LOCK).acquire(LOCK_TIMEOUT_S),
        Root(folder).folder(()) as entry,
    ):
        atomic_write.write(entry.sibling(FILE), json.dumps(asdict(change(read(folder)))).encode(), durable=False)
