"""Ends the process at the other end of a Unix socket."""

import os
import signal
import socket
from contextlib import suppress

from memory_mcp.system.unix_sockets import identify


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
