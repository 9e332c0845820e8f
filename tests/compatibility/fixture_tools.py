"""Fixture tools for features of the protocol that no family uses: pictures, sampling, elicitation, input that is
requested in rounds. The conformance suite calls each by its name."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import mcp_types as types
from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from memory_mcp.server.sdk import RequestContext

Schema = dict[str, Any]
Answer = types.CallToolResult | types.InputRequiredResult

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="


@dataclass(frozen=True)
class FixtureCall:
    """One call of a fixture. `responses` and `state` are what the client brings back from an earlier round."""

    ctx: RequestContext
    arguments: dict[str, Any]
    responses: types.InputResponses
    state: str | None
    publish: Callable[[ToolsListChanged | PromptsListChanged], Awaitable[None]]

    def given(self, name: str) -> dict[str, Any] | None:
        """What the user filled in when asked under this name, if anything."""
        response = self.responses.get(name)
        return response.content or {} if isinstance(response, types.ElicitResult) else None

    def can(self, capability: Literal["sampling", "elicitation"]) -> bool:
        capabilities = self.ctx.session.client_capabilities
        return capabilities is not None and getattr(capabilities, capability) is not None


Fixture = Callable[[FixtureCall], Awaitable[Answer]]


@dataclass(frozen=True)
class FixtureTool:
    offer: types.Tool
    run: Fixture


TOOLS: dict[str, FixtureTool] = {}


def object_of(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def optional(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": []}


TEXT: Schema = {"type": "string"}


def tool(schema: Schema | None = None) -> Callable[[Fixture], Fixture]:
    """Offer a function as a tool, under its own name."""

    def offer(run: Fixture) -> Fixture:
        shown = types.Tool(name=run.__name__, description=run.__doc__, input_schema=schema or object_of())
        TOOLS[shown.name] = FixtureTool(shown, run)
        return run

    return offer


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(type="resource", resource=contents)


def result(*content: types.ContentBlock) -> types.CallToolResult:
    return types.CallToolResult(content=list(content))


# Kinds of content


@tool()
async def test_image_content(call: FixtureCall) -> Answer:
    """Answer with an image."""
    return result(image())


@tool()
async def test_audio_content(call: FixtureCall) -> Answer:
    """Answer with a sound."""
    return result(types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav"))


@tool()
async def test_embedded_resource(call: FixtureCall) -> Answer:
    """Answer with a resource."""
    return result(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(call: FixtureCall) -> Answer:
    """Answer with a text, an image and a resource."""
    resource = embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}')
    return result(text("Multiple content types test:"), image(), resource)


# Schemas


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}},
        },
        "properties": {
            "name": TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": TEXT,
            "email": TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(call: FixtureCall) -> Answer:
    """Has a schema with keywords of JSON Schema 2020-12."""
    return result(text("ok"))


@tool(optional(region={"type": "string", "x-mcp-header": "Region"}))
async def test_x_mcp_header(call: FixtureCall) -> Answer:
    """Takes an argument that HTTP clients repeat in a header."""
    return result(text(f"region={call.arguments.get('region')}"))


# Notifications


async def _log(call: FixtureCall, words: str) -> None:
    await call.ctx.session.send_log_message("info", words, related_request_id=call.ctx.request_id)


@tool()
async def test_tool_with_logging(call: FixtureCall) -> Answer:
    """Log three lines."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(call, words)
    return result(text("Logged three lines."))


@tool()
async def test_logging_tool(call: FixtureCall) -> Answer:
    """Log one line, which only a client that asked for logs may see."""
    await _log(call, "A log line")
    return result(text("Logged one line."))


@tool()
async def test_trigger_tool_change(call: FixtureCall) -> Answer:
    """Notify every client that the list of tools has changed."""
    await call.publish(ToolsListChanged())
    return result(text("Notified."))


@tool()
async def test_trigger_prompt_change(call: FixtureCall) -> Answer:
    """Notify every client that the list of prompts has changed."""
    await call.publish(PromptsListChanged())
    return result(text("Notified."))


# Questions to the client while a call runs, as the handshake era asks them


@tool(object_of(prompt=TEXT))
async def test_sampling(call: FixtureCall) -> Answer:
    """Let the client's model answer a prompt."""
    answer = await call.ctx.session.send_request(
        _sampling(str(call.arguments.get("prompt"))),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=call.ctx.request_id),
    )
    words = answer.content.text if isinstance(answer.content, types.TextContent) else ""
    return result(text(f"LLM response: {words}"))


async def _elicited(call: FixtureCall, message: str, schema: Schema) -> Answer:
    answer = await call.ctx.session.elicit_form(message, schema, related_request_id=call.ctx.request_id)
    content = json.dumps(answer.content or {})
    return result(text(f"Elicitation completed: action={answer.action}, content={content}"))


