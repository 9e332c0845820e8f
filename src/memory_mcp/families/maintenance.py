"""The functions of a family that maintenance calls: export, import, and the checks of the doctor.

Each family has a module with them, which is loaded when it is needed: the start of a server does not need it.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import yaml

from memory_mcp.caller import Caller
from memory_mcp.clock import Clock
from memory_mcp.engines.files import compressed
from memory_mcp.engines.files.file_tree import LeftOut
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.errors import AppError, Invalid
from memory_mcp.progress import Bytes, ProgressCount, ReportProgress, report_nothing, track
from memory_mcp.settings import Settings

MAX_NAME_CHARS = 60  # of a title or folder in a file's name
MAX_FILE_BYTES = 10 * 1024 * 1024  # of a file that is read whole
RESTORE_HINT = "Put a backup in its place: `memory-mcp restore`."

Ops = TypeVar("Ops")
T = TypeVar("T")


# Export


class ExportFolder:
    """The folder that one user's memory is exported to."""

    def __init__(self, path: Path, caller: Caller, report_progress: ReportProgress = report_nothing) -> None:
        self.path = path
        self.caller = caller
        self.report_progress = report_progress
        self.left_out: list[LeftOut] = []

    def make(self, *names: str) -> Path:
        """A folder in it, which is created if it is missing."""
        folder = self.path.joinpath(*names)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def track(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """The items. Each is reported when it is written."""
        return track(items, what, total, self.report_progress)

    def leave_out(self, path: str, why: str) -> None:
        self.left_out.append(LeftOut(path, why))


def write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(text)


def write_lines(path: Path, objects: Iterable[dict[str, Any]]) -> int:
    """A file of JSON lines. Returns how many there are."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for one in objects:
            out.write(json.dumps(one, ensure_ascii=False) + "\n")
            count += 1
    return count


def file_name(text: str) -> str:
    """A part of a path that every system takes."""
    plain = re.sub(r"[^\w .,()+@=-]", "_", unicodedata.normalize("NFC", text))
    plain = re.sub(r"\s+", " ", plain)[:MAX_NAME_CHARS].strip(" .")
    while len(plain.encode()) > 3 * MAX_NAME_CHARS:
        plain = plain[:-1]
    return plain or "_"


# Import


@dataclass
class ImportResult:
    """The result of importing an export."""

    new: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)  # there already, and left as it is
    left_out: list[LeftOut] = field(default_factory=list)

    def count(self, what: str, *, new: bool, by: int = 1) -> None:
        counts = self.new if new else self.known
        counts[what] = counts.get(what, 0) + by

    def leave_out(self, path: str, why: str) -> None:
        self.left_out.append(LeftOut(path, why))

    def shown(self) -> dict[str, Any]:
        return {"new": self.new, "known": self.known, "left_out": [vars(one) for one in self.left_out]}


class ImportFolder:
    """An export that is imported. New memories are added, existing ones stay as they are."""

    def __init__(
        self, path: Path, caller: Caller, *, dry_run: bool, report_progress: ReportProgress = report_nothing
    ) -> None:
        self.path = path
        self.caller = caller
        self.dry_run = dry_run
        self.report_progress = report_progress
        self.result = ImportResult()
        self._seen: set[tuple[str, ...]] = set()

    def files(self, *names: str, first: Sequence[str] = ()) -> Iterator[Path]:
        """The files in a folder and its subfolders: first those in `first` (by the names that `shown` gives, in this
        order), then the others, sorted. Each is reported when it is imported."""
        ranks = {name: rank for rank, name in enumerate(first)}
        found = [path for path in self.path.joinpath(*names).rglob("*") if path.is_file()]
        found.sort(key=lambda path: (ranks.get(self.shown(path), len(ranks)), path))
        return track(found, "/".join(names), len(found), self.report_progress)

    def lines(self, *names: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The objects of a file of JSON lines, each with its file and line. There are none if the file is missing."""
        path = self.path.joinpath(*names)
        with self.one(self.shown(path)), suppress(FileNotFoundError, IsADirectoryError), path.open("rb") as file:
            count = ProgressCount(self.shown(path), Bytes(path.stat().st_size), self.report_progress)
            for number, line in enumerate(compressed.lines(file), start=1):
                count.add(len(line))
                location = f"{self.shown(path)}:{number}"
                with self.one(location):
                    fields = json.loads(line.decode())
                    if not isinstance(fields, dict):
                        raise Invalid("it is not a JSON object")
                    yield location, fields

    def one(self, location: str) -> AbstractContextManager[None]:
        """A block that imports one of many memories. If it fails, that memory is listed as left out."""
        return _LeaveOutOnError(self.result, location)

    def is_first(self, *thing: str) -> bool:
        """Whether it is the first of its name in this export."""
        is_first = thing not in self._seen
        self._seen.add(thing)
        return is_first

    def has_seen(self, *thing: str) -> bool:
        return thing in self._seen

    def shown(self, path: Path) -> str:
        """Its name in the export. Some systems and programs that pack folders decompose letters with accents."""
        return unicodedata.normalize("NFC", path.relative_to(self.path).as_posix())


class _LeaveOutOnError(AbstractContextManager[None]):
    def __init__(self, result: ImportResult, location: str) -> None:
        self._result = result
        self._location = location

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, exc: object, trace: object) -> bool:
        if isinstance(exc, AppError):
            self._result.leave_out(self._location, exc.message)
        elif isinstance(exc, (ValueError, KeyError, TypeError, OSError, RecursionError, yaml.YAMLError)):
            self._result.leave_out(self._location, f"it does not have the form of an export ({exc})")
        else:
            return False
        return True


