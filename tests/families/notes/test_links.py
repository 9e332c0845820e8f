"""Links: made by hand, written as [[Title]], walked by memory_neighbors."""

from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.families.notes.calls import CALLER, call, create, delete, file, get, links, refusal, update, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def era() -> str:
    """The rules are the same in both eras; other modules test each."""
    return "legacy"


UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"


async def link(client: Client, source: dict[str, Any], target: dict[str, Any], **more: Any) -> int:
    answer = await call(client, "memory_link", source_id=source["id"], target_id=target["id"], **more)
    assert set(answer) == {"linked"}
    return int(answer["linked"])


async def unlink(client: Client, source: dict[str, Any], target: dict[str, Any], **more: Any) -> int:
    answer = await call(client, "memory_unlink", source_id=source["id"], target_id=target["id"], **more)
    assert set(answer) == {"unlinked"}
    return int(answer["unlinked"])


async def neighbors(client: Client, note: dict[str, Any], depth: int | None = None) -> dict[str, int]:
    """Titles and how far away each is."""
    answer = await call(client, "memory_neighbors", id=note["id"], **({"depth": depth} if depth else {}))
    return {node["title"]: node["depth"] for node in answer["nodes"]}


# By hand


async def test_a_link_is_made_once_and_seen_from_both_ends(client: Client) -> None:
    a, b = await create(client, "a"), await create(client, "b")

    assert await link(client, a, b) == 1
    assert await link(client, a, b) == 0
    assert (await get(client, a, include_links=True))["links"] == {
        "outgoing": [{"id": b["id"], "title": "b"}],
        "incoming": [],
        "dangling": [],
        "total": {"outgoing": 1, "incoming": 0, "dangling": 0},
    }
    assert (await get(client, b, include_links=True))["links"]["incoming"] == [{"id": a["id"], "title": "a"}]
    assert "links" not in await get(client, a)


async def test_both_directions_are_two_edges(client: Client) -> None:
    a, b = await create(client, "a"), await create(client, "b")

    assert await link(client, a, b, bidirectional=True) == 2
    assert await link(client, b, a) == 0
    assert await links(client, a) == {"outgoing": [b["id"]], "incoming": [b["id"]], "dangling": []}
    assert await unlink(client, a, b) == 1
    assert await unlink(client, a, b, bidirectional=True) == 1
    assert await unlink(client, a, b, bidirectional=True) == 0
    assert await links(client, b) == {"outgoing": [], "incoming": [], "dangling": []}


async def test_a_note_cannot_be_linked_to_itself(client: Client) -> None:
    a = await create(client, "a")

    refused = await refusal(client, "memory_link", source_id=a["id"], target_id=a["id"])
    assert (refused["error"], refused["data"]) == ("invalid", {"field": "target_id"})


@pytest.mark.parametrize("tool", ["memory_link", "memory_unlink"])
async def test_both_ends_must_exist(client: Client, tool: str) -> None:
    a = await create(client, "a")

    for source, target in ((a["id"], UNKNOWN_ID), (UNKNOWN_ID, a["id"]), (UNKNOWN_ID, UNKNOWN_ID)):
        refused = await refusal(client, tool, source_id=source, target_id=target, bidirectional=True)
        assert refused["error"] == "not_found"
    assert await links(client, a) == {"outgoing": [], "incoming": [], "dangling": []}


async def test_linking_changes_no_version(client: Client) -> None:
    a, b = await create(client, "a"), await create(client, "b")
    await link(client, a, b)

    assert (await get(client, a))["version"] == (await get(client, b))["version"] == 1


# [[Title]]


async def test_a_title_in_brackets_links_in_any_case_and_with_a_label(client: Client) -> None:
    target = await create(client, "body", title="Backup  Plan")
    source = await create(client, "see [[backup plan]] or [[BACKUP PLAN|that]], not `[[Backup Plan]]` nor [[Other]]")

    assert await links(client, source) == {"outgoing": [target["id"]], "incoming": [], "dangling": ["Other"]}
    assert (await links(client, target))["incoming"] == [source["id"]]


@pytest.mark.parametrize("title", ['He said "hi"', "back\\slash", "it's 100% 🎉", "a & b <c>", "计划", "Straße"])
async def test_any_title_can_be_linked_to(client: Client, title: str) -> None:
    source = await create(client, f"see [[{title}]]")
    assert (await links(client, source))["dangling"] == [title]

    target = await create(client, "body", title=title)
    assert await links(client, source) == {"outgoing": [target["id"]], "incoming": [], "dangling": []}


async def test_a_first_line_is_a_title_like_any_other(client: Client) -> None:
    target = await create(client, "# The plan\n\nmore")
    source = await create(client, "see [[the plan]]")

    assert (await links(client, source))["outgoing"] == [target["id"]]


