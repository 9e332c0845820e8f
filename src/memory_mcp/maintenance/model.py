from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.engines.files.file_tree import LeftOut
from memory_mcp.families.maintenance import Finding

Kind = str
"""What an entry of a backup is: the name of a DatabaseKind, or 'file' for a file as it is, 'portal' for a portal in one
file, 'elsewhere' for a file of a store outside of the data directory."""


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
