"""Whatever portals make on the disk is its owner's alone."""

import base64
import os
import stat
from pathlib import Path

from tests.processes import environment
from tests.wire import Stdio

PORTAL = "mem://tests/fresh"


def test_everything_that_portals_make_is_for_its_owner_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    env = environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="5", MEMORY_MCP_EMBEDDER="none")
    umask = os.umask(0o022)  # as most people have it
    try:
        server = Stdio.start(data_dir, "--families", "portals", env=env)
    finally:
        os.umask(umask)
    # A portal that an import makes, of a file that came in pieces.
    piece = base64.b64encode(b'{"id": 1, "text": "a"}\n').decode()
    source = server.call("portal_upload", name="t.json", offset=0, data=piece)["source"]
    uploads = modes(data_dir)
    assert server.call("portal_import", portalUri=PORTAL, source=source, format="json")["imported"] == 1
    server.call("portal_write", portalUri=PORTAL, table="u", data=[{"n": 1}], portalName="Fresh")
    for name, format_ in (("a/b/t.csv", "csv"), ("all.db", "db"), ("downloads/u.json", "json")):
        table = {} if format_ == "db" else {"table": "t"}
        server.call("portal_export", portalUri=PORTAL, destination=name, format=format_, **table)
    server.call("portal_delete", portalUri=PORTAL, table="t", where={"id": 1})
    server.call("portal_query", portalUri=PORTAL, sql="SELECT 1")
    found = modes(data_dir)
    server.close()
    assert {"imports/uploads/t.json", "imports/uploads"} <= uploads.keys()
    assert {"exports/a/b/t.csv", "exports/all.db", "exports/downloads", "portals/tests/fresh/db"} <= found.keys()
    assert {path: oct(mode) for path, mode in (uploads | found).items() if mode & 0o077} == {}


def modes(folder: Path) -> dict[str, int]:
    """Of everything in a folder but symlinks, whose mode means nothing. What goes meanwhile is left out."""
    found = {}
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISLNK(status.st_mode):
            found[str(path.relative_to(folder))] = stat.S_IMODE(status.st_mode)
    return found
