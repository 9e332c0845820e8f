"""Folders of files, copied while others write to them, and as they are at one moment."""

import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memory_mcp.engines.files import data_directory
from memory_mcp.engines.files.atomic_write import UNFINISHED
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.engines.files.signature import SETTLED_NS, UNSETTLED, Signature, signature_of
from memory_mcp.engines.files.staging import PREFIX
from memory_mcp.progress import ReportProgress, report_nothing, track

MARKDOWN = ".md"


@dataclass(frozen=True)
class LeftOut:
    """A file that could not be copied, and why."""

    path: str
    why: str


@dataclass
class Tree:
    """A folder, and its copy."""

    folder: Path
    copy: Path
    name: str  # prefix of its files' names in the archive
    markdown_only: bool
    hidden: bool = True  # whether names that start with a dot are copied, too
    left_out: list[LeftOut] = field(default_factory=list)
    _copied: dict[str, Signature] = field(default_factory=dict)

    def update_copy(self, report_progress: ReportProgress = report_nothing) -> None:
        """Update the copy. The second time only changed files are read: that is fast, and is done while the folder is
        locked, so that the copy shows the folder at one moment."""
        found = dict(self._walk(self.folder, ""))
        for path in self._copied.keys() - found.keys():
            (self.copy / path).unlink(missing_ok=True)
        known, self._copied, self.left_out = self._copied, {}, []
        for path, signature in track(found.items(), self.name, len(found), report_progress):
            is_settled = signature[0] < time.time_ns() - SETTLED_NS
            if known.get(path) == signature or self._copy(path):
                self._copied[path] = signature if is_settled else UNSETTLED

    def files(self) -> list[tuple[Path, str]]:
        """The copied files, each with its name in the archive."""
        return [(self.copy / path, f"{self.name}/{path}") for path in sorted(self._copied)]

    def _copy(self, path: str) -> bool:
        try:
            path.encode()  # a name in no known script cannot be written down
            *folder, name = path.split("/")
            target = self.copy / path
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (
                Root(self.folder).folder(folder) as entry,
                entry.sibling(name).opened() as (reading, found),
                target.open("wb") as writing,
            ):
                shutil.copyfileobj(reading, writing)
            os.utime(target, ns=(found.st_mtime_ns, found.st_mtime_ns))
        except FileNotFoundError:  # it is removed by now
            return False
        except (OSError, UnicodeEncodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else None
            shown = path.encode(errors="replace").decode()
            self.left_out.append(LeftOut(f"{self.name}/{shown}", why or "its name is not Unicode"))
            return False
        return True

    def _walk(self, folder: Path, way: str) -> Iterator[tuple[str, Signature]]:
        """Every regular file with its signature. Symlinks are not followed."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:  # it is removed by now, or may not be read
            return
        for entry in entries:
            is_hidden = entry.name.startswith(".")
            is_ours = entry.name.endswith(UNFINISHED) or entry.name.startswith(PREFIX)
            if is_hidden and (self.markdown_only or not self.hidden or is_ours):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            path = f"{way}{entry.name}"
            if stat.S_ISDIR(found.st_mode):
                if data_directory.is_at(folder / entry.name):  # of another server: a store leaves it out
                    continue
                yield from self._walk(folder / entry.name, f"{path}/")
            elif stat.S_ISREG(found.st_mode) and (not self.markdown_only or entry.name.endswith(MARKDOWN)):
                yield path, signature_of(found)
