"""Exports and imports of portals that are on another server, piece by piece, with the tools that pages use for that."""

import base64
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePath
from typing import Any
from uuid import uuid4

from memory_mcp.errors import AppError
from memory_mcp.families.maintenance import ExportFolder, ImportFolder
from memory_mcp.families.portals import maintenance
from memory_mcp.families.portals.address import SCHEME
from memory_mcp.families.portals.exports import DOWNLOADS
from memory_mcp.families.portals.folders import PORTALS
from memory_mcp.families.portals.model import FileFormat, PortalSummary

PIECE_BYTES = 1024 * 1024  # of an upload

RunTool = Callable[[str, dict[str, Any]], Any]
"""Run a tool of the family on the server that has the portals."""


def export(run_tool: RunTool, portals: Sequence[PortalSummary], target: ExportFolder) -> int:
    for portal in target.track(portals, PORTALS, len(portals)):
        path = PurePath(PORTALS, portal.uri.removeprefix(SCHEME))
        if _export_file(run_tool, target, portal.uri, path.with_name(f"{path.name}.db"), "db"):
            for table in portal.tables:
                for format_ in maintenance.TABLE_FORMATS:
                    _export_file(run_tool, target, portal.uri, path / f"{table}.{format_}", format_, table)
    return len(portals)


def _export_file(
    run_tool: RunTool,
    target: ExportFolder,
    uri: str,
    path: PurePath,
    format_: FileFormat,
    table: str | None = None,
) -> bool:
    destination = f"{DOWNLOADS}/{uuid4().hex}.{format_}"
    file = target.make(*path.parent.parts) / path.name
    try:
        run_tool("portal_export", {"portalUri": uri, "destination": destination, "format": format_, "table": table})
        _download(run_tool, destination, file)
    except AppError as exc:
        file.unlink(missing_ok=True)
        target.leave_out(path.as_posix(), exc.message)
        return False
    return True


def _download(run_tool: RunTool, destination: str, target: Path) -> None:
    offset, is_done = 0, False
    with target.open("wb") as file:
        while not is_done:
            piece = run_tool("portal_download", {"destination": destination, "offset": offset})
            offset += file.write(base64.b64decode(piece.data))
            is_done = piece.done


def import_(run_tool: RunTool, known: Collection[str], source: ImportFolder) -> None:
    """`known` are the addresses of the portals that there are: they stay as they are."""
    for path, address in maintenance.portal_files(source):
        with source.one(source.shown(path)):
            uri = maintenance.checked(address).portal_uri
            is_new = uri not in known
            if is_new and not source.dry_run:
                arguments = {"portalUri": uri, "source": _upload(run_tool, path), "format": "db"}
                run_tool("portal_import", arguments)
            source.result.count(PORTALS, new=is_new)


def _upload(run_tool: RunTool, path: Path) -> str:
    """What portal_import calls the file."""
    name, offset, source = f"{uuid4().hex}.db", 0, ""
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            data = base64.b64encode(piece).decode()
            source = run_tool("portal_upload", {"name": name, "offset": offset, "data": data}).source
            offset += len(piece)
    return source
