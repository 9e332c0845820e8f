"""Folders of text files."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.families.stores.folder_scan import MAX_FILE_BYTES
from memory_mcp.importers.model import FoundFile, ImportProblem


def read(folder: Path, on_bytes: OnBytes, path_of: Callable[[str], str | None]) -> Iterator[FoundFile | ImportProblem]:
    """The files of a folder and its subfolders, sorted, without hidden ones.

    `path_of` gives a file's path in the store, or None to leave it out.
    """
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                file = Path(top) / name
                yield _file(file, folder, path_of)
                with suppress(OSError):
                    on_bytes(file.lstat().st_size)


def check(folder: Path, tool: str) -> None:
    if not folder.is_dir():
        raise Invalid(f"{folder} is not a folder. Give the folder of {tool}.")


def has_suffix_below(folder: Path, suffix: str) -> bool:
    """Whether a file in the folder or its subfolders has this suffix."""
    return any(name.endswith(suffix) for _, _, files in os.walk(folder) for name in files)


def _file(file: Path, folder: Path, path_of: Callable[[str], str | None]) -> FoundFile | ImportProblem:
    where = file.relative_to(folder).as_posix()
    path = path_of(where)
    if path is None:
        return ImportProblem(where, "It is not a markdown file.", "left_out")
    if file.is_symlink():
        return ImportProblem(where, "It is a symlink. Import what it leads to.", "left_out")
    try:
        status = file.stat()
        if status.st_size > MAX_FILE_BYTES:
            return ImportProblem(where, f"It is over {MAX_FILE_BYTES // 1024 // 1024} MB.")
        text = file.read_bytes().decode()
        where.encode()
    except UnicodeError:
        return ImportProblem(where.encode("utf-8", "replace").decode(), "It, or its name, is not UTF-8.")
    except OSError as exc:
        return ImportProblem(where, f"It cannot be read: {exc.strerror}.")
    return FoundFile(where, path, text, status.st_mtime_ns)