@tool(object_of(message=TEXT))
async def test_elicitation(call: FixtureCall) -> Answer:
    """Ask the user for a response."""
    return await _elicited(call, str(call.arguments.get("message")), object_of(response=TEXT))


@tool()
async def test_elicitation_sep1034_defaults(call: FixtureCall) -> Answer:
    """Ask the user with a form whose fields have defaults."""
    form = optional(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return await _elicited(call, "Please review and update the form fields with defaults", form)


@tool()
async def test_elicitation_sep1330_enums(call: FixtureCall) -> Answer:
    """Ask the user with a form that has every kind of choice."""
    form = optional(
        untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
        titledSingle={"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        titledMulti={"type": "array", "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}},
    )
    return await _elicited(call, "Please select options from the enum fields", form)


def _titled(*titles: str) -> list[Schema]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, start=1)]


# Input that is asked for in rounds, as the era without handshakes does it


def _question(message: str, **fields: Schema) -> types.ElicitRequest:
    form = types.ElicitRequestFormParams(message=message, requested_schema=object_of(**fields))
    return types.ElicitRequest(params=form)


def ask(request_state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=request_state)


def ask_name(message: str = "What is your name?") -> types.ElicitRequest:
    return _question(message, name=TEXT)


def ask_context() -> types.ElicitRequest:
    return _question("What context should the prompt use?", context=TEXT)


def _ask_consent() -> types.ElicitRequest:
    return _question("Please confirm", ok={"type": "boolean"})


def _sampling(prompt: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


@tool()
async def test_missing_capability(call: FixtureCall) -> Answer:
    """Refuse clients that cannot sample."""
    if not call.can("sampling"):
        data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs the sampling capability.", data)
    return result(text("The client can sample."))


@tool()
async def test_streaming_elicitation(call: FixtureCall) -> Answer:
    """Report progress, then ask: on the stream of this call only the question may follow."""
    if call.given("user_name") is None:
        await call.ctx.session.report_progress(1, 2, "Asking")
        return ask(user_name=ask_name())
    return result(text("Thank you."))


@tool()
async def test_input_required_result_elicitation(call: FixtureCall) -> Answer:
    """Ask for a name and greet it."""
    given = call.given("user_name")
    if given is None:
        return ask(user_name=ask_name())
    return result(text(f"Hello, {given.get('name')}!"))


@tool()
async def test_input_required_result_sampling(call: FixtureCall) -> Answer:
    """Ask the client's model a question."""
    if "capital_question" not in call.responses:
        return ask(capital_question=_sampling("What is the capital of France?"))
    return result(text("The model has answered."))


@tool()
async def test_input_required_result_list_roots(call: FixtureCall) -> Answer:
    """Ask for the client's roots and count them."""
    response = call.responses.get("client_roots")
    if not isinstance(response, types.ListRootsResult):
        return ask(client_roots=types.ListRootsRequest())
    return result(text(f"The client has {len(response.roots)} roots."))


@tool()
async def test_input_required_result_request_state(call: FixtureCall) -> Answer:
    """Ask with a state, and expect it back."""
    if call.given("confirm") is None or call.state != "asked":
        return ask("asked", confirm=_ask_consent())
    return result(text("state-ok"))


@tool()
async def test_input_required_result_tampered_state(call: FixtureCall) -> Answer:
    """Ask with a state that must not come back changed: the middleware refuses it before this runs."""
    if call.state is None:
        return ask("asked", confirm=_ask_consent())
    return result(text("state-ok"))


@tool()
async def test_input_required_result_multiple_inputs(call: FixtureCall) -> Answer:
    """Ask the user, the model and the client at once."""
    requests = {
        "user_name": ask_name(),
        "greeting": _sampling("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    if not requests.keys() <= call.responses.keys():
        return ask("asked", **requests)
    return result(text("All inputs received."))


@tool()
async def test_input_required_result_multi_round(call: FixtureCall) -> Answer:
    """Ask for a name, then for a colour, and keep the name in the state between the rounds."""
    if (answered := call.given("step2")) is not None and call.state is not None:
        return result(text(f"{json.loads(call.state)['name']} likes {answered.get('color')}."))
    if (answered := call.given("step1")) is not None:
        known = json.dumps({"name": answered.get("name")})
        return ask(known, step2=_question("Step 2: What is your favorite color?", color=TEXT))
    return ask("{}", step1=ask_name("Step 1: What is your name?"))


@tool()
async def test_input_required_result_capabilities(call: FixtureCall) -> Answer:
    """Ask only for what the client can do."""
    requests: dict[str, Any] = {}
    if call.can("sampling"):
        requests["sample"] = _sampling("Say hello")
    if call.can("elicitation"):
        requests["user_name"] = ask_name()
    return ask("asked", **requests)
