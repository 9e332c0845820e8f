"""The names and times of the files in a store's folders. A large store spends its time here."""

import os
import time
from dataclasses import dataclass

from memory_mcp.engines.files.data_directory import MARKING_FILES, is_data_directory
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.engines.files.signature import SETTLED_NS, UNSETTLED, Signature
from memory_mcp.families.stores import paths
from memory_mcp.families.stores.model import Listing, PathParts

SUFFIX = ".md"
MAX_FILE_BYTES = 10 * 1024 * 1024  # of a file that is read
MAX_LEVELS = 64  # of folders that are searched; people do not nest deeper by hand


@dataclass(frozen=True)
class _Scan:
    """One folder, as it is on disk."""

    files: dict[str, Signature]
    folders: list[str]
    may_be_data_directory: bool


def listing(folder: FolderEntry, parts: PathParts) -> Listing:
    """One folder. Data directories in it are left out: their files are not a store's."""
    found = _scan(folder)
    return Listing(parts, found.files, sorted(name for name in found.folders if _is_listed(folder, name)))


def below(folder: FolderEntry, parts: PathParts) -> list[Listing]:
    """A folder and all below it, each before what is in it."""
    return _all_of(folder, parts, _scan(folder))


def _all_of(folder: FolderEntry, parts: PathParts, found: _Scan) -> list[Listing]:
    if len(parts) >= MAX_LEVELS:
        return [Listing(parts, found.files, sorted(name for name in found.folders if _is_listed(folder, name)))]
    listed: list[str] = []
    lower: list[Listing] = []
    for name in sorted(found.folders):
        try:
            with folder.child(name) as child:
                inside = _scan(child)
                if inside.may_be_data_directory and is_data_directory(child):
                    continue
                listed.append(name)
                lower += _all_of(child, (*parts, paths.nfc(name)), inside)
        except PermissionError:  # listed all the same: its owner may let this server read it later
            listed.append(name)
        except OSError:  # deleted by now
            continue
    return [Listing(parts, found.files, listed), *lower]


def _scan(folder: FolderEntry) -> _Scan:
    # A further change within the same tick of the clock would not show in a file's time.
    files: dict[str, Signature] = {}
    folders, may_be_data_directory, settled_by = [], False, time.time_ns() - SETTLED_NS
    with os.scandir(folder.folder_fd_or_path) as entries:
        for entry in entries:
            name = entry.name
            if not (name.isascii() or _is_text(name)):
                continue
            if name.endswith(SUFFIX) and not name.startswith(".") and entry.is_file(follow_symlinks=False):
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:  # deleted by now
                    continue
                if found.st_size <= MAX_FILE_BYTES:
                    at = found.st_mtime_ns
                    files[name] = (at, found.st_size, found.st_ino) if at < settled_by else UNSETTLED
            elif entry.is_dir(follow_symlinks=False):
                if not name.startswith("."):
                    folders.append(name)
            elif name.casefold() in MARKING_FILES:
                may_be_data_directory = True
    return _Scan(files, folders, may_be_data_directory)


def _is_listed(folder: FolderEntry, name: str) -> bool:
    """Whether a folder in this one is listed. False if it is deleted by now."""
    try:
        with folder.child(name) as child:
            return not is_data_directory(child)
    except PermissionError:
        return True
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """Whether a name is Unicode: a file system may hold other bytes."""
    return not any("\ud800" <= sign <= "\udfff" for sign in name)
