"""The lock file by which servers see that a relay runs: its sessions stay while it looks for another server."""

import os
from contextlib import suppress

from memory_mcp.relay import lock
from memory_mcp.relay.server_socket import make_private_folders

FOLDER = "servers"  # in the data directory


class Presence:
    def __init__(self, data_dir: str, id_: str) -> None:
        self._folder = os.path.join(data_dir, FOLDER)
        self._path = os.path.join(self._folder, f"{id_}.lock")
        self._handle: int | None = None

    def hold(self) -> None:
        """Also again, if the data directory was deleted. Raises OSError."""
        if self._handle is not None:
            if lock.is_in_place(self._handle, self._path):
                return
            os.close(self._handle)
            self._handle = None
        make_private_folders(self._folder)
        self._handle = lock.acquire(self._path)

    def remove(self) -> None:
        if self._handle is not None:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._handle)
            self._handle = None
