"""The socket and the lock of a portal's engine, and the open folder that they belong to."""

import os
import socket
import stat
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from memory_mcp.engines.chdb import frames
from memory_mcp.engines.chdb.deadlines import POLL_INTERVAL_S
from memory_mcp.engines.files.lock import lock_handle
from memory_mcp.system import unix_sockets

LEAVE_GRACE_S = 2.0  # for the engine before this one to end


class PortalFolderHandle:
    """The open folder that an engine was started for: no other folder can get its inode meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = frames.folder_identity(self._handle)

    def is_in_place(self) -> bool:
        """Whether it still lies where it was."""
        return frames.folder_identity(self.path) == self.identity


def acquire_lock(folder: Path) -> int | None:
    """The lock of a portal, freed when the process ends; None if another process has the portal open."""
    lock = os.open(folder / frames.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not lock_handle(lock, LEAVE_GRACE_S, poll_interval_s=POLL_INTERVAL_S / 4):
        return None
    os.ftruncate(lock, 0)
    return lock


def bind(folder: Path) -> socket.socket:
    """A socket in the portal's folder, or, if its path is too long, in a folder that no other user can enter."""
    path = folder / "engine.sock"
    if len(os.fsencode(path)) > unix_sockets.MAX_PATH_BYTES:
        name = sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
        path = _runtime_folder() / f"{name}.sock"
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    return bound


def _runtime_folder() -> Path:
    """A folder for this user alone. If another user has created one by that name, it gets a random name."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    is_usable = runtime and len(runtime) < 50 and os.access(runtime, os.W_OK)
    base = Path(runtime if is_usable else "/tmp")  # noqa: S108  # TMPDIR may be long, and is the engine's own
    folder = base / f"memory-mcp-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=base))


def unlink(bound: socket.socket) -> None:
    with suppress(OSError):  # the sandbox may forbid to remove it
        Path(bound.getsockname()).unlink()
