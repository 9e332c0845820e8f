"""What the SDK costs by itself: one tool that does nothing, over stdio. Every ratio is over this."""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOL = "nothing"


async def list_tools(
    _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=TOOL, input_schema={"type": "object"})])


async def call_tool(_: ServerRequestContext[Any, Any], __: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[])


async def main() -> None:
    server: Server[Any] = Server("empty", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
