"""index.yaml: the contents of a category, for people and other programs. This server never reads its own."""

from collections.abc import Iterable
from typing import Literal

from memory_mcp.families.stores import yaml_text
from memory_mcp.families.stores.model import MemorySummary
from memory_mcp.families.stores.yaml_text import quoted

MARK = "# Made by Memory MCP from the files beside it. Changes made here are lost."


def render(memories: Iterable[MemorySummary], subcategories: Iterable[str]) -> str:
    lines = [MARK, "memories:"]
    for one in memories:
        lines += [
            f"  - path: {quoted(one.path)}",
            f"    token_estimate: {one.token_estimate}",
            f"    summary: {quoted(one.summary)}",
            f"    updated_at: {quoted(one.updated_at) if one.updated_at else 'null'}",
        ]
    if lines[-1] == "memories:":
        lines[-1] = "memories: []"
    folders = [f"  - {quoted(path)}" for path in subcategories]
    lines += ["subcategories:", *folders] if folders else ["subcategories: []"]
    return "\n".join(lines) + "\n"


def is_ours(text: str) -> bool:
    """Whether an index.yaml is one of ours, also broken by hand or by a merge."""
    return MARK in text


def author(text: str) -> Literal["ours", "other", "unknown"]:
    """Whose an index.yaml is: a blank one and one of this shape are ours, one about something else is left
    unchanged, one that is not YAML is renamed."""
    if is_ours(text) or not text.strip():
        return "ours"
    try:
        found = yaml_text.load(text)
    except yaml_text.NotYaml:
        return "unknown"
    is_shaped = isinstance(found, dict) and set(found) == {"memories", "subcategories"}
    return "ours" if is_shaped else "other"
