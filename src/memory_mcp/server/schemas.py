"""Tools as clients see them, with JSON Schemas small and plain enough for every client and model."""

from collections.abc import Collection
from typing import Any

import mcp_types as types

from memory_mcp.families.family import Prompt, Tool

BRIEF_OUTPUT = {"type": "object"}
"""Every model reads the whole list of tools, in each conversation. docs/tools.md has the fields of each answer."""


def listed_tool(tool: Tool, name: str, description: str) -> types.Tool:
    """Under this name, with this description."""
    return types.Tool(
        name=name,
        title=tool.title,
        description=description,
        input_schema=listed_input(tool),
        output_schema=output_schema(tool) if tool.spells_out_answers else BRIEF_OUTPUT,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.changes_nothing,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
        _meta=dict(tool.meta),
    )


def listed_prompt(prompt: Prompt) -> types.Prompt:
    return types.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            types.PromptArgument(name=argument.name, description=argument.description, required=argument.required)
            for argument in prompt.arguments
        ],
    )


def listed_input(tool: Tool) -> dict[str, Any]:
    return brief(input_schema(tool), _ALWAYS_OMITTED if tool.spells_out_bounds else _OMITTED)


def input_schema(tool: Tool) -> dict[str, Any]:
    return _plain(tool.arguments.model_json_schema())


# An object whose fields are listed has no others; one without a list takes any.
_ALWAYS_OMITTED: list[tuple[str, Any]] = [
    *(("additionalProperties", False), ("additionalProperties", True)),
    *(("maximum", 1_000_000), ("maximum", 10**12)),  # no caller gets there
    *(("maxItems", count) for count in (5, 50, 64)),
    *(("default", 0), ("minimum", 0)),  # an offset starts there; also False
    *(("maxLength", length) for length in (4000, 4096, 10_000, 65_536, 1024 * 1024)),  # no caller gets there
]
_OMITTED = [*_ALWAYS_OMITTED, ("minLength", 1), ("minItems", 1)]


def brief(schema: dict[str, Any], implied: list[tuple[str, Any]] = _OMITTED) -> dict[str, Any]:
    """An input schema without the obvious: that nothing may be empty or unknown, that a flag is off by default, and
    limits that no caller reaches. How long one text of a list may be is left out, too.

    It is still checked, and docs/tools.md says so.
    """
    return {
        name: {field: brief(part, implied) for field, part in value.items()}
        if name == "properties"
        else brief(_without_length(value) if name == "items" else value, implied)
        if isinstance(value, dict)
        else value
        for name, value in schema.items()
        if (name, value) not in implied
    }


def _without_length(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "maxLength"}


def output_schema(tool: Tool) -> dict[str, Any]:
    return _plain(tool.answers.json_schema(mode="serialization"))


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", {})
    plain: dict[str, Any] = _simplified(schema, definitions)
    return plain


def _simplified(node: Any, definitions: dict[str, Any], *, required: bool = False) -> Any:
    """Without generated titles and references, and without 'or null' where an absent value is left out."""
    if isinstance(node, list):
        return [_simplified(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _simplified(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    node = dict(node)
    options = node.get("anyOf", [])
    if {"type": "null"} in options and len(options) == 2:
        [other] = [_simplified(option, definitions) for option in options if option != {"type": "null"}]
        node |= other | ({"type": [other["type"], "null"]} if required else {})
        del node["anyOf"]
    if node.get("default", 0) in (None, "", [], {}):  # which is what leaving it out means
        del node["default"]
    if "x-default" in node:  # unless the specification wrote it down
        node["default"] = node.pop("x-default")
    return {
        name: _properties(part, node.get("required", ()), definitions)
        if name == "properties"
        else _simplified(part, definitions, required=name == "items")  # an item cannot be left out
        for name, part in node.items()
        if not (name == "title" and isinstance(part, str))
    }


def _properties(fields: dict[str, Any], required: Collection[str], definitions: dict[str, Any]) -> dict[str, Any]:
    return {name: _simplified(field, definitions, required=name in required) for name, field in fields.items()}
