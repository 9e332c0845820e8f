"""With the specification's names on, everything that a model reads uses them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client

from memory_mcp.app import App, open_app
from memory_mcp.server.protocol import McpServer
from memory_mcp.settings import load
from tests.conftest import connected

pytestmark = pytest.mark.anyio
PORTAL = "mem://tests/spec"


@pytest.fixture(scope="module", params=["spec", "plain"])
def named_app(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[App]:
    folder: Path = tmp_path_factory.mktemp("data")
    chosen = load({"data_dir": folder, "families": "portals", "portal_names": request.param}, environ={}).settings
    with open_app(chosen) as app:
        yield app


async def answer(client: Client, tool: str, **arguments: object) -> str:
    return json.dumps((await client.call_tool(tool, arguments)).structured_content)


async def test_descriptions_errors_notices_and_instructions_use_the_listed_names(named_app: App, era: str) -> None:
    in_spec = named_app.settings.portal_names == "spec"
    server = McpServer(named_app)
    async with connected(server, mode=era) as client:
        offers = (await client.list_tools()).tools
        texts = {
            "instructions": str(client.instructions),
            "descriptions": " ".join(f"{tool.name} {tool.description}" for tool in offers),
            "unknown portal": await answer(client, "memory/query", portalUri="mem://no/where", sql="SELECT 1"),
            "address": await answer(client, "portal_query", portalUri="mem://no/where/t", sql="SELECT 1"),
        }
        await answer(client, "memory/write", portalUri=PORTAL, table="t", data=[{"a": 1}])
        texts["notice"] = await answer(
            client, "portal_query", portalUri=PORTAL, sql="SELECT number FROM numbers(100000)", format="arrays"
        )
        texts["statement"] = await answer(client, "portal_query", portalUri=PORTAL, sql="DESCRIBE t")
    for where, text in texts.items():
        assert bool(re.search(r"\bmemory/(write|query|view|export)\b", text)) == in_spec, where
        assert bool(re.search(r"\bportal_(write|query|view|export)\b", text)) != in_spec, where


async def test_titles_are_distinct_and_descriptions_start_with_what_the_family_is_for(client: Client) -> None:
    offers = (await client.list_tools()).tools
    assert len({tool.title for tool in offers}) == len(offers)
    assert all(str(tool.description).startswith("Tables: ") for tool in offers)
