"""Notes in an order, such as the messages of a conversation, and ids given by their beginning."""

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.families.notes.model import Author, NewNote
from tests.families.notes.calls import CALLER, call, create, refusal

pytestmark = pytest.mark.anyio


@pytest.fixture
def era() -> str:
    """The rules are the same in both eras; other modules test each."""
    return "legacy"


def test_the_notes_around_some_of_a_series_have_their_distance(app: App) -> None:
    ids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(5)]
    app.notes.series.append(CALLER, Author("hook"), [NewNote(f"text {id_[-1]}", id=id_) for id_ in ids], None)
    around = app.notes.series.around(CALLER, [ids[0], ids[3]], 2)
    found = {
        id_[-1]: sorted((near.seq, near.note.content, near.distance) for near in several)
        for id_, several in around.items()
    }
    assert [one[1:] for one in found["0"]] == [("text 0", 0), ("text 1", 1), ("text 2", 2)]
    assert [one[1:] for one in found["3"]] == [("text 1", -2), ("text 2", -1), ("text 3", 0), ("text 4", 1)]


async def test_the_beginning_of_an_id_is_enough_if_no_other_id_has_it(app: App, client: Client) -> None:
    twins = [f"12345678-000{number}-4000-8000-000000000000" for number in (1, 2)]
    app.notes.series.append(CALLER, Author("hook"), [NewNote(id_, id=id_) for id_ in twins], None)
    note = await create(client, "alone")
    assert (await call(client, "memory_get", id=note["id"][:8]))["content"] == "alone"
    assert app.notes.reader.short_id(CALLER, note["id"]) == note["id"][:8]
    assert app.notes.reader.short_id(CALLER, twins[0]) == twins[0]
    assert (await refusal(client, "memory_get", id="12345678"))["error"] == "not_found"
    assert (await call(client, "memory_get", id=twins[1][:13]))["content"] == twins[1]
    assert (await refusal(client, "memory_get", id=note["id"][:7]))["error"] == "not_found"
    assert (await call(client, "memory_delete", id=note["id"][:8]))["id"] == note["id"]
