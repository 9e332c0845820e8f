"""Unix sockets: paths that are too long for them, and the process at the other end.

The relay imports it, so it needs little of the standard library and nothing else of this package.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

MAX_PATH_BYTES = 100  # every system accepts this much; macOS allows 104 with the final zero

_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2  # macOS; Python has no names for them
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("=IIh2x16I")  # version, uid, number of groups, groups


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """The path or, if it is too long for a socket, an equivalent one. Only Linux has such."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield path
        return
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


class Peer:
    """The process at the other end of a socket, as the kernel names it."""

    def __init__(self, pid: int, uid: int) -> None:
        self.pid = pid
        self.uid = uid

    def is_trusted(self) -> bool:
        """Whether it runs for this user, or for root, who can read everything anyway."""
        return self.uid in (os.getuid(), 0)


def identify(wire: socket.socket) -> Peer:
    """Raises OSError where the kernel does not say."""
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, _ = _UCRED.unpack(wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return Peer(pid, uid)
    uid = _XUCRED.unpack(wire.getsockopt(_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))[1]
    return Peer(wire.getsockopt(_LOCAL, _LOCAL_PEERPID), uid)
