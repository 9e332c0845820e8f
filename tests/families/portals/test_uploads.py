"""Files that pass through tool calls piece by piece."""

import base64
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.portals import exports
from tests.families.portals.calls import CALLER, PORTAL


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_nothing_outside_the_folder_is_downloaded(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "exports"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret").write_text("secret")
    (folder / "downloads").symlink_to(outside)
    for destination in (
        *("../outside/secret", "secret", "downloads/secret", "downloads/../x", "/etc/passwd", "downloads/a/b"),
    ):
        with pytest.raises((Invalid, NotFound)):
            exports.read_piece(folder, destination, 0)


def test_an_upload_is_imported_and_an_export_downloaded_whole(app: App, table: str) -> None:
    portals = app.portals
    source = portals.imports.receive(CALLER, f"{table}.csv", 0, encoded(b"id,a\n1,x\n2,y\n")).source
    imported = portals.imports.import_file(CALLER, PORTAL, source, "csv", table, lambda *_: None)
    assert imported.imported == 2
    with pytest.raises(NotFound):
        portals.imports.import_file(CALLER, PORTAL, source, "csv", table, lambda *_: None)  # it is gone
    destination = f"downloads/{table}.csv"
    made = portals.exports.export_file(CALLER, PORTAL, destination, "csv", table, None, lambda *_: None)
    piece = portals.exports.read_piece(CALLER, destination, 0)
    assert (piece.done, piece.bytes, len(base64.b64decode(piece.data))) == (True, made.bytes, made.bytes)
    with pytest.raises(NotFound):
        portals.exports.read_piece(CALLER, "downloads/nothing.csv", 0)
