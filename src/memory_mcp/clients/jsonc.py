"""Edits JSON settings files in place, with comments and trailing commas.

Only the characters of the added or removed value change; comments, order and layout of the rest stay. The packages
that read such files change the layout when they write, or lose the comments.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*[\s\S]*?\*/")
_TRAILING_COMMA = re.compile(rf"{_STRING}|[\[{{,:]\s*,|,(?=\s*[}}\]])")  # the second is a mistake, and stays one
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class MalformedFile(ValueError):
    """The text is malformed; the message says where."""


@dataclass(frozen=True)
class _Member:
    key: str
    start: int
    value_start: int
    end: int
    comma: int | None  # the position of the comma after it


class _Text:
    """A text, and the same with comments replaced by spaces, so that all positions are equal."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = _COMMENT.sub(_blank, text)
        self.plain = _TRAILING_COMMA.sub(_blank, self.bare)

    def open_of(self, path: Sequence[str]) -> int | None:
        """The position of the `{` of the object at a path; None if there is no object."""
        at = self._past_space(0)
        for key in path:
            member = self.member(at, key)
            if member is None:
                return None
            at = member.value_start
        if self.plain[at : at + 1] != "{":
            raise MalformedFile(f'"{path[-1]}" should be an object, in braces')
        return at

    def member(self, opening: int, key: str) -> _Member | None:
        """The last member with that key: JSON parsers use the last one."""
        return next((member for member in reversed(self.members(opening)) if member.key == key), None)

    def members(self, opening: int) -> list[_Member]:
        found = []
        at = self._past_space(opening + 1)
        while self.plain[at] != "}":
            start = at
            key, at = _DECODER.raw_decode(self.plain, at)
            value_start = self._past_space(self._past_space(at) + 1)
            _, end = _DECODER.raw_decode(self.plain, value_start)
            after = self._past_space(end)
            has_comma = self.bare[self._past_space(end, self.bare)] == ","
            found.append(_Member(key, start, value_start, end, self._past_space(end, self.bare) if has_comma else None))
            at = self._past_space(after + 1) if self.plain[after] == "," else after
        return found

    def closing(self, opening: int) -> int:
        return _DECODER.raw_decode(self.plain, opening)[1] - 1

    def indent_at(self, position: int) -> str:
        """The white space at the start of the line."""
        line = self.text.rfind("\n", 0, position) + 1
        return re.match(r"[ \t]*", self.text[line:])[0]  # type: ignore[index]  # it always matches

    def starts_line(self, position: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, position) + 1 : position].strip("\ufeff \t")

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def unit(self) -> str:
        """One step of indentation: that of the first line that has any."""
        found = re.search(r"^[ \t]+(?=\S)", self.plain, re.MULTILINE)
        return found[0] if found else "  "

    def _past_space(self, at: int, text: str | None = None) -> int:
        return _SPACE.match(self.plain if text is None else text, at).end()  # type: ignore[union-attr]  # it always matches


def value(text: str) -> dict[str, Any]:
    """The parsed text; an empty object if there are only comments. Raises MalformedFile."""
    plain = _Text(text).plain
    if _SPACE.fullmatch(plain):
        return {}
    try:
        found = json.loads(plain)
    except json.JSONDecodeError as exc:
        raise MalformedFile(f"line {exc.lineno}, column {exc.colno}: {exc.msg}") from exc
    except RecursionError as exc:
        raise MalformedFile("it is nested too deeply") from exc
    if not isinstance(found, dict):
        raise MalformedFile("it should be an object, in braces")
    return found


def put(text: str, path: Sequence[str], new: Any) -> str:
    """The text with a value at a path. Missing objects on the path are added."""
    seen = _Text(text)
    if _SPACE.fullmatch(seen.plain):
        head = text.rstrip()
        return (head + seen.newline if head else "") + _dumped(_nested(path, new), "", seen) + seen.newline
    depth = len(path) - 1
    while (opening := seen.open_of(path[:depth])) is None:
        depth -= 1
    key, new = path[depth], _nested(path[depth + 1 :], new)
    there = seen.member(opening, key)
    if there is not None:
        is_inline = "\n" not in text[there.value_start : there.end] and not seen.starts_line(there.start)
        shown = _dumped(new, None if is_inline else seen.indent_at(there.start), seen)
        return text[: there.value_start] + shown + text[there.end :]
    return _add_member(seen, opening, key, new)


def remove(text: str, path: Sequence[str]) -> str:
    """The text without the value at a path; unchanged if there is none."""
    seen = _Text(text)
    opening = None if _SPACE.fullmatch(seen.plain) else seen.open_of(path[:-1])
    there = seen.member(opening, path[-1]) if opening is not None else None
    if opening is None or there is None:
        return text
    members = seen.members(opening)
    number = members.index(there)
    cuts = [(there.comma, there.comma + 1)] if there.comma is not None else []
    before = members[number - 1].comma if number else None
    if there.comma is None and before is not None:
        cuts.append((before, before + 1))
    start = there.start
    if seen.starts_line(start):
        start = len(text[:start].rstrip(" \t"))
        start -= 2 if text[:start].endswith("\r\n") else 1
    elif number == len(members) - 1:
        start = len(text[:start].rstrip(" \t"))
    elif text[(there.comma or 0) + 1 : (there.comma or 0) + 2] == " ":
        cuts = [(there.comma or 0, (there.comma or 0) + 2)]
    for first, last in sorted([*cuts, (start, there.end)], reverse=True):
        text = text[:first] + text[last:]
    seen = _Text(text)
    closing = seen.closing(opening)
    return text[: opening + 1] + text[closing:] if not text[opening + 1 : closing].strip() else text


def _add_member(seen: _Text, opening: int, key: str, new: Any) -> str:
    """The text with a new last member of an object, in the layout of the others."""
    text, closing, members = seen.text, seen.closing(opening), seen.members(opening)
    last = members[-1] if members else None
    # An empty object is spread over lines, unless the whole file is one line and is not empty.
    is_inline = (
        "\n" not in text[opening:closing] if last else "\n" not in text.strip() and opening > (seen.open_of(()) or 0)
    )
    if is_inline:
        shown = f"{json.dumps(key, ensure_ascii=False)}: {_dumped(new, None, seen)}"
        if last is None:
            return text[: opening + 1] + shown + text[closing:]
        end = last.end if last.comma is None else last.comma + 1
        return text[: last.end] + ("," if last.comma is None else text[last.end : end]) + " " + shown + text[end:]
    outer = seen.indent_at(opening)
    indent = seen.indent_at(last.start) if last and seen.starts_line(last.start) else outer + seen.unit
    shown = f"{json.dumps(key, ensure_ascii=False)}: {_dumped(new, indent, seen)}"
    content = text[:closing].rstrip()
    if last is not None and last.comma is None:
        content = content[: last.end] + "," + content[last.end :]
    trailing = "," if last is not None and last.comma is not None else ""
    return f"{content}{seen.newline}{indent}{shown}{trailing}{seen.newline}{outer}{text[closing:]}"


def _nested(path: Sequence[str], new: Any) -> Any:
    for key in reversed(path):
        new = {key: new}
    return new


def _dumped(new: Any, indent: str | None, seen: _Text) -> str:
    """On one line if `indent` is None, else on several lines with that indentation."""
    if indent is None:
        return json.dumps(new, ensure_ascii=False)
    return json.dumps(new, ensure_ascii=False, indent=seen.unit).replace("\n", seen.newline + indent)


def _blank(found: re.Match[str]) -> str:
    return found[0] if found[0][0] in '"[{,:' and found[0] != "," else re.sub(r"[^\r\n]", " ", found[0])
