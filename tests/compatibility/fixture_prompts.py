"""Fixture prompts of the conformance suite. The server itself has none."""

from collections.abc import Callable
from dataclasses import dataclass

import mcp_types as types

from tests.compatibility.fixture_tools import ask, ask_context, embedded, image, text

Answer = types.GetPromptResult | types.InputRequiredResult


@dataclass(frozen=True)
class FixturePrompt:
    offer: types.Prompt
    get: Callable[[types.GetPromptRequestParams], Answer]


def _user_message(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


def _with_arguments(params: types.GetPromptRequestParams) -> Answer:
    given = params.arguments or {}
    return _user_message(text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"))


def _with_resource(params: types.GetPromptRequestParams) -> Answer:
    uri = (params.arguments or {}).get("resourceUri", "test://example-resource")
    resource = embedded(uri, "text/plain", "Embedded resource content for testing.")
    return _user_message(resource, text("Please process the embedded resource above."))


def _with_input(params: types.GetPromptRequestParams) -> Answer:
    response = (params.input_responses or {}).get("user_context")
    if not isinstance(response, types.ElicitResult):
        return ask(user_context=ask_context())
    return _user_message(text(f"Work in this context: {(response.content or {}).get('context')}"))


def _offer(name: str, description: str, *arguments: str) -> types.Prompt:
    taken = [types.PromptArgument(name=argument, description=argument, required=True) for argument in arguments]
    return types.Prompt(name=name, description=description, arguments=taken)


_ALL = (
    FixturePrompt(
        _offer("test_simple_prompt", "A text."),
        lambda params: _user_message(text("This is a simple prompt for testing.")),
    ),
    FixturePrompt(_offer("test_prompt_with_arguments", "Two arguments.", "arg1", "arg2"), _with_arguments),
    FixturePrompt(_offer("test_prompt_with_embedded_resource", "A resource.", "resourceUri"), _with_resource),
    FixturePrompt(
        _offer("test_prompt_with_image", "An image."),
        lambda params: _user_message(image(), text("Please analyze the image above.")),
    ),
    FixturePrompt(_offer("test_input_required_result_prompt", "Asks for its context first."), _with_input),
)

PROMPTS = {prompt.offer.name: prompt for prompt in _ALL}