def text_of(fields: dict[str, Any], name: str) -> str:
    """Raises KeyError, TypeError or ValueError unless it is a text."""
    if not isinstance(fields[name], str):
        raise TypeError(name)
    fields[name].encode()  # no halves of surrogate pairs
    return str(fields[name])


def read_small(path: Path) -> bytes:
    """A small file. Raises Invalid for a large one."""
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise Invalid(f"It is over {MAX_FILE_BYTES} bytes long.", code="too_large")
    return content


# Checks


@dataclass(frozen=True)
class Finding:
    """A problem that the doctor found, or a notice, and whether it is repaired."""

    check: str  # such as 'database', 'permissions'
    place: str  # relative to the data directory if it is in there
    state: Literal["notice", "problem", "repaired"]
    message: str
    repairable: bool = False
    details: tuple[str, ...] = ()  # for --json


@dataclass(frozen=True)
class DatabaseFile:
    path: Path
    name: str  # below the data directory and in a backup, with slashes
    kind: DatabaseKind
    lock: Path  # that its writers acquire


@dataclass(frozen=True)
class Tenant:
    user: str
    folder: Path
    prefix: str  # in front of its files' names in a backup

    def files(self, kind: DatabaseKind) -> Iterator[DatabaseFile]:
        """Those in its folder. A single file may be missing."""
        for path in kind.paths(self.folder):
            name = f"{self.prefix}{path.relative_to(self.folder).as_posix()}"
            yield DatabaseFile(path, name, kind, kind.lock(self.folder, path))


@dataclass(frozen=True)
class Inspection:
    """One run of the doctor over everything that families store."""

    settings: Settings
    clock: Clock
    tenants: list[Tenant]
    repair: bool  # whether to repair what is safe to repair
    open_file: Callable[..., Database]
    report_progress: ReportProgress = report_nothing
    checked: Counter[str] = field(default_factory=Counter)  # how many of what

    def open(self, file: DatabaseFile) -> "closing[Database]":
        """Raises AppError if it cannot be opened."""
        return closing(self.open_file(file.kind, file.path, missing="refuse", lock=file.lock))

    def repair_finding(self, finding: Finding, repair: Callable[[], None]) -> Finding:
        """Repair a problem, if that is wanted. Returns the finding in its new state."""
        if not self.repair:
            return Finding(finding.check, finding.place, "problem", finding.message, repairable=True)
        try:
            repair()
        except (AppError, OSError, RepairFailed) as exc:
            return Finding(finding.check, finding.place, "problem", f"{finding.message}; repairing it failed ({exc})")
        return Finding(finding.check, finding.place, "repaired", finding.message, repairable=True)


class RepairFailed(Exception):
    """The problem is still there after the repair."""


# Declared by a family


@dataclass(frozen=True)
class ExportUndo(Generic[Ops]):
    """How an import of an export is undone where the family's journal cannot undo writes: what was new and is unchanged
    is deleted."""

    versions: Callable[[Ops, Caller], dict[str, str]]  # of everything the family has, by reference
    is_in_export: Callable[[Path, str], bool]  # whether the export in a folder has what a reference means
    delete: Callable[[Ops, Caller, str], object]  # raises NotFound if it is deleted by now


@dataclass(frozen=True)
class FamilyMaintenance(Generic[Ops]):
    exports: dict[str, Callable[[Ops, ExportFolder], int]] = field(default_factory=dict)
    """By what it writes, such as 'notes' and 'links'. Returns how many."""
    imports: dict[str, Callable[[Ops, ImportFolder], None]] = field(default_factory=dict)
    import_undo: ExportUndo[Ops] | None = None  # None: its journal undoes the writes of an import
    check: Callable[[Inspection], Iterable[Finding]] = lambda inspection: ()
    """Beside its SQLite files, which are checked as declared."""
    leftovers: Callable[[Path], Iterable[Path]] = lambda folder: ()
    """The unfinished files of killed processes, in a user's folder."""