async def test_a_dangling_title_links_when_its_note_appears(client: Client) -> None:
    source = await create(client, "see [[Later]] and [[Renamed]]")
    assert (await links(client, source))["dangling"] == ["Later", "Renamed"]

    later = await create(client, "body", title="Later")
    renamed = await update(client, await create(client, "other"), title="Renamed")
    assert await links(client, source) == {"outgoing": [later["id"], renamed["id"]], "incoming": [], "dangling": []}


async def test_a_renamed_note_keeps_its_links(client: Client) -> None:
    target = await create(client, "body", title="Old name")
    source = await create(client, "see [[Old name]]")
    await update(client, target, title="New name")
    taken = await create(client, "another", title="Old name")

    assert (await links(client, source))["outgoing"] == [target["id"]]
    await update(client, source, content="still see [[Old name]]")
    assert (await links(client, source))["outgoing"] == [target["id"]]
    assert (await links(client, await create(client, "[[Old name]]")))["outgoing"] == [taken["id"]]


async def test_a_body_that_no_longer_names_a_title_no_longer_links(client: Client) -> None:
    await create(client, "body", title="Plan")
    source = await create(client, "see [[Plan]]")

    await update(client, source, content="see nothing")
    assert (await links(client, source))["outgoing"] == []


async def test_a_title_links_within_its_namespace(client: Client) -> None:
    here = await create(client, "body", title="Plan", namespace="here")
    there = await create(client, "body", title="Plan", namespace="there")

    assert (await links(client, await create(client, "[[Plan]]", namespace="here")))["outgoing"] == [here["id"]]
    assert (await links(client, await create(client, "[[Plan]]", namespace="there")))["outgoing"] == [there["id"]]
    assert (await links(client, await create(client, "[[Plan]]", namespace="third")))["dangling"] == ["Plan"]


async def test_of_several_notes_of_a_title_the_oldest_is_linked(client: Client) -> None:
    first = await create(client, "body", title="Plan")
    second = await create(client, "other body", title="Plan")
    source = await create(client, "[[Plan]]")

    assert (await links(client, source))["outgoing"] == [first["id"]]
    await delete(client, first, soft=False)
    assert (await links(client, source))["outgoing"] == [second["id"]]


async def test_a_permanently_deleted_note_leaves_its_title_dangling(client: Client) -> None:
    target = await create(client, "body [[Source]]", title="Plan")
    source = await create(client, "see [[Plan]]", title="Source")
    await link(client, source, target)

    await delete(client, target, soft=False)
    assert await links(client, source) == {"outgoing": [], "incoming": [], "dangling": ["Plan"]}
    again = await create(client, "body", title="Plan")
    assert (await links(client, source))["outgoing"] == [again["id"]]


async def test_after_a_rename_and_a_hard_delete_the_title_links_to_its_new_owner(client: Client) -> None:
    renamed = await create(client, "body", title="Plan")
    source = await create(client, "see [[Plan]]")
    await update(client, renamed, title="Other")
    taken = await create(client, "another", title="Plan")

    await delete(client, renamed, soft=False)
    assert await links(client, source) == {"outgoing": [taken["id"]], "incoming": [], "dangling": []}


async def test_the_title_of_an_archived_note_can_be_reused(client: Client) -> None:
    archived = await create(client, "old body", title="Plan")
    source = await create(client, "see [[Plan]]")
    await delete(client, archived)

    taken = await create(client, "new body", title="Plan")
    assert (await links(client, source))["outgoing"] == [taken["id"]]
    assert await neighbors(client, source) == {"see [[Plan]]": 0, "Plan": 1}


async def test_a_title_does_not_link_to_an_archived_note_when_that_is_changed(client: Client) -> None:
    archived = await create(client, "old body", title="Plan")
    await delete(client, archived)
    source = await create(client, "see [[Plan]]")
    assert (await links(client, source))["dangling"] == ["Plan"]

    await update(client, archived, folder="elsewhere")
    assert await links(client, source) == {"outgoing": [], "incoming": [], "dangling": ["Plan"]}


async def test_a_note_that_names_itself_has_no_link_to_itself(client: Client) -> None:
    note = await create(client, "this is [[Me]]", title="Me")

    assert await links(client, note) == {"outgoing": [], "incoming": [], "dangling": []}
    assert (await call(client, "memory_neighbors", id=note["id"]))["edges"] == []


async def test_unlinking_leaves_wikilinks(client: Client) -> None:
    target = await create(client, "body", title="Plan")
    source = await create(client, "see [[Plan]]")
    await link(client, source, target)

    assert await unlink(client, source, target) == 1
    assert await unlink(client, source, target) == 0
    assert (await links(client, source))["outgoing"] == [target["id"]]


async def test_an_explicit_link_stays_when_the_body_changes(client: Client) -> None:
    target = await create(client, "body", title="Plan")
    source = await create(client, "see [[Plan]]")
    await link(client, source, target)

    await update(client, source, content="nothing")
    assert (await links(client, source))["outgoing"] == [target["id"]]


