from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.engines.files.file_tree import LeftOut
from memory_mcp.families.maintenance import Finding


@dataclass(frozen=True)
class ManifestEntry:
    """One file of a backup. Its `kind` is the name of a DatabaseKind, or 'file' for a plain file, 'portal' for a portal
    in one file, 'elsewhere' for a file of a store outside of the data directory."""

    path: str  # in the archive and below the data directory, with slashes
    kind: str
    size: int
    sha256: str
    schema: int | None = None  # version, of a SQLite file
    modified_ns: int | None = None  # of a plain file: stores use it if a memory has no time of its own


@dataclass(frozen=True)
class Elsewhere:
    """A store outside of the data directory: its markdown files are in the backup, under elsewhere/."""

    user: str
    name: str
    folder: str  # its path when the backup was made
    path: str  # in the archive


@dataclass(frozen=True)
class Manifest:
    """The list of a backup's contents."""

    made_by: str
    began_at: str
    cut_at: str  # the moment of the SQLite files and stores
    files: tuple[ManifestEntry, ...]
    left_out: tuple[LeftOut, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()


@dataclass(frozen=True)
class BackupResult:
    file: Path
    files: int
    bytes: int  # of the archive
    sha256: str
    cut_at: str
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class RestoreResult:
    data_dir: Path
    files: int
    cut_at: str
    aside: Path | None  # the folder with the former data
    notices: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    checked: Mapping[str, int]  # counts by kind
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> list[Finding]:
        return [one for one in self.findings if one.state == "problem"]

    @property
    def notices(self) -> list[Finding]:
        """Things that work as they are, but not fully: a model that is not installed, a folder that is left out."""
        return [one for one in self.findings if one.state == "notice"]

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong, missing or left out."""
        return not self.problems and not self.notices


@dataclass(frozen=True)
class ExportResult:
    folder: Path
    counts: Mapping[str, int]
    left_out: tuple[LeftOut, ...] = ()
