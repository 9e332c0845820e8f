"""A server whose notes are in PostgreSQL."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app, open_maintenance
from memory_mcp.app.access import open_access
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Invalid, Unavailable, Unusable
from memory_mcp.families.notes.model import Author, NewNote, NoteQuery
from memory_mcp.families.vault.model import NewMemory

LOCAL = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes", "vault"}))


def chosen(data_dir: Path, url: str, families: str = "notes,recall") -> settings.Settings:
    options: dict[str, Any] = {"data_dir": data_dir, "embedder": "none", "database_url": url, "families": families}
    return settings.load(options, environ={}).settings


@pytest.fixture
def app(tmp_path: Path, postgres_url: str) -> Iterator[App]:
    with open_app(chosen(tmp_path, postgres_url)) as app:
        yield app


def titles(app: App, caller: Caller, query: str) -> list[str]:
    return [hit.title for hit in app.notes.reader.search(caller, NoteQuery(query)).memories]


def test_two_servers_have_the_same_notes(app: App, postgres_url: str, tmp_path: Path, elsewhere: Path) -> None:
    note = app.notes.writer.create(LOCAL, Author(), NewNote("The backup runs nightly, see [[Restoring]]"))
    with open_app(chosen(elsewhere, postgres_url)) as other:
        other.notes.writer.create(LOCAL, Author(), NewNote("How to restore a backup", title="Restoring"))
        links = other.notes.reader.get(LOCAL, note.id, include_links=True).links
        assert links is not None
        assert [link.title for link in links.outgoing] == ["Restoring"]
        assert len(titles(other, LOCAL, "backup")) == 2
        assert titles(other, Caller("ada", ALL_SCOPES, frozenset({"notes"})), "backup") == []
    assert sorted(titles(app, LOCAL, "backups")) == ["Restoring", "The backup runs nightly, see [[Restoring]]"]
    assert not list(tmp_path.glob("notes.db*"))


def test_what_is_not_there_yet_is_refused(app: App, tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(Invalid, match="--families notes,recall"), open_app(chosen(tmp_path, postgres_url, "")):
        raise AssertionError
    with pytest.raises(Unavailable, match="vault is not in PostgreSQL yet"):
        app.vault.import_memory(LOCAL, NewMemory("vault", "k", "c", ()), "", "")
    with pytest.raises(Unavailable, match="cannot be synced yet"):
        app.sync.status(LOCAL_USER)
    with pytest.raises(Unavailable, match="cannot be synced yet"):
        app.sync.enable(LOCAL_USER, "default")
    with pytest.raises(Unavailable, match="pg_dump"), open_maintenance(app.settings):
        raise AssertionError
    assert not list(tmp_path.glob("memory.db*"))


def test_a_deleted_user_leaves_no_row(app: App, postgres_url: str, tmp_path: Path) -> None:
    ada = app.access.users.add("ada")
    caller = Caller(ada.id, ALL_SCOPES, frozenset({"notes"}))
    app.notes.writer.create(caller, Author(), NewNote("private"))
    app.notes.writer.create(LOCAL, Author(), NewNote("of another user"))
    with open_access(app.settings) as access:
        access.delete_data(ada.id)
    assert titles(app, caller, "private") == []
    assert titles(app, LOCAL, "user") == ["of another user"]


def test_without_the_driver_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("memory_mcp.engines.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    with (
        pytest.raises(Unusable, match=r"pip install 'five-memories\[postgres\]'"),
        open_app(chosen(tmp_path, "postgresql:///x")),
    ):
        raise AssertionError
