"""Data directories: how to recognise one, and how to keep other users of the machine out.

Each carries a marker file, as caches carry a CACHEDIR.TAG. One that an older version made has none until a server is
started on it, and is recognised by its server.db.
"""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_dir_lock import LOCK, RESTORING
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.errors import Invalid
from memory_mcp.hooks import records
from memory_mcp.relay import presence, server_socket
from memory_mcp.relay.link import LOG
from memory_mcp.relay.options import CONFIG_FILE, MARKER
from memory_mcp.system import operating_system

SIGNATURE = b"Memory MCP data directory\n"
SHARED = b"shared"
ADVICE = b"""\
# The databases and files of Memory MCP. `memory-mcp doctor` checks them.
# This folder cannot be a store, nor can one that holds it; a store above it leaves it out.
# Its contents are for their owner alone. A line that says "shared" leaves the permissions of this folder as they are.
"""
MAX_MARKER_BYTES = 4096
SERVER_FILE = "server.db"
MARKING_FILES = frozenset({MARKER, SERVER_FILE})  # every data directory has one of them, in upper or lower case
# One of them makes a folder a data directory, whatever else it holds.
SIGNS = ("memory.db", "_meta.db", "notes.db", RESTORING)
# By a process that starts.
WRITTEN_BEFORE_MARKER = {LOCK, LOG, server_socket.FOLDER, presence.FOLDER, records.FILE, records.FORMER_FILE}
WRITTEN_BY_PEOPLE = {CONFIG_FILE, "stores.yaml", "stores.yaml.lock", "imports", "exports", "backups", "models"}
ADOPTED = ("projects", "archive")  # folders of another implementation of the graph specification
ADOPTED_FILES = ("memory.db", "_meta.db")  # and of the vault's, with the endings of SQLite
OF_SYSTEM = {"lost+found", ".DS_Store", "desktop.ini", "Thumbs.db"}  # operating systems put them in empty folders
APPLICATION_IDS = slice(68, 71)  # of the header of an SQLite file: the first bytes of its application id
OUR_ID_PREFIX = b"MMC"  # how the application ids of all our kinds of files begin
GROUP_AND_OTHERS = 0o077  # the permissions of group and others in a mode

log = logging.getLogger(__name__)


def is_data_directory(folder: FolderEntry) -> bool:
    """Whether an open folder is a data directory, of this server or of any other."""
    return _marker(folder) is not None or _has_server_file(folder)


def is_at(folder: Path) -> bool:
    """The same for a path. False if there is no such folder."""
    return is_data_directory(FolderEntry(None, folder, ""))


def is_usable(folder: Path) -> bool:
    """Whether a folder is a data directory, or exists and may become one: it holds no other files, or the databases of
    an older version or of another implementation."""
    with suppress(OSError):
        if not _holds_other_files(folder) or any((folder / name).is_file() for name in SIGNS):
            return True
    return is_at(
        folder
    )  # last: another process may have written the marker, then more files, since the folder was read


def require_no_other_files(folder: Path) -> None:
    """Raises Invalid for a folder that is not a data directory and holds other files: ours would be among them. Opening
    the databases reports a folder that cannot be read."""
    if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK) and not is_usable(folder):
        raise Invalid(
            f"{folder} holds other files and is not a data directory. Nothing was created in it.",
            people_hint="Give --data-dir a new or an empty folder.",
        )


def find_below(folder: Path) -> Path | None:
    """A data directory below a folder, where a store would look: not in hidden folders, nor behind symlinks."""
    for here, names, _ in os.walk(folder):
        names[:] = [name for name in names if not name.startswith(".")]
        for name in names:
            if is_at(Path(here, name)):
                return Path(here, name)
    return None


def prepare(folder: Path) -> None:
    """Mark a data directory, and close it and everything in it to other users of the machine.

    A folder that held something else before it became a data directory keeps its permissions, as does one whose marker
    says that it is shared. Errors are ignored here: opening the databases reports them.
    """
    folder = folder.resolve()
    with suppress(OSError):
        mark(folder, shared=not is_at(folder) and _holds_other_files(folder))
        tenants = [path for path in (folder / "users").glob("[!.]*") if path.is_dir() and not path.is_symlink()]
        for tenant in tenants:
            mark(tenant)
        if operating_system.THIS.has_permissions and not is_shared(folder):
            _make_private(folder, tenants)


def is_shared(folder: Path) -> bool:
    """Whether the marker of a data directory says that its own permissions stay as they are."""
    return SHARED in (_marker(_entry(folder)) or b"").splitlines()


def mark(folder: Path, *, shared: bool = False) -> None:
    """Write the marker if it is missing and can be written."""
    entry = _entry(folder)
    if _marker(entry) is None:
        with suppress(OSError):  # another process was faster, the disk is full, or there is another file of that name
            atomic_write.write_new(
                entry.sibling(MARKER), SIGNATURE + ADVICE + (SHARED + b"\n" if shared else b""), mode=0o600
            )


def make_private_folder(folder: Path) -> None:
    """Make a folder of a data directory and those above it that are missing, each for its owner alone."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _holds_other_files(folder: Path) -> bool:
    """Whether a folder that becomes a data directory held files of others before. What we or another implementation
    leave in it is none of them."""
    ours = WRITTEN_BEFORE_MARKER | WRITTEN_BY_PEOPLE | OF_SYSTEM | {*ADOPTED}
    return any(
        name not in ours and not name.startswith(ADOPTED_FILES) and not name.endswith(atomic_write.UNFINISHED)
        for name in os.listdir(folder)
    )


def _marker(folder: FolderEntry) -> bytes | None:
    with suppress(OSError):
        text = folder.sibling(MARKER).read(MAX_MARKER_BYTES)[0]
        if text.startswith(SIGNATURE):
            return text
    return None


def _has_server_file(folder: FolderEntry) -> bool:
    try:
        header = folder.sibling(SERVER_FILE).read(100)[0]
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[APPLICATION_IDS] == OUR_ID_PREFIX


def _make_private(folder: Path, tenants: list[Path]) -> None:
    was_open = _revoke_from_others(folder)
    for path in [path for one in (folder, *tenants) for path in one.iterdir()]:
        _revoke_from_others(path)
    if was_open:
        for here, folders, files in os.walk(folder):
            for name in (*folders, *files):
                _revoke_from_others(Path(here, name))
        log.warning(
            "Other users of this machine could read the data directory. Now only its owner can. To share it, add a "
            "line `shared` to its file %s.",
            MARKER,
        )


def _revoke_from_others(path: Path) -> bool:
    """Remove the permissions of group and others. Returns whether there were any.

    Symlinks and files of other users stay as they are."""
    with suppress(OSError):
        found = path.lstat()
        kind_is_ours = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
        if kind_is_ours and found.st_mode & GROUP_AND_OTHERS and found.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
            return True
    return False


def _entry(folder: Path) -> FolderEntry:
    return FolderEntry(None, folder, "")
