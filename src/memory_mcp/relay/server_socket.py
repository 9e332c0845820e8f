"""The Unix socket of a data directory's shared server: where it is, how to connect to it and how to create it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from memory_mcp.relay import lock
from memory_mcp.relay.options import NotShared
from memory_mcp.system import unix_sockets

FOLDER = "shared"  # in the data directory
SOCKET = "server.sock"
START_LOCK = "start.lock"
BACKLOG = 128


class ServerSocket:
    def __init__(self, data_dir: str) -> None:
        self.folder = os.path.join(data_dir, FOLDER)
        self.path = os.path.join(self.folder, SOCKET)

    def prepare(self) -> None:
        """Create the folder. Raises NotShared where there can be no shared server."""
        if not lock.HAS_LOCKS or not hasattr(socket, "AF_UNIX"):
            raise NotShared("this system has no Unix sockets")
        if len(os.fsencode(self.path)) > unix_sockets.MAX_PATH_BYTES and not os.path.isdir("/proc/self/fd"):
            raise NotShared("the path of the data directory is too long for a socket")
        try:
            make_private_folders(self.folder)
            found = os.stat(self.folder)
            is_private = found.st_uid == os.getuid() and not found.st_mode & 0o077
        except OSError as exc:
            raise NotShared(f"the data directory cannot be written ({exc.strerror})") from None
        if not os.path.isdir(self.folder):
            raise NotShared(f"{FOLDER} in the data directory is not a folder")
        if not is_private:
            raise NotShared(f"other users can enter the folder {FOLDER}/ of the data directory")
        if not os.access(self.folder, os.W_OK):
            raise NotShared("the data directory cannot be written")

    def connect(self) -> socket.socket | None:
        """None if no server listens."""
        if not hasattr(socket, "AF_UNIX"):
            return None
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with unix_sockets.short_path(self.path) as path:
                wire.connect(path)
        except OSError:
            wire.close()
            return None
        return wire

    def listen(self) -> socket.socket:
        """Create the socket in place of one that no server listens on. Only while holding `lock`. Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with unix_sockets.short_path(self.path) as path:
                listening.bind(path)
            os.chmod(self.path, 0o600)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening

    def identity(self) -> tuple[int, int] | None:
        """Which file the socket is now; None if there is none."""
        try:
            found = os.lstat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def remove(self, identity: tuple[int, int] | None) -> None:
        """Remove the socket, unless it is another server's by now. Only while holding `lock`."""
        if identity == self.identity():
            with suppress(OSError):
                os.unlink(self.path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """While one process creates or removes the socket, the others wait. Raises OSError if the folder is missing."""
        handle = lock.acquire(os.path.join(self.folder, START_LOCK))
        try:
            yield
        finally:
            os.close(handle)


def make_private_folders(path: str) -> None:
    """Create a folder and those above it that are missing, all for this user alone."""
    if not os.path.isdir(path):
        make_private_folders(os.path.dirname(path))
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
