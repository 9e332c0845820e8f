"""Messages between a server and an engine process: a JSON header and a binary payload."""

import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

LOCK = ".broker.lock"  # lock file in a portal's folder: its engine holds it, and writes its socket and process id to it
UNFINISHED_COPY = "_copy_"  # prefix of the names of tables that are being rewritten
MARK_COLUMN = "_mcp_write"  # a hidden column of tables: which write each row is from
ATTACHED = (
    "lent"  # key of a query: databases of other portals. Engines of earlier versions, which may still run, read it too
)
GRACE_S = 2.0  # beyond the time limit of a request, before its engine is ended
_LENGTHS = struct.Struct(">IQ")  # of the header and of the bytes


def folder_identity(folder: int | Path) -> list[int] | None:
    """Device and inode of the folder at a path, or of an open one. None if there is none.

    An engine has its folder open, so no other folder gets its inode while the engine runs.
    """
    try:
        found = os.stat(folder)  # noqa: PTH116  # takes an open folder too
    except FileNotFoundError:
        return None
    return [found.st_dev, found.st_ino]


def send(wire: socket.socket, header: dict[str, Any], payload: bytes = b"") -> None:
    text = json.dumps(header, ensure_ascii=False).encode()
    wire.sendall(_LENGTHS.pack(len(text), len(payload)) + text)
    if payload:
        wire.sendall(payload)


def receive(wire: socket.socket) -> tuple[dict[str, Any], bytes]:
    """The next message. Raises ConnectionError when the other side has left."""
    header_length, payload_length = _LENGTHS.unpack(_exactly(wire, _LENGTHS.size))
    header: dict[str, Any] = json.loads(_exactly(wire, header_length))
    return header, _exactly(wire, payload_length)


def _exactly(wire: socket.socket, count: int) -> bytes:
    got = bytearray(count)
    view = memoryview(got)
    while view:
        read = wire.recv_into(view)
        if not read:
            raise ConnectionError("the other side has left")
        view = view[read:]
    return bytes(got)
