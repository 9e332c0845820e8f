"""Every tool's schema is a committed file, so that a changed contract is a visible diff.

To accept a change: delete the file, run this test, commit what it wrote.
"""

import json
import re
from pathlib import Path

import pytest
from mcp import Client

from memory_mcp.caller import Scope
from memory_mcp.families.registry import FAMILIES, select
from memory_mcp.server.tool_list import ToolList

SCHEMAS = Path(__file__).parents[1] / "tool_schemas"

pytestmark = pytest.mark.anyio


async def test_tool_schemas_are_the_ones_we_published(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert {path.stem for path in SCHEMAS.glob("*.json")} - {tool.name for tool in tools} == set()
    for tool in tools:
        published = SCHEMAS / f"{tool.name}.json"
        current = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        if not published.exists():
            published.write_text(json.dumps(current, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        assert json.loads(published.read_text(encoding="utf-8")) == current


async def test_every_tool_is_described_whole(client: Client) -> None:
    for tool in (await client.list_tools()).tools:
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,39}", tool.name)
        assert tool.title
        assert tool.description
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
        assert None not in (
            tool.annotations.read_only_hint,
            tool.annotations.destructive_hint,
            tool.annotations.idempotent_hint,
        )
        assert tool.meta is not None
        assert tool.meta["family"] in FAMILIES
        assert tool.meta["scope"] in set(Scope)
        if tool.meta["family"] == "vault":
            assert tool.meta["capability"] in ("SearchMemory", "CommitMemory", "PruneMemory")


async def test_the_whole_list_stays_small(client: Client) -> None:
    """Under 9,000 tokens of o200k_base in the end: as it goes over the wire, 4.1 characters were a token in 2026."""
    tools = (await client.list_tools()).tools
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    assert len(json.dumps(listed, separators=(",", ":"))) / 4 < 9_000


def test_the_list_of_notes_with_recall_is_smaller() -> None:
    """2,494 tokens in November 2026."""
    _, tokens = ToolList(select(FAMILIES, ("notes", "recall")), in_spec=False).size()
    assert tokens < 2_500


async def test_recall_comes_first(client: Client) -> None:
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert names[:3] == ["recall_memories", "recall_open", "recall_overview"]
