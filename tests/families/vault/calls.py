"""Short ways to call the vault's tools in tests."""

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and check that its text says the same as its structured content."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error
    assert isinstance(result.structured_content, dict)
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def commit(client: Client, key: str, content: str = "something", scope: str = "vault", **more: Any) -> None:
    answer = await call(client, "commit_memory", scope=scope, key=key, content=content, **more)
    assert answer == {"committed": True, "key": key, "scope": scope}


async def search(client: Client, query: str, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await call(client, "search_memories", query=query, **more))["results"]
    assert all(0 <= hit["relevance"] <= 1 for hit in found)
    assert found == sorted(found, key=lambda hit: -hit["relevance"])
    return found


async def found_keys(client: Client, query: str, **more: Any) -> list[str]:
    return [hit["key"] for hit in await search(client, query, **more)]


async def refusal(client: Client, tool: str, **arguments: Any) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await client.call_tool(tool, arguments)
    return caught.value


async def read(client: Client, uri: str) -> Any:
    result = await client.read_resource(uri)
    return json.loads(result.contents[0].text)  # type: ignore[union-attr]
