"""One visit by an old client: everything an agent does with the vault, once. Prints the protocol version spoken.

Runs in the environments that old_clients.py makes, so it uses only what mcp 1.8 to 1.30 have in common.

    python script.py NAME stdio COMMAND [ARGUMENT ...]
    MEMORY_KEY=... python script.py NAME http|sse URL
"""

# mypy: ignore-errors
# Written for mcp 1.x; the checker sees the mcp 2 that the server uses, which has other names.

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

TOOLS = {"commit_memory", "search_memories", "prune_memory", "set_session_id"}
TEMPLATES = {"memory://vault{?offset,limit}", "memory://vault/{key}", "memory://session/{session_id}"}
NO_FILTER = "Bulk vault prune requires at least one filter."


async def main(name: str, transport: str, *target: str) -> None:
    async with connected(transport, *target) as client:
        hello = await client.initialize()
        equal(hello.protocolVersion, types.LATEST_PROTOCOL_VERSION)  # ours to choose, the server's to follow
        await client.send_ping()
        await look_around(client)
        await keep_in_the_vault(client, name)
        await keep_in_the_session(client, name)
        await be_refused(client)
        await move_to_a_named_session(client, name)
    print(hello.protocolVersion)


@asynccontextmanager
async def connected(transport: str, *target: str) -> AsyncIterator[ClientSession]:
    if transport == "stdio":
        streams = stdio_client(StdioServerParameters(command=target[0], args=list(target[1:])))
    else:
        open_streams = {"http": streamablehttp_client, "sse": sse_client}[transport]
        streams = open_streams(target[0], headers={"Authorization": f"Bearer {os.environ['MEMORY_KEY']}"})
    async with streams as (read, write, *_), ClientSession(read, write) as client:
        yield client


async def look_around(client: ClientSession) -> None:
    equal(TOOLS - {tool.name for tool in (await client.list_tools()).tools}, set())
    offered = (await client.list_resource_templates()).resourceTemplates
    equal(TEMPLATES - {template.uriTemplate for template in offered}, set())
    equal({prompt.name for prompt in (await client.list_prompts()).prompts}, {"recall", "distill", "organize"})


async def keep_in_the_vault(client: ClientSession, name: str) -> None:
    key, content = f"vault/{name}", f"The vault remembers {name} für immer."
    committed = await call(client, "commit_memory", scope="vault", key=key, content=content, tags=[name])
    equal(committed, {"committed": True, "key": key, "scope": "vault"})
    found = await call(client, "search_memories", query="remembers", scope="vault", tags=[name])
    equal([hit["content"] for hit in found["results"]], [content])
    equal((await read(client, await listed(client, key)))["content"], content)
    template = types.ResourceReference(type="ref/resource", uri="memory://vault/{key}")
    answer = await client.complete(template, {"name": "key", "value": key[:-1]})
    equal(key in answer.completion.values, True)


async def keep_in_the_session(client: ClientSession, name: str) -> None:
    content = f"The session remembers {name}."
    committed = await call(client, "commit_memory", scope="session", key="now", content=content)
    equal(committed, {"committed": True, "key": "now", "scope": "session"})
    found = await call(client, "search_memories", query="remembers", scope="session")
    equal([hit["content"] for hit in found["results"]], [content])
    kept = await read(client, await listed(client, "session"))
    equal([(memory["key"], memory["content"]) for memory in kept], [("now", content)])


async def be_refused(client: ClientSession) -> None:
    refused = await error(client.call_tool("prune_memory", {"scope": "vault"}))
    equal((refused.code, refused.message), (types.INVALID_PARAMS, NO_FILTER))
    unknown = await error(client.call_tool("no_such_tool", {}))
    equal(unknown.code, types.INVALID_PARAMS)
    missing = await error(client.read_resource(AnyUrl("memory://vault/no-such-key")))
    equal(missing.code, types.INVALID_PARAMS)


async def move_to_a_named_session(client: ClientSession, name: str) -> None:
    equal(await call(client, "set_session_id", session_id=name), {"session_id": name})
    uri = await listed(client, "session")
    equal(str(uri), f"memory://session/{name}")
    equal(await read(client, uri), [])


async def call(client: ClientSession, tool: str, **arguments: object) -> dict:
    answer = await client.call_tool(tool, arguments)
    equal(answer.isError, False)
    return json.loads(answer.content[0].text)


async def read(client: ClientSession, uri: AnyUrl) -> dict | list:
    return json.loads((await client.read_resource(uri)).contents[0].text)


async def listed(client: ClientSession, name: str) -> AnyUrl:
    """The address of a resource, as resources/list gives it."""
    return next(item.uri for item in (await client.list_resources()).resources if item.name == name)


async def error(answer: Awaitable[object]) -> types.ErrorData:
    try:
        got = await answer
    except McpError as exc:
        return exc.error
    raise AssertionError(f"this was to be refused, but was answered: {got!r}")


def equal(got: object, wanted: object) -> None:
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
