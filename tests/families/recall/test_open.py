"""recall_open: whatever a search, a list or a link names can be opened, whole."""

import json
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.clock import new_id
from memory_mcp.errors import Invalid
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.recall import pages
from memory_mcp.families.registry import FAMILIES
from memory_mcp.services.sessions import Connection, Session
from tests.conftest import ERAS
from tests.exhaustive import rounds
from tests.families.notes.calls import call, refusal
from tests.families.recall.calls import PORTAL, hits, write_everywhere

pytestmark = pytest.mark.anyio

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
HERE = Session(new_id(), Connection(LOCAL_USER, new_id()))
TEAPOT = "The savings are in the blue teapot."
ODD = ["a/b", "tea pot?", "50%", "#1", "каша", "🫖", "a&b=c"]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def opened(client: Client, ref: str, **more: Any) -> dict[str, Any]:
    found = await call(client, "recall_open", ref=ref, **more)
    assert set(found) - {"nextOffset", "origin"} == {"family", "ref", "title", "content", "created_at", "updated_at"}
    return found


async def whole(client: Client, ref: str) -> str:
    """All pages together."""
    parts, offset = [], 0
    while True:
        found = await opened(client, ref, offset=offset)
        assert len(found["content"].encode()) <= pages.MAX_PAGE_BYTES
        parts.append(found["content"])
        if "nextOffset" not in found:
            return "".join(parts)
        assert found["nextOffset"] > offset
        offset = found["nextOffset"]


async def test_every_hit_of_recall_is_opened(client: Client) -> None:
    refs = await write_everywhere(client, TEAPOT, portals=True)
    await call(client, "commit_memory", scope="session", key="scratch", content=f"Today: {TEAPOT}")
    found = await hits(client, "teapot")
    assert {hit["ref"] for hit in found} >= set(refs.values())
    for hit in found:
        thing = await opened(client, hit["ref"])
        assert TEAPOT in thing["content"]
        assert (thing["family"], thing["ref"]) == (hit["family"], hit["ref"])
    for family in ("vault", "notes", "stores"):  # a text is opened as it was written
        thing = await opened(client, f" {refs[family]}\n")
        assert (thing["content"], thing["ref"]) == (TEAPOT, refs[family])
        assert thing["created_at"] <= thing["updated_at"]


async def test_whatever_resources_and_lists_name_is_opened(client: Client) -> None:
    await write_everywhere(client, TEAPOT, portals=True)
    for resource in (await client.list_resources()).resources:
        assert (await opened(client, str(resource.uri)))["title"]
    [note] = (await call(client, "memory_recent"))["memories"]
    assert (await opened(client, note["id"]))["content"] == TEAPOT
    assert note["id"] in (await opened(client, "memory://namespace/default"))["content"]
    assert "stores:diary/days/one" in (await opened(client, "stores:diary/days"))["content"]
    assert "stores:diary/days" in (await opened(client, "stores:diary"))["content"]
    assert "graph:house/one" in (await opened(client, "graph:house"))["content"]
    assert f"{PORTAL}/turns: 1 rows" in (await opened(client, PORTAL))["content"]
    groups = {"memory://namespace/": "memory://namespace/default", "stores:": "stores:diary", "graph:": "graph:house"}
    for ref, group in (groups | {"mem://": PORTAL}).items():
        assert f"- {group}: 1 (" in (await opened(client, ref))["content"]


async def test_a_file_is_opened_by_its_name_on_disk_too(client: Client) -> None:
    await call(client, "add_memory", store="diary", path="days/one", content=TEAPOT)
    assert await opened(client, "stores:diary/days/one.md") == await opened(client, "stores:diary/days/one")


async def test_an_entity_is_opened_with_its_observations_and_relations(client: Client) -> None:
    await call(client, "create_project", name="house", description="At home")
    entities = [
        {"name": name, "entity_type": "person", "observations": [f"{name} likes tea"]} for name in ("Ann", "Bo")
    ]
    await call(client, "create_entities", entities=entities)
    relations = [{"from": "Ann", "to": "Bo", "relation_type": "knows"}]
    await call(client, "create_relations", relations=relations)
    found = await opened(client, "graph:house/Ann")
    assert found["content"] == "Ann (person)\n- Ann likes tea\n\nRelations:\n- Ann knows Bo"
    assert (await opened(client, "graph:house"))["content"].startswith("Project house: At home\n- graph:house/Ann")


