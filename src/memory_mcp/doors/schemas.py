"""Tools as clients see them, with JSON Schemas small and plain enough for every client and model."""

from typing import Any

import mcp_types as types

from memory_mcp.families import Prompt, Tool


def offer(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool),
        output_schema=output_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
        _meta=dict(tool.meta),
    )


def prompt_offer(prompt: Prompt) -> types.Prompt:
    return types.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            types.PromptArgument(name=argument.name, description=argument.description, required=argument.required)
            for argument in prompt.arguments
        ],
    )


def input_schema(tool: Tool) -> dict[str, Any]:
    return _plain(tool.arguments.model_json_schema())


def output_schema(tool: Tool) -> dict[str, Any]:
    return _plain(tool.answers.json_schema(mode="serialization"))


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", {})
    plain: dict[str, Any] = _simplified(schema, definitions)
    return plain


def _simplified(node: Any, definitions: dict[str, Any]) -> Any:
    """Without generated titles, references and 'or null': an absent argument is left out, not null."""
    if isinstance(node, list):
        return [_simplified(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _simplified(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    node = dict(node)
    options = node.get("anyOf", [])
    if {"type": "null"} in options and len(options) == 2:
        node |= next(option for option in options if option != {"type": "null"})
        del node["anyOf"]
    if node.get("default", 0) is None:
        del node["default"]
    return {
        name: {key: _simplified(value, definitions) for key, value in part.items()}
        if name == "properties"
        else _simplified(part, definitions)
        for name, part in node.items()
        if not (name == "title" and isinstance(part, str))
    }
