"""Copies of deleted memories, for an undo. Each is a file that only its owner can read, and expires."""

import hashlib
import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from memory_mcp.clock import Clock, instant, stamp, utc_now
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.errors import Unavailable

LIFETIME = timedelta(days=30)


class UndoCopies:
    def __init__(self, folder: Path, clock: Clock = utc_now) -> None:
        self._folder = folder
        self._clock = clock

    def save(self, name: str, value: Any) -> None:
        """Store a copy under a name, in place of an earlier one. Raises Unavailable if it cannot be written."""
        text = json.dumps({"name": name, "kept_at": stamp(self._clock()), "value": value}, ensure_ascii=False)
        try:
            make_private_folder(self._folder)
            atomic_write.write(FolderEntry(None, self._folder, self._path(name).name), text.encode(), mode=0o600)
        except OSError as exc:
            raise Unavailable(f"No copy for an undo can be written ({exc.strerror}). Nothing was deleted.") from exc

    def get(self, name: str) -> Any:
        """None if there is no copy, or it has expired."""
        with suppress(FileNotFoundError):
            copy = json.loads(self._path(name).read_bytes())
            return None if self._is_expired(copy) else copy["value"]
        return None

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def delete_expired(self) -> None:
        for path in self._folder.glob("*.json"):
            with suppress(OSError, ValueError, KeyError):
                if self._is_expired(json.loads(path.read_bytes())):
                    path.unlink()

    def _is_expired(self, copy: dict[str, Any]) -> bool:
        return instant(copy["kept_at"]) < self._clock() - LIFETIME

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
