import gzip
import shutil
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.importers import ImportPlan, Report
from memory_mcp.importers.model import FORMATS, ForeignFormat
from memory_mcp.progress import ReportProgress, report_nothing
from tests.importers.foreign_tools import FIXTURES, FOREIGN

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes", "stores", "graph"}))
INTO = {"notes": "default", "stores": "moved", "graph": "memory"}


def move(
    app: App,
    format_: ForeignFormat,
    path: Path,
    report_progress: ReportProgress = report_nothing,
    *,
    dry_run: bool = False,
) -> Report:
    return app.importers.run(ME, ImportPlan(format_, path, INTO[FORMATS[format_]], dry_run), report_progress)


def outcome(report: Report) -> tuple[int, int, int, int]:
    return report.read, report.imported, report.skipped, report.refused


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A writable copy of the files that other tools made."""
    for tool in FOREIGN.values():
        folder = tmp_path / "foreign" / tool.format
        shutil.copytree(FIXTURES / tool.format, folder)
        for packed in folder.glob("*.gz"):
            packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
            packed.unlink()
    return tmp_path / "foreign"
