"""How the answer of a tool is sent to an MCP client."""

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from memory_mcp.caller import Caller, Scope
from memory_mcp.families.family import Document, Tool
from memory_mcp.text.invisible_characters import escape_in_json, show


def result(tool: Tool, answer: Any, caller: Caller, given: Mapping[str, Any] | None) -> types.CallToolResult:
    """Models read the text, in which no character is invisible; programs the structured content, which is exact."""
    structured = shown(tool, answer, caller, given)
    if is_narrowed(tool, caller):
        texts = [escape_in_json(json.dumps(structured, ensure_ascii=False))]
    else:
        text = escape_in_json(tool.answers.dump_json(answer, by_alias=True).decode())
        texts = [text, show(tool.summary(answer))] if tool.summary else [text]
    content = [types.TextContent(type="text", text=one) for one in texts]
    return types.CallToolResult(content=[*content], structured_content=structured)


def document_text(document: Document) -> str:
    """The text of a resource. In JSON no character is invisible; any other text is exact."""
    return escape_in_json(document.text) if document.mime_type.endswith(("/json", "+json")) else document.text


def text_bytes(message: object) -> int:
    """About how many bytes an answer takes up: most of them are texts, which also come as structured content."""
    result = getattr(message, "result", None)
    parts = [*result.get("content", ()), *result.get("contents", ())] if isinstance(result, dict) else []
    return 2 * sum(len(part.get("text", "")) for part in parts)


def shown(tool: Tool, answer: Any, caller: Caller, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """An answer as this caller may see it: one who may not read gets what they sent, and what the tool declares."""
    structured: dict[str, Any] = tool.answers.dump_python(answer, mode="json", by_alias=True)
    if not is_narrowed(tool, caller):
        return structured
    sent, declared = given or {}, tool.without_read or ()
    return {
        name: value for name, value in structured.items() if name in declared or (name in sent and sent[name] == value)
    }


def is_narrowed(tool: Tool, caller: Caller) -> bool:
    return tool.without_read is not None and Scope.READ not in caller.scopes
