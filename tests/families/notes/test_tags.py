"""Where a note's tags come from, in which order they stand, and how they are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from memory_mcp.app import App
from memory_mcp.families.notes.model import client_tag
from memory_mcp.families.notes.transactions import merged_tags
from memory_mcp.server.protocol import McpServer
from tests.conftest import connected
from tests.families.notes.calls import call, create, file, found, get, named, read, refusal, update

pytestmark = pytest.mark.anyio

SYSTEM = ["mcp", "memory", "ns/default"]  # the SDK's client calls itself mcp, too


async def test_the_users_tags_come_first_then_the_systems_then_those_in_the_body(
    mcp_server: McpServer, era: str
) -> None:
    async with connected(mcp_server, mode=era, **named("Claude Desktop")) as client:
        note = await create(client, "Ship it #release #prod/eu", tags=["Zeta", "alpha"], namespace="work")

    assert note["tags"] == ["Zeta", "alpha", "mcp", "memory", "claude-desktop", "ns/work", "release", "prod/eu"]
    assert note["client"] == "claude-desktop"


async def test_tags_are_unique_in_any_case(client: Client) -> None:
    note = await create(client, "#deploy #Ops #ops", tags=["Deploy", "DEPLOY", "MCP", "Straße", "STRASSE"])

    assert note["tags"] == ["Deploy", "MCP", "Straße", "memory", "ns/default", "Ops"]


async def test_the_column_and_the_table_hold_the_same_tags_in_the_same_order(client: Client, app: App) -> None:
    note = await create(client, "about #inline", tags=["b", "a"])
    note = await update(client, note, add_tags=["c"], remove_tags=["b"], content="now #other and #inline")

    with file(app).read() as tx:
        [(column,)] = tx.all("SELECT tags FROM notes")
        rows = tx.all("SELECT tag, origin FROM note_tags ORDER BY position")
    assert column == ",".join(note["tags"]) == ",".join(tag for tag, _ in rows)
    assert note["tags"] == ["a", "c", *SYSTEM, "other", "inline"]
    assert [origin for _, origin in rows] == ["user", "user", "system", "system", "system", "inline", "inline"]


@pytest.mark.parametrize(("given", "kept"), [("#deploy", "deploy"), ("  spaced out  ", "spaced out"), ("# x", "x")])
async def test_a_tag_is_kept_without_its_mark_and_the_spaces_around_it(client: Client, given: str, kept: str) -> None:
    note = await create(client, tags=[given])

    assert note["tags"] == [kept, *SYSTEM]
    assert await found(client, tags=[given]) == await found(client, tags=[kept]) == ["something"]
    assert (await update(client, note, remove_tags=[given]))["tags"] == SYSTEM


@pytest.mark.parametrize("tag", ["", " ", "#", "a,b", "a\nb", "x" * 129])
async def test_invalid_tags_are_refused(client: Client, tag: str) -> None:
    note = await create(client)

    for tool, arguments in (
        ("memory_create", {"content": "c", "tags": [tag]}),
        ("memory_update", {"id": note["id"], "tags": [tag]}),
        ("memory_update", {"id": note["id"], "add_tags": [tag]}),
    ):
        assert (await refusal(client, tool, **arguments))["error"] == "invalid"
    assert (await get(client, note))["tags"] == SYSTEM


@pytest.mark.parametrize("field", ["tags", "add_tags", "remove_tags"])
async def test_a_refusal_names_the_field_of_the_tag(client: Client, field: str) -> None:
    note = await create(client)

    refused = await refusal(client, "memory_update", id=note["id"], **{field: ["a,b"]})
    assert refused["data"]["field"].split(".")[0] == field


async def test_too_many_tags_are_refused(client: Client) -> None:
    assert len((await create(client, tags=[f"t{n}" for n in range(64)]))["tags"]) == 67
    refused = await refusal(client, "memory_create", content="c", tags=[f"t{n}" for n in range(65)])
    assert refused["data"] == {"field": "tags"}


@pytest.mark.parametrize("tag", ["archived", "ARCHIVED", " #archived ", "# archived"])
async def test_only_memory_delete_archives(client: Client, tag: str) -> None:
    note = await create(client)

    for tool, arguments in (
        ("memory_create", {"content": "c", "tags": [tag]}),
        ("memory_update", {"id": note["id"], "tags": [tag]}),
        ("memory_update", {"id": note["id"], "add_tags": [tag]}),
    ):
        refused = await refusal(client, tool, **arguments)
        assert refused["error"] == "invalid"
        assert "memory_delete" in refused["message"]
    assert (await get(client, note))["tags"] == SYSTEM


async def test_new_content_replaces_inline_tags(client: Client) -> None:
    note = await create(client, "#one #two `#code`", tags=["own"])
    assert note["tags"] == ["own", *SYSTEM, "one", "two"]

    assert (await update(client, note, content="#two #three"))["tags"] == ["own", *SYSTEM, "two", "three"]


async def test_tags_replaces_the_users_alone(client: Client) -> None:
    note = await create(client, "body #inline", tags=["a", "b"])

    note = await update(client, note, tags=["c", "#d"])
    assert note["tags"] == ["c", "d", *SYSTEM, "inline"]
    assert (await update(client, note, tags=[]))["tags"] == [*SYSTEM, "inline"]


async def test_tags_are_added_and_removed_without_regard_to_case(client: Client) -> None:
    note = await create(client, tags=["a", "b", "c"])

    assert (await update(client, note, add_tags=["d", "A"], remove_tags=["B"]))["tags"] == ["a", "c", "d", *SYSTEM]
    assert (await update(client, note, tags=["x"], add_tags=["y"], remove_tags=["X"]))["tags"] == ["y", *SYSTEM]


async def test_the_systems_tags_cannot_be_removed(client: Client) -> None:
    note = await create(client, tags=["own"])

    note = await update(client, note, tags=[], remove_tags=["mcp", "memory", "ns/default"])
    assert note["tags"] == SYSTEM


async def test_the_tag_of_the_namespace_moves_with_the_note(client: Client) -> None:
    note = await update(client, await create(client, tags=["own"]), namespace="work")

    assert note["tags"] == ["own", "mcp", "memory", "ns/work"]


async def test_the_tag_of_a_former_namespace_is_removed(client: Client) -> None:
    """An agent adds a tag by reading the list and writing a longer one."""
    note = await create(client, tags=["own"])
    note = await update(client, note, tags=[*note["tags"], "new"])

    assert sorted(note["tags"]) == sorted(["own", "new", *SYSTEM])
    assert "ns/default" not in (await update(client, note, namespace="work"))["tags"]


async def test_a_note_that_another_client_updates_gets_its_tag_too(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era, **named("Claude Desktop")) as claude:
        note = await create(claude)
    async with connected(mcp_server, mode=era, **named("Cursor")) as cursor:
        note = await update(cursor, note, importance=0.9)

    assert set(note["tags"]) == {*SYSTEM, "claude-desktop", "cursor"}
    assert note["client"] == "claude-desktop"


async def test_a_client_without_a_usable_name_adds_no_tag(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era, **named("!")) as client:
        note = await create(client)

    assert (note["tags"], note["client"]) == (SYSTEM, None)


async def test_tags_are_counted_ignoring_case(client: Client) -> None:
    await create(client, tags=["Urgent"])
    await create(client, tags=["urgent"])

    tags = (await call(client, "memory_list_tags"))["tags"]
    assert {one["tag"].casefold(): one["count"] for one in tags} == {"urgent": 2} | dict.fromkeys(SYSTEM, 2)
    assert len(tags) == 4
    assert len(await read(client, "memory://tag/URGENT")) == 2


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("Claude Desktop", "claude-desktop"),
        ("claude-ai", "claude-ai"),
        ("claudeDesktop", "claude-desktop"),
        ("Visual Studio Code", "visual-studio-code"),
        ("VSCode", "vscode"),
        ("my_client", "my-client"),
        ("my_ client (v2)", "my-client-v2"),
        ("a, b", "a-b"),
        ("@scope/pkg", "scope-pkg"),
        ("Ünïcode Ä", "ünïcode-ä"),
        ("***", None),
        ("", None),
    ],
)
def test_a_clients_name_is_a_tag_in_kebab_case(name: str, tag: str | None) -> None:
    assert client_tag(name) == tag


@given(st.text())
def test_any_clients_name_is_a_tag_or_none(name: str) -> None:
    tag = client_tag(name)
    assert tag is None or [made.name for made in merged_tags([], [tag], [])] == [tag]
    assert tag is None or not (tag.startswith("-") or tag.endswith("-") or "--" in tag)


names = st.lists(st.text(min_size=1, max_size=8), max_size=8)


@given(names, names, names)
def test_merged_tags_are_unique_and_in_order(user: list[str], system: list[str], inline: list[str]) -> None:
    merged = merged_tags(user, system, inline)

    first: dict[str, tuple[str, str]] = {}
    for origin, listed in (("user", user), ("system", system), ("inline", inline)):
        for name in listed:
            first.setdefault(name.casefold(), (name, origin))
    assert [(tag.name, tag.origin) for tag in merged] == list(first.values())
