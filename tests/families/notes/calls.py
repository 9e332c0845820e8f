"""Short ways to call the notes' tools in tests."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import Implementation, ResourceListChangedNotification, ResourceUpdatedNotification

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.transactions import UserDatabase
from memory_mcp.families.notes.model import Author, NewNote, Note
from memory_mcp.server.protocol import McpServer
from tests.conftest import Clock, connected
from tests.events import TIMEOUT_S

NOON = "2030-01-01T12:00:00.000Z"
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
HIT = {
    "namespace",
    "created_at",
    "updated_at",
    "id",
    "title",
    "snippet",
    "tags",
    "importance",
    "last_referenced_at",
    "score",
    "score_breakdown",
}
LIST_CHANGED = "the list"


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and check that its text says the same as its structured content."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, str(result.content)[:500]
    assert isinstance(result.structured_content, dict)
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a call that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, str(result.structured_content)[:500]
    assert isinstance(result.structured_content, dict)
    assert set(result.structured_content) == {"error", "message", "data"}
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def create(client: Client, content: str = "something", **more: Any) -> dict[str, Any]:
    return await call(client, "memory_create", content=content, **more)


async def create_alone(client: Client, clock: Clock, content: str, **more: Any) -> dict[str, Any]:
    """A note an hour after the last, without context."""
    clock.now += timedelta(hours=1)
    return await create(client, content, **more)


async def update(client: Client, note: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return await call(client, "memory_update", id=note["id"], **changes)


async def get(client: Client, note: dict[str, Any], **more: Any) -> dict[str, Any]:
    return await call(client, "memory_get", id=note["id"], **more)


async def delete(client: Client, note: dict[str, Any], **more: Any) -> dict[str, Any]:
    return await call(client, "memory_delete", id=note["id"], **more)


async def links(client: Client, note: dict[str, Any]) -> dict[str, Any]:
    """Outgoing and incoming as ids, dangling as titles."""
    found = (await get(client, note, include_links=True))["links"]
    ends = {way: [end["id"] for end in found[way]] for way in ("outgoing", "incoming")}
    return ends | {"dangling": found["dangling"]}


async def search(client: Client, query: str = "", **more: Any) -> list[dict[str, Any]]:
    """The hits, each of which is checked."""
    hits: list[dict[str, Any]] = (await call(client, "memory_search", query=query, **more))["memories"]
    for hit in hits:
        assert set(hit) - {"superseded_by", "origin"} == HIT
        assert hit["score"] == score(hit["score_breakdown"])
        assert len(hit["snippet"].encode()) <= 900  # 800, and marks of what is left out
    assert len({hit["id"] for hit in hits}) == len(hits)
    return hits


async def found(client: Client, query: str = "", **more: Any) -> list[str]:
    """The titles of what is found."""
    return [hit["title"] for hit in await search(client, query, **more)]


async def recent(client: Client, **more: Any) -> list[str]:
    return [note["title"] for note in (await call(client, "memory_recent", **more))["memories"]]


def score(parts: dict[str, float | None]) -> float:
    """The spec's formula; the weight of a missing part goes to the others."""
    weights = {"cosine": 0.55, "lexical": 0.35, "importance": 0.10}
    assert set(parts) == set(weights)
    known = {name: part for name, part in parts.items() if part is not None}
    assert all(0 <= part <= 1 for part in known.values())
    return round(sum(weights[name] * part for name, part in known.items()) / sum(weights[name] for name in known), 6)


async def read(client: Client, uri: str) -> Any:
    result = await client.read_resource(uri)
    assert result.contents[0].mime_type == "application/json"
    return json.loads(result.contents[0].text)  # type: ignore[union-attr]


def named(name: str) -> dict[str, Any]:
    """A client that calls itself so, for `connected`."""
    return {"client_info": Implementation(name=name, version="1")}


def write(app: App, content: str, *, author: Author | None = None, **more: Any) -> Note:
    """Write a note without a client, for tests that need many."""
    return app.notes.writer.create(CALLER, author or Author(), NewNote(content, **more))


def file(app: App) -> UserDatabase:
    """The file itself, for what no tool shows."""
    return app.notes._files.of(LOCAL_USER).db


class ChangeListener:
    """The changes that a client was notified of."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self._arrived = anyio.Event()

    def add(self, what: str) -> None:
        self.received.append(what)
        self._arrived.set()
        self._arrived = anyio.Event()

    async def until(self, *wanted: str) -> set[str]:
        """Wait for notifications of all of these. Returns everything received since the last time."""
        with anyio.fail_after(TIMEOUT_S):
            while not set(wanted) <= set(self.received):
                await self._arrived.wait()
        received, self.received = set(self.received), []
        return received


@asynccontextmanager
async def listen_to_changes(mcp_server: McpServer, era: str, uris: Sequence[str]) -> AsyncIterator[ChangeListener]:
    """A new client that subscribes to some addresses and the list, in the way of its era."""
    listener = ChangeListener()

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            listener.add(message.params.uri)
        elif isinstance(message, ResourceListChangedNotification):
            listener.add(LIST_CHANGED)

    async with connected(mcp_server, mode=era, message_handler=on_message) as client:
        if era == "legacy":
            for uri in uris:
                with pytest.warns(MCPDeprecationWarning):
                    await client.subscribe_resource(uri)
            yield listener
            return
        async with (
            client.listen(resources_list_changed=True, resource_subscriptions=uris) as subscription,
            anyio.create_task_group() as tasks,
        ):

            async def listen() -> None:
                async for event in subscription:
                    listener.add(event.uri if isinstance(event, ResourceUpdated) else LIST_CHANGED)

            tasks.start_soon(listen)
            yield listener
            tasks.cancel_scope.cancel()
