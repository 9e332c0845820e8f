"""The process at the other end of a Unix socket, as the kernel names it."""

import os
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2  # macOS; Python has no names for them
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("=IIh2x16I")  # version, uid, number of groups, groups


@dataclass(frozen=True)
class Peer:
    pid: int
    uid: int

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


def kill(wire: socket.socket) -> None:
    """Kill the process at the other end. If that end is closed it is gone, and its number may be another's by now.

    The connection is of no use afterwards.
    """
    with suppress(OSError):
        peer = identify(wire)
        if not peer.is_trusted() or peer.pid in (0, os.getpid()):
            return
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(peer.pid)
            try:
                if not _is_closed(wire):  # so the handle is of the process that holds the other end
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
        elif not _is_closed(wire):
            os.kill(peer.pid, signal.SIGKILL)


def _is_closed(wire: socket.socket) -> bool:
    wire.setblocking(False)
    try:
        return not wire.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
