"""The records that `connect --undo` needs: the written entry, the replaced entry, and a copy of the file before.

They are not in the data directory, because another run may use a different one, and not in the client's folder, where
a copy would be read or committed. Only the user may read them: configurations contain keys.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_mcp.clients.model import Entry
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import Root


@dataclass(frozen=True)
class ConfigRecord:
    """One connection this command has made."""

    client: str
    file: str
    name: str
    entry: Entry  # as we wrote it
    before: Entry | None  # the former entry of that name
    made_file: bool
    made_section: bool
    made_folders: tuple[str, ...]
    wrote: str | None  # SHA-256 of the file as we wrote it; None if another program changed it in between

    @property
    def key(self) -> str:
        return key_of(self.client, self.file, self.name)


def key_of(client: str, file: str | Path, name: str) -> str:
    return f"{client}-{name}-{digest(str(file).encode())[:12]}"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Records:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One run of connect at a time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._folder).acquire():
            yield

    def find(self, client: str, file: Path, name: str) -> ConfigRecord | None:
        """None also for an unreadable record: undo then uses only the client's file."""
        try:
            parsed: dict[str, Any] = json.loads(self._path(key_of(client, file, name)).read_text(encoding="utf-8"))
            return ConfigRecord(**(parsed | {"made_folders": tuple(parsed["made_folders"])}))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, record: ConfigRecord) -> None:
        self._write(f"{record.key}.json", json.dumps(asdict(record), ensure_ascii=False, indent=2).encode())

    def delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._path(key).unlink()

    def save_copy(self, key: str, former: bytes | None, *, of: str) -> Path | None:
        """Save a copy of the file before it is connected or undone; None if there was no file."""
        path = self._folder / f"{key}.before-{of}"
        if former is None:
            path.unlink(missing_ok=True)
            return None
        self._write(path.name, former)
        return path

    def former(self, key: str) -> bytes | None:
        try:
            return (self._folder / f"{key}.before-connect").read_bytes()
        except FileNotFoundError:
            return None

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _write(self, name: str, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with Root(self._folder).entry([name]) as entry:
            atomic_write.write(entry, data, mode=0o600)
