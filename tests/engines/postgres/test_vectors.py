"""Servers keep copies of a user's vectors, and notice what other servers change."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.notes.storage import index
from memory_mcp.services.embedding import Space
from memory_mcp.services.search.vectors import pack, unpack
from memory_mcp.services.search_index.storage import vectors
from memory_mcp.services.search_index.vector_search import Nearness, QueryVector
from memory_mcp.settings import Settings

SPACE = Space("builtin", "test", 2)
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
UP, RIGHT = unpack(b"\0\0\0\0\0\0\x80?"), unpack(b"\0\0\x80?\0\0\0\0")


@pytest.fixture
def servers(postgres_url: str, tmp_path: Path) -> Iterator[list[App]]:
    with ExitStack() as stack:
        settings = [
            Settings(data_dir=tmp_path / name, families=("notes",), database_url=postgres_url, embedder="none")
            for name in ("one", "other")
        ]
        yield [stack.enter_context(open_app(one, serving=False)) for one in settings]


def write(server: App, text: str) -> int:
    note = server.notes.writer.create(CALLER, Author(), NewNote(text))
    with server.notes._files.of(LOCAL_USER).db.read() as tx:
        return tx.number("SELECT seq FROM notes WHERE id = :id", {"id": note.id})


def save(server: App, seq: int, vector: object) -> None:
    with server.notes._files.of(LOCAL_USER).db.write() as tx:
        vectors.set_space(tx, SPACE, bytes(pack(UP)))
        index.VECTORS.save(tx, seq, [pack(vector)])  # type: ignore[arg-type]


def near(server: App) -> Nearness:
    file = server.notes._files.of(LOCAL_USER)
    with file.db.read() as tx:
        return file.vectors.near(tx, QueryVector(SPACE, UP, server.notes._files.queries), (), None, 10)


def nearest(server: App) -> list[int]:
    return near(server).nearest


def test_a_copy_follows_what_other_servers_change(servers: list[App]) -> None:
    one, other = servers
    first, second = write(one, "first"), write(one, "second")
    save(one, first, UP)
    save(one, second, RIGHT)
    assert [nearest(other) for _ in range(3)] == [[first, second]] * 3
    assert other.notes._files.of(LOCAL_USER).vectors._cache.size > 0
    save(one, first, RIGHT)
    save(one, second, UP)
    assert nearest(other) == [second, first]
    with one.notes._files.of(LOCAL_USER).db.write() as tx:
        tx.all("DELETE FROM notes WHERE seq = :seq", {"seq": second})
    assert nearest(other) == [first]


def test_a_copy_and_the_database_find_the_same(servers: list[App]) -> None:
    one, other = servers
    seqs = [write(one, f"note {number}") for number in range(9)]
    with one.notes._files.of(LOCAL_USER).db.write() as tx:
        vectors.set_space(tx, SPACE, bytes(pack(UP)))
        for angle, seq in enumerate(seqs):
            chunks = [np.array([np.sin(at), np.cos(at)]) for at in (angle / 3, angle / 3 + 0.05)]
            index.VECTORS.save(tx, seq, [pack(chunk) for chunk in chunks])
    by_database, by_copy = near(other), near(other)
    assert other.notes._files.of(LOCAL_USER).vectors._cache.size > 0
    assert by_database.nearest == by_copy.nearest == seqs
    for seq, deviations in by_database.deviations.items():
        assert deviations.own == pytest.approx(by_copy.deviations[seq].own, abs=1e-5)
        assert deviations.with_context == pytest.approx(by_copy.deviations[seq].with_context, abs=1e-5)


def test_a_copy_follows_a_deletion_of_everything(servers: list[App]) -> None:
    one, other = servers
    save(one, seq := write(one, "first"), UP)
    assert [nearest(other) for _ in range(2)] == [[seq]] * 2
    one.notes._files.recreate(LOCAL_USER)
    save(one, later := write(one, "again"), UP)
    assert later != seq
    assert nearest(other) == [later]
