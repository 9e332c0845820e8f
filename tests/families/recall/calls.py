"""Short ways to call recall in tests."""

from typing import Any
from urllib.parse import unquote

from mcp import Client

from tests.events import eventually
from tests.families.notes.calls import call
from tests.families.notes.calls import read as read_resource
from tests.wire import Stdio

FAMILIES = ["vault", "notes", "stores", "graph", "portals"]
WHY = {"its words", "its meaning", "its words and its meaning", "its time"}
PORTAL = "mem://tests/talk"


async def recall(client: Client, query: str, **more: Any) -> dict[str, Any]:
    """An answer that keeps the promises every answer makes."""
    return checked(await call(client, "recall_memories", query=query, **more))


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    assert set(answer) - {"notice", "searched_span"} == {"hits", "searched", "incomplete"}
    for hit in answer["hits"]:
        facts = {"created_at", "updated_at"}
        assert (
            set(hit) - {"namespace", "source", "origin"}
            == {"family", "ref", "title", "snippet", "score", "why"} | facts
        )
        assert hit["family"] in answer["searched"]
        assert 0 <= hit["score"] <= 1
        assert hit["why"] in WHY
        assert hit["title"]
        assert len(hit["snippet"].encode()) <= 810
        assert len(hit["title"]) <= 80
    assert answer["searched"] == [family for family in FAMILIES if family in answer["searched"]]
    assert all(set(one) == {"family", "error"} for one in answer["incomplete"])
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
    return answer


async def hits(client: Client, query: str, **more: Any) -> list[dict[str, Any]]:
    """What a search finds that must be complete."""
    answer = await recall(client, query, **more)
    assert answer["incomplete"] == []
    found: list[dict[str, Any]] = answer["hits"]
    return found


async def refs(client: Client, query: str, **more: Any) -> list[str]:
    return [hit["ref"] for hit in await hits(client, query, **more)]


async def write_everywhere(
    client: Client, content: str, name: str = "one", *, portals: bool = False, **tags: Any
) -> dict[str, str]:
    """The same text in each family; by family, the ref it must be found by. An engine takes a second to start, so
    portals take part where a test is about them."""
    await call(client, "commit_memory", scope="vault", key=name, content=content, **tags)
    note = await call(client, "memory_create", content=content, **tags)
    await call(client, "add_memory", store="diary", path=f"days/{name}", content=content, **tags)
    if not (await call(client, "list_projects"))["projects"]:
        await call(client, "create_project", name="house")
    entity = {"name": name, "entity_type": "thing", "observations": [content]}
    await call(client, "create_entities", project="house", entities=[entity])
    if portals:
        row = {"role": "user", "content": content}
        await call(client, "portal_write", portalUri=PORTAL, table="turns", data=[row])
    return {
        "vault": f"memory://vault/{name}",
        "notes": f"memory://note/{note['id']}",
        "stores": f"stores:diary/days/{name}",
        "graph": f"graph:house/{name}",
        **({"portals": f"{PORTAL}/turns"} if portals else {}),
    }


async def opened(client: Client, ref: str) -> str:
    """What a ref opens, as text, by the tool or request that the docs name."""
    kind, _, rest = ref.partition(":")
    place, _, name = rest.partition("/")
    if kind == "stores":
        return str(await call(client, "get_memory", store=place, path=unquote(name)))
    if kind == "graph":
        found = await call(client, "open_nodes", project=place, names=[unquote(name)])
        assert len(found["entities"]) == 1
        return str(found)
    return str(await read_resource(client, ref))


def ask(server: Stdio, query: str, **more: Any) -> list[dict[str, Any]]:
    """What a server of its own finds when it has indexed everything."""

    def whole() -> dict[str, Any] | None:
        answer = checked(server.call("recall_memories", query=query, **more))
        return None if answer["incomplete"] else answer

    found: list[dict[str, Any]] = eventually(whole)["hits"]
    return found
