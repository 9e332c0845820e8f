"""MCP: one server object for every transport and every protocol version.

Versions before 2026-07-28 begin with a handshake (`initialize`), which makes a connection with a state. Later ones have
none: each request stands alone (`sdk.is_modern`).
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.caller import Scope
from memory_mcp.changes import KEYS_TOPIC, Change
from memory_mcp.clock import new_id
from memory_mcp.errors import AppError, NotFound
from memory_mcp.families.family import Call, Family, Prompt, ResourcePage, Tool, bad_cursor
from memory_mcp.server import arguments, error_encoding, request_context, resource_pages, results, schemas, sdk
from memory_mcp.server.call_runner import CallRunner
from memory_mcp.server.connected_clients import ConnectedClients, disconnect_refused
from memory_mcp.server.open_sessions import OpenSessions
from memory_mcp.server.request_memory import body_of
from memory_mcp.server.sdk import ReadStream, RequestContext, WriteStream
from memory_mcp.server.subscriptions import Listeners
from memory_mcp.server.thread_pools import Pools
from memory_mcp.server.tool_calls import FinishedCall, ToolCalls
from memory_mcp.server.tool_list import ToolList
from memory_mcp.services.sessions import Connection
from memory_mcp.text.invisible_characters import show

MAX_COMPLETIONS = 100  # the protocol's bound


class _Server(Server[Any]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """With list_changed announced: the HTTP session manager gives no options."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(True, True, True),
            experimental_capabilities,
            extensions,
        )


