"""A temporary folder for unfinished files. It is deleted at the end; one of a killed process is deleted by the next."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_mcp.engines.files.lock import hold_folder, is_free
from memory_mcp.errors import Unavailable

PREFIX = ".memory-mcp-staging-"


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A new folder in another, for its owner alone."""
    delete_abandoned(parent)
    token = secrets.token_hex(6)
    made = parent / f".{token}-{PREFIX[1:-1]}"  # it gets its name once it is locked, so that it does not look abandoned
    made.mkdir(mode=0o700)
    with hold_folder(made):
        folder = made.rename(parent / f"{PREFIX}{token}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def abandoned(parent: Path) -> list[Path]:
    """Staging folders of processes that have ended."""
    return [path for path in parent.glob(f"{PREFIX}*") if is_free(path)]


def delete_abandoned(parent: Path) -> None:
    for path in abandoned(parent):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def translate_write_errors(target: Path) -> Iterator[None]:
    """Translate errors of the file system. Raises Unavailable."""
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"{target} cannot be written ({exc.strerror}).") from exc
