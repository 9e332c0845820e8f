"""A data directory with data of every family and of two tenants, and helpers for the command line."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_mcp import settings
from memory_mcp.app import App, Maintenance, open_app, open_maintenance
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.cli.maintenance import settings_for_restore
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.stores.model import Metadata
from memory_mcp.families.vault.model import NewMemory
from tests import processes
from tests.processes import environment

LOCAL = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"vault", "notes", "stores", "graph", "portals"}))
PORTAL = "mem://tests/kept"


def chosen(data_dir: Path, **more: Any) -> settings.Settings:
    return settings.load({"data_dir": data_dir, "embedder": "none", "embedding_dim": 3, **more}, environ={}).settings


@contextmanager
def opened(data_dir: Path, **more: Any) -> Iterator[App]:
    with open_app(chosen(data_dir, **more), serving=False) as app:
        yield app


@contextmanager
def maintenance_of(data_dir: Path, *, alone: bool = False, **more: Any) -> Iterator[Maintenance]:
    flags = {"data_dir": data_dir, "embedder": "none", "embedding_dim": 3, **more}
    found, former_vault = settings_for_restore(flags, {}) if alone else (chosen(data_dir, **more), None)
    with open_maintenance(found, alone=alone, former_vault=former_vault) as maintenance:
        yield maintenance


def run(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    usual = {"MEMORY_MCP_EMBEDDER": "none", "MEMORY_MCP_PORTAL_ENGINE_IDLE": "10"}
    return processes.run(*arguments, env=environment(**usual, **env))


def answer(*arguments: object, code: int = 0, **env: str) -> dict[str, Any]:
    done = run(*arguments, "--json", **env)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def furnish(data_dir: Path, elsewhere: Path | None = None, *, portals: bool = False) -> Caller:
    """Write data of every family. Returns the second tenant."""
    with opened(data_dir) as app:
        other = Caller(app.access.users.add("bob").id, ALL_SCOPES, LOCAL.families)
        for caller in (LOCAL, other):
            fill(app, caller, caller.user)
        if elsewhere is not None:
            elsewhere.mkdir(exist_ok=True)
            (elsewhere / "mine.md").write_text("written by hand\n", encoding="utf-8")
            (elsewhere / "picture.png").write_bytes(b"\x89PNG")
            app.stores.register(LOCAL, "vault-of-mine", elsewhere)
        if portals:
            app.portals.write(LOCAL, PORTAL, "events", [{"id": 1, "what": "kept"}, {"id": 2, "what": "too"}])
            app.portals.write(other, PORTAL, "events", [{"id": 3, "what": other.user}])
    (data_dir / "config.toml").write_text('log_level = "warning"\n', encoding="utf-8")
    return other


def fill(app: App, caller: Caller, word: str) -> None:
    app.vault.import_memory(
        caller,
        NewMemory("vault", "k", f"content of {word}", ("t",), (1.0, 0.0, 0.5)),
        "2020-01-01T00:00:00Z",
        "2021-01-01T00:00:00Z",
    )
    one = app.notes.writer.create(
        caller, Author(), NewNote(f"First line of {word}\n\nsee [[Two]] #inline", tags=("own",))
    )
    two = app.notes.writer.create(
        caller, Author(source="ui"), NewNote("body\n", title="Two", folder="a/b", metadata={"a": [1, {"b": None}]})
    )
    app.notes.writer.link(caller, two.id, one.id, bidirectional=False)
    gone = app.notes.writer.create(caller, Author(), NewNote("archived one"))
    app.notes.writer.delete(caller, gone.id, soft=True)
    app.stores.add(caller, "ours", "a/memory", f"in a store of {word}", Metadata(None, None, [], None, None, []))
    app.graph.add_graph(
        caller, "work", [NewEntity("A", "thing", ("said",)), NewEntity("B", "thing")], [NamedRelation("A", "B", "to")]
    )
    app.graph.add_graph(caller, "old", [NewEntity("C", "thing")], [], "put away")
    app.graph.archive_project(caller, "old")


def state(data_dir: Path, caller: Caller, *, portals: bool = False) -> dict[str, Any]:
    """A tenant's data, to be compared."""
    with opened(data_dir) as app:
        projects = app.graph.every_project(caller)
        return {
            "vault": list(app.vault.everything(caller)),
            "notes": list(app.notes.transfer.everything(caller)),
            "links": list(app.notes.transfer.every_link(caller)),
            "memory": app.stores.get(caller, "ours", "a/memory", include_expired=True),
            "graph": {one.name: list(app.graph.everything_of(caller, one)) for one in projects},
            "projects": projects,
            "rows": app.portals.query(caller, PORTAL, "SELECT * FROM events ORDER BY id", {}).rows if portals else None,
        }


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, to check that nothing was changed."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "in-use.lock"
    }
