"""What each import wrote, so that a whole import can be undone.

Each has two files in the user's folder: ID.json describes it, ID.jsonl has a line for each batch that was written.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from memory_mcp.clock import Clock, new_id, precise_stamp, utc_now
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.errors import NotFound
from memory_mcp.importers.model import FamilyOrAll, ImportFormat, ImportPlan, Report

FOLDER = "import-history"  # in a user's folder
MAX_IMPORTS_KEPT = 50  # of each user; the oldest can no longer be undone
State = Literal["unfinished", "done", "undone"]


@dataclass(frozen=True)
class ImportRecord:
    id: str
    format: ImportFormat
    family: FamilyOrAll
    into: str
    source: str  # the name of the file
    started_at: str
    state: State = "unfinished"
    imported: int = 0
    updated: int = 0
    removed: int = 0  # by the undo
    kept: int = 0  # that the undo left, because they were changed since


class ImportLog:
    """What a running import has written. Each batch is added after it was stored."""

    def __init__(self, history: "ImportHistory", record: ImportRecord) -> None:
        self.id = record.id
        self._history = history
        self._record = record

    def add(self, batch: dict[str, Any]) -> None:
        with self._history.batches_file(self._record.id).open("a", encoding="utf-8") as file:
            file.write(json.dumps(batch) + "\n")

    def finish(self, report: Report, *, is_whole: bool) -> None:
        state: State = "done" if is_whole else "unfinished"
        self._history.save(replace(self._record, state=state, imported=report.imported, updated=report.updated, kept=0))


class ImportHistory:
    def __init__(self, folder: Path, clock: Clock = utc_now) -> None:
        self._folder = folder / FOLDER
        self._clock = clock

    def begin(self, plan: ImportPlan) -> ImportLog:
        make_private_folder(self._folder)
        for old in self.all()[MAX_IMPORTS_KEPT - 1 :]:
            self._file(old.id).unlink(missing_ok=True)
            self.batches_file(old.id).unlink(missing_ok=True)
        record = ImportRecord(
            new_id(), plan.format, plan.family, plan.into, plan.file_name, precise_stamp(self._clock())
        )
        self.save(record)
        atomic_write.write(FolderEntry(None, self._folder, self.batches_file(record.id).name), b"", mode=0o600)
        return ImportLog(self, record)

    def all(self) -> list[ImportRecord]:
        """The newest first."""
        found = [one for path in self._folder.glob("*.json") if (one := _read(path))]
        return sorted(found, key=lambda one: (one.started_at, one.id), reverse=True)

    def get(self, id_: str) -> ImportRecord:
        found = next((one for one in self.all() if one.id == id_), None)
        if found is None:
            raise NotFound("There is no such import.")
        return found

    def batches(self, id_: str) -> Iterator[dict[str, Any]]:
        """The last first. A line that was not written to its end is left out."""
        with suppress(FileNotFoundError), self.batches_file(id_).open("rb") as file:
            starts = [0]
            for line in file:
                starts.append(starts[-1] + len(line))
            for start in reversed(starts[:-1]):
                file.seek(start)
                with suppress(ValueError):
                    yield json.loads(file.readline())

    def count_batches(self, id_: str) -> int:
        with suppress(FileNotFoundError), self.batches_file(id_).open("rb") as file:
            return sum(1 for _ in file)
        return 0

    def save(self, record: ImportRecord) -> None:
        text = json.dumps(asdict(record), ensure_ascii=False).encode()
        atomic_write.write(FolderEntry(None, self._folder, self._file(record.id).name), text, mode=0o600)

    def batches_file(self, id_: str) -> Path:
        return self._folder / f"{id_}.jsonl"

    def _file(self, id_: str) -> Path:
        return self._folder / f"{id_}.json"


def _read(path: Path) -> ImportRecord | None:
    with suppress(OSError, ValueError, TypeError):  # deleted by now, or damaged
        return ImportRecord(**json.loads(path.read_bytes()))
    return None
