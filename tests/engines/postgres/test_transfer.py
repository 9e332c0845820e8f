"""An export of one engine, imported into the other, gives the same export again."""

from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.maintenance.exports import Export
from memory_mcp.maintenance.imports import read_export
from memory_mcp.services.sessions import Connection, Session
from tests.conftest import Clock

FAMILIES = "vault,notes,graph,recall"
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES.split(",")))
HERE = Session("s", Connection(LOCAL_USER, "s"))


def opened(data_dir: Path, clock: Clock, url: str | None) -> Any:
    options = {"data_dir": data_dir, "embedder": "none", "families": FAMILIES, "embedding_dim": 3}
    return open_app(settings.load(options | ({"database_url": url} if url else {}), environ={}).settings, clock=clock)


def fill(app: App) -> None:
    app.vault.commit(CALLER, HERE, NewMemory("vault", "a key/ü", "fact\nof two", ("one", "Two"), (1.0, 0.5, -2.0)))
    app.vault.commit(CALLER, HERE, NewMemory("vault", "plain", "without a vector"))
    older = app.notes.writer.create(CALLER, Author(), NewNote("About [[Tea]] #drinks", title="Old", namespace="home"))
    app.notes.writer.create(CALLER, Author(), NewNote("Green", title="Tea", tags=("x",), supersedes=(older.id,)))
    app.graph.create_project(CALLER, HERE, "house", "Where we live")
    entities = [NewEntity("Ada", "person", ("likes tea", "字")), NewEntity("Bob", "person", ())]
    app.graph.create_entities(CALLER, HERE, None, entities)
    app.graph.create_relations(CALLER, HERE, None, [NamedRelation("Ada", "Bob", "knows")])
    app.graph.create_project(CALLER, HERE, "old", "")
    app.graph.archive_project(CALLER, "old")


def exported(app: App, target: Path) -> dict[str, bytes]:
    Export(app.opened, CALLER).run(target)
    files = (path for path in sorted(target.rglob("*")) if path.is_file() and path.parent != target)
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in files} | {
        "vault.jsonl": (target / "vault.jsonl").read_bytes()
    }


@pytest.mark.parametrize("is_to_postgres", [True, False])
def test_an_export_moves_between_engines(
    tmp_path: Path, clock: Clock, postgres_url: str, elsewhere: Path, is_to_postgres: bool
) -> None:
    source, target = (None, postgres_url) if is_to_postgres else (postgres_url, None)
    with opened(tmp_path / "source", clock, source) as app:
        fill(app)
        before = exported(app, elsewhere / "before")
    with opened(tmp_path / "target", clock, target) as app:
        for _ in range(2):  # the second time adds nothing
            result = read_export(app.opened, CALLER, elsewhere / "before")
            assert not result.left_out, result.left_out
        after = exported(app, elsewhere / "after")
    assert len(before) >= 5
    assert after == before
