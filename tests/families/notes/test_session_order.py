"""The order of the notes of a session, when some of them are archived, restored, moved or deleted."""

from itertools import permutations

import pytest

from memory_mcp.app import App
from memory_mcp.families.notes.model import ARCHIVED, Author, NewNote, NoteQuery, Revision
from tests.families.notes.calls import CALLER

AUTHOR = Author("mcp", None, "session")
WRITTEN = ("The orchestra plays on Monday", "In Lisbon", "Bring the violin", "And a coat")


@pytest.fixture
def ids(app: App) -> list[str]:
    return [app.notes.writer.create(CALLER, AUTHOR, NewNote(text)).id for text in WRITTEN]


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_notes_that_are_archived_and_restored_keep_their_order(
    app: App, ids: list[str], order: tuple[int, ...]
) -> None:
    before = previous(app)
    for number in order:
        archive(app, ids[number])
    for number in order[::-1][:2] + order[:2]:
        restore(app, ids[number])
    assert previous(app) == before
    assert set(found(app, "orchestra")) == {ids[0], ids[1]}


@pytest.mark.parametrize("number", range(4))
def test_a_note_comes_back_between_its_neighbors(app: App, ids: list[str], number: int) -> None:
    before = previous(app)
    archive(app, ids[number])
    assert previous(app) != before or number == 3
    restore(app, ids[number])
    assert previous(app) == before


def test_no_live_note_follows_an_archived_one(app: App, ids: list[str]) -> None:
    for id_ in ids[1:]:
        archive(app, id_)
    restore(app, ids[3])
    assert previous(app)[ids[3]] == ids[0]
    assert set(found(app, "orchestra")) == {ids[0], ids[3]}
    app.notes.writer.delete(CALLER, ids[1], soft=False)
    restore(app, ids[2])
    assert [previous(app)[id_] for id_ in ids[2:]] == [ids[0], ids[2]]


def previous(app: App) -> dict[str, str | None]:
    return {one.note.id: one.position.previous_id for one in app.notes.transfer.everything(CALLER)}


def found(app: App, words: str) -> list[str]:
    hits, _ = app.notes.reader.hits(CALLER, NoteQuery(words, mode="lexical"))
    return [hit.id for hit in hits]


def archive(app: App, id_: str) -> None:
    app.notes.writer.delete(CALLER, id_, soft=True)


def restore(app: App, id_: str) -> None:
    app.notes.writer.update(CALLER, AUTHOR, id_, Revision(remove_tags=(ARCHIVED,)))
