from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["server", "hub", "registry", "vault", "notes", "project", "file", "portal", "elsewhere"]
"""What an entry of a backup is: one of six kinds of SQLite files, a file as it stands, a portal in one file, or a file
of a store that lies outside of the data directory."""

Tell = Callable[[str, int, int], None]
"""Told of work under way: what it is, how much is done, of how much."""


def quietly(what: str, done: int, whole: int) -> None:
    """For work that nobody watches."""


@dataclass(frozen=True)
class ManifestEntry:
    """One file of a backup."""

    path: str  # in the archive and below the data directory, with slashes
    kind: Kind
    size: int
    sha256: str
    schema: int | None = None  # the version of a SQLite file's
    modified_ns: int | None = (
        None  # when a file as it stands was last changed: stores go by that where nothing else is said
    )


@dataclass(frozen=True)
class LeftOut:
    """What could not be kept, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Elsewhere:
    """A store outside of the data directory: its markdown files are in the backup, under elsewhere/."""

    user: str
    name: str
    folder: str  # where it lay
    path: str  # where it is in the archive


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself."""

    made_by: str
    began_at: str
    cut_at: str  # the moment that SQLite files and stores show
    files: tuple[ManifestEntry, ...]
    left_out: tuple[LeftOut, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()


@dataclass(frozen=True)
class BackedUp:
    file: Path
    files: int
    bytes: int  # of the archive
    sha256: str
    cut_at: str
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class Restored:
    data_dir: Path
    files: int
    cut_at: str
    aside: Path | None  # where what was there before is
    notices: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing a doctor looked at and what became of it."""

    check: str  # such as 'database', 'permissions'
    place: str  # relative to the data directory where it lies in there
    state: Literal["notice", "problem", "repaired"]
    message: str
    repairable: bool = False


@dataclass(frozen=True)
class Diagnosis:
    checked: Mapping[str, int]  # how many of what
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> list[Finding]:
        return [one for one in self.findings if one.state == "problem"]


@dataclass(frozen=True)
class Exported:
    folder: Path
    counts: Mapping[str, int]
    left_out: tuple[LeftOut, ...] = ()


@dataclass
class ImportResult:
    """What came of taking an export back in."""

    new: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)  # there already, and left as it is
    left_out: list[LeftOut] = field(default_factory=list)

    def count(self, what: str, *, new: bool, by: int = 1) -> None:
        counts = self.new if new else self.known
        counts[what] = counts.get(what, 0) + by

    def shown(self) -> dict[str, Any]:
        return {"new": self.new, "known": self.known, "left_out": [vars(one) for one in self.left_out]}
