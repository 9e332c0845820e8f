"""Export of one user's data, as files that people and other programs can read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_mcp import __version__
from memory_mcp.caller import Caller
from memory_mcp.clock import stamp, utc_now
from memory_mcp.engines.files.staging import staging, translate_write_errors
from memory_mcp.errors import Conflict, NotFound
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.maintenance import ExportFolder, write_text
from memory_mcp.maintenance.model import ExportResult
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.system.paths import expand_home

FORMAT = "memory-mcp-export/1"
ABOUT = "export.json"
README = Path(__file__).with_name("export_readme.md")


class Export:
    """Exports one user's data in the families that the caller may use."""

    def __init__(self, families: Mapping[str, OpenFamily[Any]], caller: Caller) -> None:
        self._families = [one for name, one in families.items() if (one.family.part_of or name) in caller.families]
        self._caller = caller

    def run(self, target: Path, report_progress: ReportProgress = report_nothing) -> ExportResult:
        """Write everything to a new folder, atomically. Raises Conflict if the folder is not empty."""
        target = expand_home(target).absolute()
        _check_target(target)
        counts: dict[str, int] = {}
        steps = [
            (what, write, one.operations)
            for one in self._families
            if one.family.maintenance
            for what, write in one.family.maintenance().exports.items()
        ]
        with translate_write_errors(target), staging(target.parent) as parent:
            folder = ExportFolder(parent / "export", self._caller, report_progress)
            folder.path.mkdir(mode=0o700)
            for what, write, operations in steps:
                report_progress(what, 0, None)
                counts[what] = write(operations, folder)
            _write_about(folder, counts)
            if target.exists():
                target.rmdir()  # it is empty
            folder.path.rename(target)
        return ExportResult(target, counts, tuple(folder.left_out))


def _write_about(folder: ExportFolder, counts: dict[str, int]) -> None:
    made_at = stamp(utc_now())
    readme = README.read_text(encoding="utf-8").format(made_at=made_at, version=__version__)
    write_text(folder.path / "README.md", readme)
    about = {
        "format": FORMAT,
        "made_by": f"memory-mcp {__version__}",
        "made_at": made_at,
        "counts": counts,
        "left_out": [vars(one) for one in folder.left_out],
    }
    write_text(folder.path / ABOUT, json.dumps(about, ensure_ascii=False, indent=2) + "\n")


def _check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise NotFound(f"There is no folder {target.parent}. Create it first.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Conflict(f"{target} exists already. Choose a new folder, or an empty one.")