async def test_a_long_entity_is_opened_whole(client: Client) -> None:
    await call(client, "create_project", name="house")
    facts = [f"Fact {number}: {'x' * 500}" for number in range(500)]
    await call(client, "create_entities", entities=[{"name": "Ann", "entity_type": "person", "observations": facts}])
    text = await whole(client, "graph:house/Ann")
    assert text.splitlines() == ["Ann (person)", *(f"- {fact}" for fact in facts)]


async def test_tables_are_opened_with_their_columns_and_first_rows(client: Client) -> None:
    data = [{"number": number, "word": f"w{number}"} for number in range(250)]
    await call(client, "portal_write", portalUri=PORTAL, table="turns", data=data)
    shown: list[Any] = []
    ref: str | None = f"{PORTAL}/turns"
    while ref:
        head, *lines = (await opened(client, ref))["content"].splitlines()
        assert head.startswith(f"{PORTAL}/turns: 250 rows of (number Nullable(Int64)")
        shown += [json.loads(line.removeprefix("- ")) for line in lines if line.startswith("- ")]
        ref = lines[-1].partition("open ")[2] or None
    assert sorted(shown, key=lambda row: row["number"]) == data


@pytest.mark.parametrize("name", ODD)
async def test_odd_names_are_opened(client: Client, name: str) -> None:
    await call(client, "commit_memory", scope="vault", key=name, content=TEAPOT)
    await call(client, "create_project", name="house")
    await call(client, "create_entities", entities=[{"name": name, "entity_type": "thing"}])
    assert (await opened(client, f"memory://vault/{quote(name, safe='')}"))["title"] == name
    assert (await opened(client, f"graph:house/{quote(name, safe='')}"))["title"] == name


async def test_a_long_text_comes_in_pages_and_whole(client: Client, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    megabytes, lines = rounds(1, soak=10), rounds(43_000, soak=410_000)
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", megabytes * 100_000)
    text = "".join(f"{number}: Tea 🫖 каша\n" for number in range(lines))
    assert len(text.encode()) > megabytes * 1024 * 1024
    note = app.notes.writer.create(ME, Author(), NewNote(text, title="Long"))
    found = app.recall.open(ME, HERE, note.id, 0)
    parts = [found.content]
    while found.nextOffset is not None:
        found = app.recall.open(ME, HERE, note.id, found.nextOffset)
        parts.append(found.content)
    assert "".join(parts) == app.notes.reader.read(ME, note.id).content
    first = await opened(client, note.id)
    assert (first["content"], first["nextOffset"]) == (parts[0], len(parts[0]))


@given(st.text(alphabet=string.ascii_letters + " \n\u0301\u200d🫖👩каш", max_size=400), st.integers(4, 60))
def test_pages_together_are_the_text(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "MAX_PAGE_BYTES", size)
        parts: list[str] = []
        offset: int | None = 0
        while offset is not None:
            part, offset = pages.page(text, offset)
            assert len(part.encode()) <= size
            parts.append(part)
    assert "".join(parts) == text


def test_a_page_ends_where_nothing_is_torn() -> None:
    assert pages.page("x" * 39_000 + "\n" + "y" * 2_000, 0) == ("x" * 39_000 + "\n", 39_001)
    assert pages.page("x" * 39_990 + " " + "y" * 2_000, 0)[1] == 39_991
    assert pages.page("x" * 39_999 + "e\u0301" + "y" * 2_000, 0)[1] == 39_999
    with pytest.raises(Invalid, match="has 3 characters"):
        pages.page("abc", 4)


@pytest.mark.parametrize(
    "ref",
    [
        "nonsense",
        "https://example.org/",
        "memory://vault/none",
        "memory://session/none",
        "memory://note/none",
        "00000000-0000-4000-8000-000000000000",
        "stores:none/x",
        "stores:diary/none",
        "stores:diary/none.md",
        "graph:none/x",
        "graph:house/none",
        "graph:none",
        "mem://none/none",
        "mem://none/none/none",
        f"{PORTAL}/none",
        "mem://../x",
    ],
)
async def test_a_missing_memory_is_not_found(client: Client, ref: str) -> None:
    await call(client, "add_memory", store="diary", path="days/one", content=TEAPOT)
    await call(client, "create_project", name="house")
    refused = await refusal(client, "recall_open", ref=ref)
    assert (refused["error"], refused["data"]["ref"]) == ("not_found", ref)
