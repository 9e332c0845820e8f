"""Exports of portals that are on another server, when that server leaves in the middle."""

import base64
from pathlib import Path
from typing import Any

from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Unavailable
from memory_mcp.families.maintenance import ExportFolder
from memory_mcp.families.portals import forwarded_files
from memory_mcp.families.portals.model import Piece, PortalSummary


def test_no_part_of_a_file_stays_when_its_server_leaves(tmp_path: Path) -> None:
    def run_tool(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "portal_download" and arguments["offset"]:
            raise Unavailable("The server with these portals has left.")
        return Piece(base64.b64encode(b"the first piece").decode(), 0, bytes=100, done=False)

    target = ExportFolder(tmp_path, Caller(LOCAL_USER, ALL_SCOPES, frozenset({"portals"})))
    forwarded_files.export(run_tool, [PortalSummary("mem://tests/p", "", "", ["t"], 1, 100)], target)
    assert [one.path for one in target.left_out] == ["portals/tests/p.db"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
