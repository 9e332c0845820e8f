"""The server that the conformance suite is run against: our own server, with the fixtures the suite calls by name.

Everything a client reaches here is ours (HTTP application, middleware, sessions, listeners, families) but for what
the product has no use of: sampling, elicitation, logging, prompts and the like are added by FixtureDoor. For tests
only: `python -m tests.compatibility.profile --port 0 --data-dir DIR` serves on loopback and asks for no key.
"""

import argparse
import sys
import warnings
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPDeprecationWarning

from memory_mcp import logs, settings
from memory_mcp.app import App, open_app
from memory_mcp.families.family import OpenFamily
from memory_mcp.server import http, http_server, request_context, startup_message
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.sdk import RequestContext
from tests.compatibility import fixture_prompts, fixture_tools
from tests.compatibility.fixture_family import STATIC_BINARY, fixtures
from tests.compatibility.fixture_prompts import PROMPTS
from tests.compatibility.fixture_tools import TOOLS, FixtureCall


class FixtureServer(McpServer):
    """Our server and the suite's fixtures. Calls of other tools are unchanged."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        # What a client brings back from a round must be what it was given.
        self.server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=None))

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        return TOOLS[name].offer.input_schema if name in TOOLS else super()._input_schema(name)

    def _build(self) -> Server[Any]:
        server = super()._build()
        server.add_request_handler("tools/call", types.CallToolRequestParams, self.call_tool_or_fixture)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self.get_prompt_or_fixture)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self.set_level)
        return server

    async def list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        ours = await super().list_tools(ctx, params)
        return types.ListToolsResult(tools=[*ours.tools, *(tool.offer for tool in TOOLS.values())])

    async def call_tool_or_fixture(
        self, ctx: RequestContext, params: types.CallToolRequestParams
    ) -> fixture_tools.Answer:
        if params.name not in TOOLS:
            return await self.call_tool(ctx, params)
        # The listeners of this user, as the server finds them. The product's lists of tools and prompts never change,
        # so only here is there anything to say.
        publish = self.listeners.of(request_context.caller(ctx))._bus.publish
        call = FixtureCall(ctx, params.arguments or {}, params.input_responses or {}, params.request_state, publish)
        return await TOOLS[params.name].run(call)

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if params.uri != STATIC_BINARY:
            return await super().read_resource(ctx, params)
        picture = types.BlobResourceContents(uri=params.uri, mime_type="image/png", blob=fixture_tools.PIXEL)
        return types.ReadResourceResult(contents=[picture])

    async def list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        ours = await super().list_prompts(ctx, params)
        return types.ListPromptsResult(prompts=[*ours.prompts, *(prompt.offer for prompt in PROMPTS.values())])

    async def get_prompt_or_fixture(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> fixture_prompts.Answer:
        if params.name not in PROMPTS:
            return await self.get_prompt(ctx, params)
        return PROMPTS[params.name].get(params)

    async def set_level(self, ctx: RequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()


def run(port: int, data_dir: str) -> None:
    """Serve until a signal arrives, as `memory-mcp serve --transport http --auth none` does."""
    chosen = settings.load(
        {"transport": "http", "port": port, "data_dir": data_dir, "auth": "none", "log_level": "warning"}, environ={}
    ).settings
    logs.configure(chosen.log_level)
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # the suite still asks for logging and sampling
    with open_app(chosen) as product:
        # First, so that the first tool in the list takes no arguments: one scenario calls whatever comes first.
        app = replace(
            product,
            families={fixtures.name: fixtures, **product.families},
            opened={**product.opened, fixtures.name: OpenFamily(fixtures, None)},
        )
        listening = http_server.bind(chosen)
        sys.stdout.write(startup_message.text(chosen, listening.getsockname()[1], None, None))
        sys.stdout.flush()
        server = http.HttpServer(app, FixtureServer(app))
        http_server.Server(http_server.config(server.app, chosen), server.close_streams).run(sockets=[listening])


def main() -> None:
    flags = argparse.ArgumentParser(prog="python -m tests.compatibility.profile", description=__doc__)
    flags.add_argument("--port", type=int, default=0, help="0 takes a free one, which is printed.")
    flags.add_argument("--data-dir", required=True)
    arguments = flags.parse_args()
    run(arguments.port, arguments.data_dir)


if __name__ == "__main__":
    main()
