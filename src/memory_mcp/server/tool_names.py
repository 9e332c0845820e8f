"""Tools in texts for models, by the names that tools/list has."""

import re
from collections.abc import Iterable
from dataclasses import is_dataclass, replace
from typing import TypeVar

from memory_mcp.errors import AppError
from memory_mcp.families.family import Tool

A = TypeVar("A")


class ToolNames:
    """With `in_spec`, tools have the names of their specifications, in texts too."""

    def __init__(self, tools: Iterable[Tool], *, in_spec: bool) -> None:
        self._listed = {tool.name: tool.spec_name for tool in tools if in_spec and tool.spec_name}
        self._pattern = re.compile(rf"\b({'|'.join(self._listed)})\b")

    def listed(self, tool: Tool) -> str:
        return self._listed.get(tool.name, tool.name)

    def in_text(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._listed[found[0]], text) if self._listed else text

    def in_error(self, error: AppError) -> AppError:
        error.message, error.hint = self.in_text(error.message), self.in_text(error.hint)
        return error

    def in_answer(self, answer: A) -> A:
        """An answer whose notice names tools."""
        notice = getattr(answer, "notice", None)
        if not (self._listed and notice and is_dataclass(answer) and not isinstance(answer, type)):
            return answer
        return replace(answer, notice=self.in_text(notice))
