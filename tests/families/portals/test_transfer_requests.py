"""What an export and an import of a whole portal ask of the engine and the system: each statement is a wait."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.engines.isolation import worker_process
from tests.families.portals.calls import CALLER, put

MAX_EXPORT_REQUESTS = 12
MAX_IMPORT_REQUESTS = 28


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests to engines, but for the looks whether a backup has begun, whose number is a matter of time."""
    real, seen = EngineConnections._exchange, []

    def exchange(self: EngineConnections, wire: Any, deadline: float, header: dict[str, Any], data: bytes) -> Any:
        if "system.backups" not in header.get("sql", ""):
            seen.append(" ".join([header["op"], header.get("sql", "")]))
        return real(self, wire, deadline, header, data)

    monkeypatch.setattr(EngineConnections, "_exchange", exchange)
    return seen


def test_a_portal_file_is_exported_without_another_process_and_with_few_requests(
    app: App, requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(app, "facts", [{"id": number, "name": f"name {number}"} for number in range(100)], "mem://tests/asked")
    monkeypatch.setattr(worker_process, "start_module", None)  # a process that is started fails
    requests.clear()
    app.portals.exports.export_file(CALLER, "mem://tests/asked", "asked.db", "db", None, None, lambda *progress: None)
    assert len(requests) <= MAX_EXPORT_REQUESTS, requests
    manifest = archive.manifest(app.settings.data_dir / "exports" / "asked.db")
    assert manifest["tables"] == {"facts": 100}


def test_a_portal_file_is_imported_with_few_requests(app: App, requests: list[str]) -> None:
    portal = "mem://tests/back"
    put(app, "facts", [{"id": 1, "name": "one"}], portal)
    app.portals.exports.export_file(CALLER, portal, "back.db", "db", None, None, lambda *progress: None)
    imports = app.settings.data_dir / "imports"
    imports.mkdir(exist_ok=True)
    shutil.copy(app.settings.data_dir / "exports" / "back.db", imports)
    into = "mem://tests/back-again"
    put(app, "others", [{"n": 1}], into)
    requests.clear()
    done = app.portals.imports.import_file(CALLER, into, "back.db", "db", None, lambda *progress: None)
    assert (done.table, done.imported) == ("facts", 1)
    assert len(requests) <= MAX_IMPORT_REQUESTS, requests


def test_a_caller_who_leaves_ends_the_sealing_of_a_file(app: App, tmp_path: Path) -> None:
    portal = "mem://tests/sealed"
    put(app, "facts", [{"id": 1, "name": "one"}], portal)
    app.portals.exports.export_file(CALLER, portal, "sealed.db", "db", None, None, lambda *progress: None)
    made = tmp_path / "made.tar"
    shutil.copy(app.settings.data_dir / "exports" / "sealed.db", made)
    before = made.read_bytes()

    def has_left() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        archive.seal(made, {}, has_left)
    assert made.read_bytes() == before