class McpServer:
    """Every request of an MCP client. The families decide; this speaks the protocol."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.listeners = Listeners(app.settings.max_user_streams)
        self.connected = ConnectedClients(app.clients)
        self.tool_calls = ToolCalls(app.families, app.access.audit, app.changes, repeats_lost=app.postgres is not None)
        self.tool_calls.on_call.append(_count(app))
        self.end_session: Callable[[str], None] = lambda session_id: None  # of Streamable HTTP with a handshake
        self._tools = ToolList(app.families, in_spec=app.settings.portal_names == "spec")
        self.pools = Pools.from_settings(app.settings)
        self.open_sessions = OpenSessions(
            max_per_user=app.settings.max_user_sessions, max_total=app.settings.max_sessions
        )
        self._runner = CallRunner(app, self.pools)
        self.cancel_calls = self._runner.cancel_all
        self.cut_off_writes = self._runner.cut_off_writes
        self.server = self._build()
        self.server.extensions[EXTENSION_ID] = {"mimeTypes": [APP_MIME_TYPE]}
        self.server.middleware[:] = [self._register_client]

    def _build(self) -> Server[Any]:
        return _Server(
            "memory-mcp",
            version=__version__,
            title="Memory",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=self.listen,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_completion=self.complete,
            get_tool_input_schema=self._input_schema,
        )

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        return self._tools.input_schema(name)

    def tool(self, name: object) -> Tool | None:
        return self._tools.get(name) if isinstance(name, str) else None

    async def serve(
        self,
        client: request_context.StreamClient,
        read: ReadStream[SessionMessage | Exception],
        write: WriteStream[SessionMessage],
        *,
        is_handed_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Serve one client over a pair of streams until it leaves, then end its sessions, unless it goes on at the next
        server."""
        try:
            await serve_dual_era_loop(self.server, read, write, lifespan_state=client)
        finally:
            end = self.app.sessions.hand_over if is_handed_over() else self.app.sessions.close
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(end, client.connection)

    def start_notifications(self) -> None:
        """Send changes to clients from now on, also those other servers make. Call inside the event loop."""
        notify = self.listeners.thread_safe_notify()
        self.app.changes.listen(notify)

        def receive(change: Change) -> None:
            if KEYS_TOPIC in change.topics:
                self.app.access.keys.forget(change.user)
                disconnect_refused(self.app.clients, self.app.access.keys)
            notify(change)

        self.app.peers.listen(receive, self.app.clients.disconnect_unwanted)

    # Tools

    async def list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        _no_cursor(params)
        caller = request_context.caller(ctx)
        return types.ListToolsResult(tools=self._tools.listed(caller, shows_apps=client_supports_apps(ctx)))

    async def call_tool(self, ctx: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        caller = request_context.caller(ctx)
        tool = self._tools.get(params.name)
        if tool is None or tool.family not in caller.families:
            raise error_encoding.rpc_error(NotFound(f"Unknown tool: {params.name}"))
        try:
            async with request_context.order(ctx).enter(is_barrier=tool.changes_session):
                return await self._runner.run(
                    ctx, tool.family, self._answer, tool, params.arguments, reads=tool.reads_only
                )
        except AppError as exc:
            return error_encoding.tool_result(self.app.families[tool.family], self._tools.names.in_error(exc))
        except Exception:  # noqa: BLE001  # the boundary: a bug is logged in full, and the client sees no details
            return error_encoding.tool_result(self.app.families[tool.family], error_encoding.log_bug(tool.name))

    def _answer(self, call: Call[Any], tool: Tool, given: Mapping[str, Any] | None) -> types.CallToolResult:
        """A tool call from its raw arguments to its result, all of it in a thread: both may be long."""
        answer = self._tools.names.in_answer(self.tool_calls.run(call, tool, given))
        return results.result(tool, answer, call.caller, given)

    # Resources

    async def list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        async def list_part(family: Family[Any], cursor: str | None, limit: int) -> ResourcePage:
            return await self._runner.run(ctx, family.name, family.list_resources, cursor, limit)

        with error_encoding.rpc_errors("resources/list"):
            return await resource_pages.fill(self._readable(ctx), params.cursor if params else None, list_part)

    async def list_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _no_cursor(params)
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=template.uri_template,
                    name=template.name,
                    description=template.description,
                    mime_type=template.mime_type,
                )
                for family in self._readable(ctx)
                for template in family.templates
            ]
        )

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with error_encoding.rpc_errors("resources/read"):
            return await self._read(ctx, params.uri)

    async def _read(self, ctx: RequestContext, uri: str) -> types.ReadResourceResult:
        request_context.caller(ctx).require(Scope.READ)
        try:
            family = self._family_of(ctx, uri)
            document = await self._runner.run(ctx, family.name, family.read_resource, uri)
        except AppError as exc:
            self._tools.names.in_error(exc).data.setdefault("uri", uri)
            raise
        contents = types.TextResourceContents(
            uri=document.uri,
            text=results.document_text(document),
            mime_type=document.mime_type,
            _meta=dict(document.meta) or None,
        )
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, ctx: RequestContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        with error_encoding.rpc_errors("resources/subscribe"):
            self.listeners.subscribe(sdk.connection(ctx), await self._subscription_uri(ctx, params.uri), params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: RequestContext, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        with error_encoding.rpc_errors("resources/unsubscribe"):
            self.listeners.unsubscribe(sdk.connection(ctx), params.uri)
        return types.EmptyResult()

    async def listen(
        self, ctx: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        with error_encoding.rpc_errors("subscriptions/listen"):
            caller = request_context.caller(ctx)
            caller.require(Scope.READ)
            session = request_context.session(ctx, self.app.sessions)
            uris = [await self._subscription_uri(ctx, uri) for uri in params.notifications.resource_subscriptions or []]
        honoured = params.notifications.model_copy(update={"resource_subscriptions": uris or None})
        handler = self.listeners.of(caller).handler
        with (
            self.app.sessions.track_stream(session),
            anyio.CancelScope() as until_closed,
            self.listeners.register_stream(caller.user, until_closed.cancel),
            self.connected.call_on_close(session.connection, until_closed.cancel),
        ):
            return await handler(ctx, params.model_copy(update={"notifications": honoured}))
        return types.SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    async def _subscription_uri(self, ctx: RequestContext, uri: str) -> str:
        """The address under which a resource's changes are published. Raises NotFound, as reading would."""
        request_context.caller(ctx).require(Scope.READ)
        family = self._family_of(ctx, uri)
        address = await self._runner.run(ctx, family.name, family.subscription_uri, uri)
        if address is None:
            raise _no_such_resource(uri)
        return address

    # Prompts and completions

    async def list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        _no_cursor(params)
        scopes = request_context.caller(ctx).scopes
        offers = [
            schemas.listed_prompt(prompt)
            for family in self._readable(ctx)
            for prompt in family.prompts
            if prompt.needs <= scopes
        ]
        return types.ListPromptsResult(prompts=offers)

    async def get_prompt(self, ctx: RequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        with error_encoding.rpc_errors("prompts/get"):
            family, prompt = self._prompt(ctx, params.name)
            text = await self._runner.run(ctx, family, _write_prompt, prompt, params.arguments)
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=show(text)))
        return types.GetPromptResult(description=prompt.description, messages=[message])

    def _prompt(self, ctx: RequestContext, name: str) -> tuple[str, Prompt]:
        """With the name of its family."""
        request_context.caller(ctx).require(Scope.READ)
        for family in self._readable(ctx):
            for prompt in family.prompts:
                if prompt.name == name:
                    for scope in prompt.needs:
                        request_context.caller(ctx).require(scope)
                    return family.name, prompt
        raise NotFound(f"Unknown prompt: {name}")

    async def complete(self, ctx: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        with error_encoding.rpc_errors("completion/complete"):
            return await self._complete(ctx, params)

    async def _complete(self, ctx: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        found: list[str] = []
        for family in self._readable(ctx):
            if _completes(family, params.ref):
                found += await self._runner.run(
                    ctx, family.name, family.complete, params.argument.name, params.argument.value
                )
        return types.CompleteResult(
            completion=types.Completion(values=found[:MAX_COMPLETIONS], has_more=len(found) > MAX_COMPLETIONS)
        )

    # Callers

    def _readable(self, ctx: RequestContext) -> list[Family[Any]]:
        caller = request_context.caller(ctx)
        if Scope.READ not in caller.scopes:
            return []
        return [family for name, family in self.app.families.items() if name in caller.families]

    def _family_of(self, ctx: RequestContext, uri: str) -> Family[Any]:
        for family in self._readable(ctx):
            if uri.startswith(family.uri_prefixes):
                return family
        raise _no_such_resource(uri)

    async def _register_client(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Middleware: register a client at its handshake, count one without a handshake as connected, and translate the
        SDK's errors about parameters."""
        if sdk.is_modern(ctx) and ctx.request is not None:
            with suppress(AppError):
                self.app.sessions.touch(
                    request_context.caller(ctx).user, request_context.session(ctx, self.app.sessions)
                )
        self._count_call(ctx)
        request_context.use_permit_of_stream(ctx)
        body = body_of(ctx.request.scope) if ctx.request is not None else None
        with error_encoding.parameter_errors(), body.hold() if body else nullcontext():
            answer = await call_next(ctx)
        if ctx.method == "initialize" and not sdk.is_modern(ctx):
            self._register_handshake(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(answer, dict):
            return answer | {"instructions": self._tools.instructions(request_context.caller(ctx))}
        return answer

    def _count_call(self, ctx: RequestContext) -> None:
        if ctx.request_id is None or (
            request_context.CONNECTION not in sdk.connection(ctx).state and not sdk.is_modern(ctx)
        ):
            return  # a notification, or a request before the handshake
        if isinstance(ctx.lifespan_context, request_context.StreamClient):
            self.open_sessions.touch(ctx.lifespan_context.connection.id)
        self.connected.count_call(
            request_context.caller(ctx),
            request_context.connection_of(ctx, self.app.sessions),
            request_context.client_info(ctx),
            request_context.transport(ctx),
            ctx.protocol_version,
        )

    def _register_handshake(self, ctx: RequestContext) -> None:
        wire, caller = sdk.connection(ctx), request_context.caller(ctx)
        if request_context.CONNECTION in wire.state:
            return  # a second handshake of the same client
        if isinstance(ctx.lifespan_context, request_context.StreamClient):
            connection = ctx.lifespan_context.connection
        else:
            connection = Connection(caller.user, new_id())
            wire.exit_stack.push_async_callback(anyio.to_thread.run_sync, self.app.sessions.close, connection)
            if wire.session_id:
                self.open_sessions.add(wire.session_id, caller.user, partial(self.end_session, wire.session_id))
                wire.exit_stack.callback(self.open_sessions.remove, wire.session_id)
                on_close = self.connected.call_on_close(connection, partial(self.end_session, wire.session_id))
                wire.exit_stack.enter_context(on_close)
        # The SDK's models drop unknown fields; the raw handshake still has them.
        client_info = (ctx.params or {}).get("clientInfo")
        connection.announced_session = request_context.announced_session(client_info)
        connection.client = request_context.client_name(client_info)
        wire.state[request_context.CONNECTION] = connection
        wire.state[request_context.CLIENT_INFO] = client_info
        self.listeners.add(caller, wire)
        wire.exit_stack.callback(self.listeners.remove, wire)
        wire.exit_stack.callback(self.connected.flush_soon)
        self._count_call(ctx)


def _completes(family: Family[Any], ref: types.ResourceTemplateReference | types.PromptReference) -> bool:
    if isinstance(ref, types.PromptReference):
        return any(prompt.name == ref.name for prompt in family.prompts)
    return any(template.uri_template == ref.uri for template in family.templates)


def _no_such_resource(uri: str) -> NotFound:
    return NotFound("No resource has this address.", hint="resources/list shows what there is.", uri=uri)


def _write_prompt(call: Call[Any], prompt: Prompt, given: Mapping[str, str] | None) -> str:
    return prompt.write(call, arguments.parse_prompt(prompt, given))


def _no_cursor(params: types.PaginatedRequestParams | None) -> None:
    """For lists that fit on one page."""
    if params is not None and params.cursor is not None:
        raise error_encoding.rpc_error(bad_cursor())


def _count(app: App) -> Callable[[FinishedCall], None]:
    return lambda called: app.analytics.count(called.user, is_error=called.error is not None)
