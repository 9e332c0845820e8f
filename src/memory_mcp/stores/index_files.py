"""index.yaml: what a category holds, for people and other programs. We never read our own: files are the truth."""

import json
import re
from collections.abc import Iterable
from typing import Literal

from memory_mcp.stores import yaml_text
from memory_mcp.stores.model import Summed

MARK = "# Made by Memory MCP from the files beside it. Changes made here are lost."
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2030-\ud7ff\uf900-\ufdcf\U00010000-\U0001fffd]")

_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes one for each text


def render(memories: Iterable[Summed], subcategories: Iterable[str]) -> str:
    lines = [MARK, "memories:"]
    for one in memories:
        lines += [
            f"  - path: {_quoted(one.path)}",
            f"    token_estimate: {one.token_estimate}",
            f"    summary: {_quoted(one.summary)}",
            f"    updated_at: {_quoted(one.updated_at) if one.updated_at else 'null'}",
        ]
    if lines[-1] == "memories:":
        lines[-1] = "memories: []"
    folders = [f"  - {_quoted(path)}" for path in subcategories]
    lines += ["subcategories:", *folders] if folders else ["subcategories: []"]
    return "\n".join(lines) + "\n"


def is_ours(text: str) -> bool:
    """Whether an index.yaml is one of ours, also broken by hand or by a merge."""
    return MARK in text


def whose(text: str) -> Literal["ours", "somebody's", "nobody's"]:
    """Whose an index.yaml is: one of this shape is ours, one about something else is left alone, one that is no YAML
    is set aside."""
    if is_ours(text):
        return "ours"
    try:
        found = yaml_text.load(text)
    except yaml_text.NotYaml:
        return "nobody's"
    is_shaped = isinstance(found, dict) and set(found) <= {"memories", "subcategories"}
    return "ours" if is_shaped or not found else "somebody's"


def _quoted(text: str) -> str:
    """A JSON string is a YAML string, once what YAML cannot print is escaped."""
    return _NOT_PRINTABLE.sub(lambda found: f"\\U{ord(found[0]):08x}", _json(text))
