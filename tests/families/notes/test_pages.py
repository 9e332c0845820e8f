"""Lists of notes that are longer than one answer: each says so, says how many there are, and can be paged through."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.families.notes.model import Author, NewNote
from tests.families.notes.calls import CALLER
from tests.wire import Stdio

LINKED = 510
TAGS = 1355
NAMESPACES = 1100
LONG = "n" * 100  # so that namespaces are too long for one answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    data_dir = tmp_path_factory.mktemp("pages")
    fill(data_dir)
    process = Stdio.start(data_dir, "--families", "notes", "--embedder", "none")
    yield process
    process.close()


def fill(data_dir: Path) -> None:
    """A note that many others name, many tags, many namespaces; written at once, as that takes a second."""
    loaded = settings.load(
        {"data_dir": data_dir, "families": "notes", "embedder": "none", "durability": "normal"}, environ={}
    )
    dangling = " ".join(f"[[missing {number}]]" for number in range(LINKED))
    with open_app(loaded.settings, serving=False) as app:
        new = [NewNote(f"hub {dangling}", title="Hub")]
        new += [NewNote(f"walnut {number} [[Hub]]", tags=("linked",)) for number in range(LINKED)]
        tags = [f"tag{number}" for number in range(TAGS)]
        starts = range(0, TAGS, 50)
        new += [NewNote("x", tags=tuple(tags[start : start + 50]), namespace="tagged") for start in starts]
        new += [NewNote("x", namespace=f"{LONG}{number}") for number in range(NAMESPACES)]
        app.notes.writer.create_all(CALLER, Author("import"), new)


def hub(server: Stdio) -> str:
    return str(server.call("memory_search", query="missing", limit=1)["memories"][0]["id"])


def pages(ask: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    found = [ask(0)]
    while "next_offset" in found[-1]:
        found.append(ask(found[-1]["next_offset"]))
    return found


def test_links_of_a_note_are_counted_and_paged(server: Stdio) -> None:
    id_ = hub(server)
    found = pages(lambda offset: server.call("memory_get", id=id_, include_links=True, links_offset=offset)["links"])

    assert len(found) == 2
    assert [page["total"] for page in found] == [{"outgoing": 0, "incoming": LINKED, "dangling": LINKED}] * 2
    assert found[0]["notice"].startswith("20 more")
    assert "links_offset 500" in found[0]["notice"]
    assert "notice" not in found[1]
    assert len({link["id"] for page in found for link in page["incoming"]}) == LINKED
    assert len({title for page in found for title in page["dangling"]}) == LINKED


def test_tags_are_counted_and_paged(server: Stdio) -> None:
    found = pages(lambda offset: server.call("memory_list_tags", namespace="tagged", offset=offset))
    total = TAGS + 1  # ns/tagged

    assert [page["total"] for page in found] == [total] * len(found)
    assert found[0]["notice"] == f"{total - 1000} more would be too long to show at once. Go on with offset 1000."
    assert len({tag["tag"] for page in found for tag in page["tags"]}) == total
    assert server.call("memory_list_tags", namespace="tagged", offset=5000) == {"tags": [], "total": total}


def test_namespaces_are_counted_and_paged(server: Stdio) -> None:
    found = pages(lambda offset: server.call("memory_list_namespaces", offset=offset))
    total = NAMESPACES + 2

    assert len(found) > 1
    assert [page["total"] for page in found] == [total] * len(found)
    shown = len(found[0]["namespaces"])
    assert found[0]["notice"] == f"{total - shown} more would be too long to show at once. Go on with offset {shown}."
    assert len({one["namespace"] for page in found for one in page["namespaces"]}) == total
    assert "memory_list_namespaces" in server.call("memory_stats")["notice"]


def test_recent_notes_are_counted_and_paged(server: Stdio) -> None:
    def ask(offset: int) -> dict[str, Any]:
        return server.call("memory_recent", namespace="default", limit=100, offset=offset)

    found = pages(ask)
    assert [page["total"] for page in found] == [LINKED + 1] * 6
    assert len({note["id"] for page in found for note in page["memories"]}) == LINKED + 1
    assert all("notice" not in page for page in found)  # as many as were asked for


def test_filtered_notes_are_counted_and_paged(server: Stdio) -> None:
    found = pages(lambda offset: server.call("memory_search", tags=["linked"], limit=100, offset=offset))
    assert [page["total"] for page in found] == [LINKED] * 6
    assert len({hit["id"] for page in found for hit in page["memories"]}) == LINKED


def test_a_search_is_paged_in_one_order(server: Stdio) -> None:
    whole = server.call("memory_search", query="walnut", limit=60)
    parts = [server.call("memory_search", query="walnut", limit=20, offset=offset) for offset in (0, 20, 40)]
    assert [part["next_offset"] for part in parts] == [20, 40, 60]
    assert [hit for part in parts for hit in part["memories"]] == whole["memories"]
    assert "total" not in whole


def test_neighbors_are_counted_and_paged_with_every_link(server: Stdio) -> None:
    id_ = hub(server)
    found = pages(lambda offset: server.call("memory_neighbors", id=id_, depth=2, offset=offset))

    assert len(found) == 2
    assert [page["truncated"] for page in found] == [True, False]
    assert [page["total"] for page in found] == [LINKED + 1] * 2
    assert len({node["id"] for page in found for node in page["nodes"]}) == LINKED + 1
    edges = [(edge["source_id"], edge["target_id"]) for page in found for edge in page["edges"]]
    assert len(edges) == len(set(edges)) == LINKED


@pytest.mark.parametrize("address", ["memory://namespace/default", "memory://tag/linked", "memory://recent"])
def test_resources_show_the_total_and_the_next_page(server: Stdio, address: str) -> None:
    uri: str | None = address
    ids: list[str] = []
    meta: dict[str, Any] = {}
    while uri and len(ids) < LINKED:
        contents = server.ask("resources/read", {"uri": uri})["result"]["contents"][0]
        meta = contents["_meta"]
        ids += [note["id"] for note in server.read(uri)]
        uri = meta.get("memory-mcp/next")
    assert len(ids) == len(set(ids))
    expected = {"memory://namespace/default": LINKED + 1, "memory://tag/linked": LINKED}
    assert meta["memory-mcp/total"] == expected.get(address, meta["memory-mcp/total"])
    assert len(ids) >= LINKED
    refused = server.ask("resources/read", {"uri": f"{address}?limit=0"})["error"]
    assert refused["data"]["error"] == "invalid"


def test_the_resource_of_a_note_pages_its_links(server: Stdio) -> None:
    address = f"memory://note/{hub(server)}"
    contents = server.ask("resources/read", {"uri": address})["result"]["contents"][0]
    following = contents["_meta"]["memory-mcp/next"]
    assert following == f"{address}?offset=500"
    first, rest = server.read(address)["links"], server.read(following)["links"]
    assert first["total"] == rest["total"]
    assert len({link["id"] for link in (*first["incoming"], *rest["incoming"])}) == LINKED


def test_the_list_of_resources_has_every_namespace(server: Stdio) -> None:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while not any(uri.startswith("memory://note/") for uri in found):
        page = server.ask("resources/list", cursor)["result"]
        found += [resource["uri"] for resource in page["resources"]]
        cursor = {"cursor": page["nextCursor"]}
    assert len({uri for uri in found if uri.startswith("memory://namespace/")}) == NAMESPACES + 2


def test_completion_finds_any_namespace(server: Stdio) -> None:
    """Also one of those that were changed first."""
    ref = {"type": "ref/prompt", "name": "organize"}
    params = {"ref": ref, "argument": {"name": "namespace", "value": f"{LONG.upper()}7"}}
    found = server.ask("completion/complete", params)["result"]["completion"]
    assert f"{LONG}7" in found["values"]
    assert found["hasMore"] is True
