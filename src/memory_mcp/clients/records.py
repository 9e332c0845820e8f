"""What `connect` remembers so that it can be undone: what it wrote, what was there before, and the file as it was.

Kept apart from the data directory, which another run may choose differently, and from the client's folder, where a copy
would be read or committed. Only the person may read it: configurations hold keys.
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
    before: Entry | None  # what stood under the name
    made_file: bool
    made_section: bool
    made_folders: tuple[str, ...]
    wrote: str | None  # SHA-256 of the file as we left it; None once somebody else wrote in between

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
    def turn(self) -> Iterator[None]:
        """One run of connect at a time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._folder).acquire():
            yield

    def find(self, client: str, file: Path, name: str) -> ConfigRecord | None:
        """None also for one that cannot be read: undo then goes by what stands in the client's file."""
        try:
            said: dict[str, Any] = json.loads(self._path(key_of(client, file, name)).read_text(encoding="utf-8"))
            return ConfigRecord(**(said | {"made_folders": tuple(said["made_folders"])}))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def keep(self, record: ConfigRecord) -> None:
        self._write(f"{record.key}.json", json.dumps(asdict(record), ensure_ascii=False, indent=2).encode())

    def forget(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._path(key).unlink()

    def keep_copy(self, key: str, former: bytes | None, *, of: str) -> Path | None:
        """The file as it was before it was connected or undone; None if there was none."""
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
        with Root(self._folder).place([name]) as place:
            atomic_write.write(place, data, mode=0o600)
