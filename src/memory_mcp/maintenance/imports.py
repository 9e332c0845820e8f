"""Import of an export: new data is added, existing data stays unchanged."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.maintenance import ImportFolder, ImportResult, read_small
from memory_mcp.maintenance.exports import ABOUT, FORMAT
from memory_mcp.progress import ReportProgress, report_nothing


def read_export(
    families: Mapping[str, OpenFamily[Any]],
    caller: Caller,
    folder: Path,
    *,
    dry_run: bool = False,
    report_progress: ReportProgress = report_nothing,
) -> ImportResult:
    """Import a folder that `memory-mcp export` made. Importing it again adds nothing.

    Raises Invalid for a folder that is not an export.
    """
    _check(folder)
    source = ImportFolder(folder, caller, dry_run=dry_run, report_progress=report_progress)
    steps = [
        (read, one.operations)
        for one in families.values()
        if one.family.maintenance
        for read in one.family.maintenance().imports.values()
    ]
    for read, operations in steps:
        read(operations, source)
    return source.result


def _check(folder: Path) -> None:
    try:
        about = json.loads(read_small(folder / ABOUT).decode())
        format_ = about["format"]
    except FileNotFoundError as exc:
        raise NotFound(f"{folder} is not an export of Memory MCP: it has no {ABOUT}.") from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise Invalid(f"{folder} is not an export of Memory MCP: its {ABOUT} cannot be read.") from exc
    if format_ != FORMAT:
        raise Invalid(f"{folder} is an export of an unknown format ({format_}). Upgrade memory-mcp.")