# Neighbors


async def test_neighbors_are_found_breadth_first_in_both_directions(client: Client) -> None:
    names = "root", "out", "in", "two", "three", "four"
    root, out, into, two, three, four = [await create(client, name) for name in names]
    for source, target in ((root, out), (into, root), (out, two), (three, two), (three, four), (two, root)):
        await link(client, source, target)
    await unlink(client, two, root)

    assert await neighbors(client, root) == {"root": 0, "out": 1, "in": 1}
    assert await neighbors(client, root, 2) == {"root": 0, "out": 1, "in": 1, "two": 2}
    answer = await call(client, "memory_neighbors", id=root["id"], depth=3)
    assert answer == {
        "nodes": [
            {"id": note["id"], "title": note["title"], "depth": depth}
            for note, depth in ((root, 0), (out, 1), (into, 1), (two, 2), (three, 3))
        ],
        "edges": [
            {"source_id": source["id"], "target_id": target["id"]}
            for source, target in ((root, out), (out, two), (into, root), (three, two))
        ],
        "truncated": False,
        "total": 5,
    }


async def test_a_cycle_ends_and_each_note_has_its_shortest_distance(client: Client) -> None:
    a, b, c = await create(client, "a"), await create(client, "b"), await create(client, "c")
    for source, target in ((a, b), (b, c), (c, a)):
        await link(client, source, target, bidirectional=True)

    assert await neighbors(client, a, 3) == {"a": 0, "b": 1, "c": 1}
    assert len((await call(client, "memory_neighbors", id=a["id"], depth=3))["edges"]) == 6


async def test_every_kind_of_link_is_an_edge_once(client: Client) -> None:
    target = await create(client, "body", title="Plan")
    source = await create(client, "see [[Plan]]", supersedes=[target["id"]])
    await link(client, source, target)

    answer = await call(client, "memory_neighbors", id=target["id"])
    assert answer["edges"] == [{"source_id": source["id"], "target_id": target["id"]}]
    assert await links(client, source) == {"outgoing": [target["id"]], "incoming": [], "dangling": []}


async def test_a_walk_does_not_go_through_archived_notes(client: Client) -> None:
    a, b, c = await create(client, "a"), await create(client, "b"), await create(client, "c")
    await link(client, a, b)
    await link(client, b, c)
    await delete(client, b)

    assert await neighbors(client, a, 3) == {"a": 0}


def graph(app: App, edges: list[tuple[int, int]], notes: int, title: str = "n") -> list[str]:
    """Many notes at once, with links by their numbers."""
    ids = [write(app, f"{title}{number}").id for number in range(notes)]
    with file(app).write() as tx:
        for source, target in edges:
            tx.all(
                """
                INSERT INTO note_links (source_seq, target_seq, kind, created_at)
                VALUES (:source, :target, 'link', '2030-01-01T12:00:00.000Z')
                """,
                {"source": source + 1, "target": target + 1},
            )
    return ids


@pytest.mark.parametrize("notes", [500, 501])
def test_a_walk_ends_at_five_hundred_notes_and_says_so(app: App, notes: int) -> None:
    """The root, 99 notes it links to, and those that link to one of these."""
    edges = [(0, number) for number in range(1, 100)] + [(number, 1 + number % 99) for number in range(100, notes)]
    root, *_ = graph(app, edges, notes)

    for depth in (2, 3):
        found = app.notes.reader.neighbors(CALLER, root, depth)
        assert len(found.nodes) == 500
        assert found.truncated is (notes > 500)
        assert [node.depth for node in found.nodes] == [0] + [1] * 99 + [2] * 400
        shown = {node.id for node in found.nodes}
        assert all({edge.source_id, edge.target_id} <= shown for edge in found.edges)
        assert len(found.edges) == 499


async def test_the_size_of_a_walk_is_limited(client: Client, app: App) -> None:
    """80 kB are about 20,000 tokens: beyond that an answer is cut and says so."""
    everybody = [(source, target) for source in range(60) for target in range(60) if source != target]
    root, *_ = graph(app, everybody, 60, title="a title " * 30)

    result = await client.call_tool("memory_neighbors", {"id": root})
    assert result.structured_content is not None
    assert result.structured_content["truncated"] is True
    assert len(result.content[0].text.encode()) < 100_000  # type: ignore[union-attr]  # it is a text


async def test_a_moved_note_links_in_its_new_namespace(client: Client) -> None:
    for namespace in ("one", "two"):
        await create(client, "the plan", title="Plan", namespace=namespace)
    note = await create(client, "see [[Plan]]", namespace="one")
    there = (await call(client, "memory_recent", namespace="two"))["memories"][0]["id"]

    await update(client, note, namespace="two")
    assert (await links(client, note))["outgoing"] == [there]
