"""A memory's file: YAML front matter between two lines of dashes, and the body. Text in, text out."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_mcp.clock import instant, last_instant, short_stamp
from memory_mcp.errors import Conflict
from memory_mcp.families.stores import yaml_text
from memory_mcp.families.stores.model import Metadata

_SPLIT = re.compile(r"\A(\ufeff?---[ \t]*(\r?\n))((?:.*\n)*?)(---[ \t]*(?:\r?\n|\Z))")
# Names of the same fields in other programs: Obsidian's plugins, basic-memory, static site generators.
_CREATED = ("created_at", "created", "date")
_UPDATED = ("updated_at", "updated", "modified")
_SUMMARY = ("summary", "description", "title")
MAX_SUMMARY_CHARS = 120


@dataclass(frozen=True)
class File:
    """The parts of a file's text. Joined, they give the same text."""

    opening: str  # the first line of dashes; empty without front matter
    front: str
    closing: str
    body: str
    fields: Mapping[str, Any]
    is_broken: bool = False  # it looks as if it had front matter, which is not YAML

    @property
    def content(self) -> str:
        """The body as an agent wrote it: without the blank line above it and the line end below."""
        body = re.sub(r"\A\r?\n", "", self.body) if self.opening else self.body
        return re.sub(r"\r?\n\Z", "", body)

    @property
    def metadata(self) -> Metadata:
        return Metadata(
            created_at=_moment(self.fields, _CREATED),
            updated_at=_moment(self.fields, _UPDATED),
            tags=_texts(self.fields.get("tags")),
            source=_text(self.fields.get("source")),
            expires_at=_moment(self.fields, ("expires_at",), last_instant),
            citations=_texts(self.fields.get("citations"), split=False),
        )

    @property
    def summary(self) -> str:
        summary = next(filter(None, (_text(self.fields.get(name)) for name in _SUMMARY)), None)
        return _first_line(summary or self.content)

    @property
    def token_estimate(self) -> int:
        return -(-len(self.content) // 4)


def parse(text: str) -> File:
    """Any text is a memory. Front matter that is not a YAML mapping is part of the body."""
    found = _SPLIT.match(text)
    fields = _fields(found[3]) if found else None
    if found is None or fields is None:
        return File("", "", "", text.removeprefix("\ufeff"), {}, is_broken=found is not None)
    return File(found[1], found[3], found[4], text[found.end() :], fields)


def _fields(front: str) -> Mapping[str, Any] | None:
    try:
        fields = yaml_text.load(front)
    except yaml_text.NotYaml:
        return None
    return fields if isinstance(fields, dict) else {} if fields in (None, "") else None


def new(metadata: Metadata, content: str) -> str:
    """The text of a new memory: keys in a fixed order, one line end at the end."""
    return rewritten(File("---\n", "", "---\n", "\n", {}), _values(metadata), content)


def _values(metadata: Metadata) -> dict[str, Any]:
    values = {key: value for key, value in vars(metadata).items() if value not in (None, [])}
    return {"created_at": None, "updated_at": None, "tags": [], **values}


def rewritten(file: File, values: Mapping[str, Any], content: str | None) -> str:
    """The text with these front matter values and this content instead: all else stays as it is.

    None as a value removes its key. Raises Conflict for front matter that cannot be changed.
    """
    if file.is_broken:
        raise _broken()
    end = "\r\n" if "\r\n" in (file.opening or file.body) else "\n"
    try:
        front = yaml_text.with_values(file.front, values, end)
    except yaml_text.NotYaml as exc:
        raise _broken() from exc
    opening, closing = file.opening or f"---{end}", file.closing or f"---{end}"
    if not closing.endswith("\n"):
        closing += end
    if content is None:
        body = file.body if file.opening else f"{end}{file.body}"
    else:
        lead = re.match(r"(?:\r?\n)?", file.body)[0] if file.opening else end  # type: ignore[index]  # it matches
        if content.startswith(
            ("\r", "\n")
        ):  # otherwise its own first line end would be taken for the blank line above it
            lead = lead or end
        text = content.rstrip("\r\n")
        body = lead + (re.sub(r"\r?\n", end, text) if end == "\r\n" else text) + end
    return opening + front + closing + body


def dated(text: str, changed_at: str) -> str:
    """The text of an imported file, with the time of its last change added if it states none."""
    file = parse(text)
    metadata = file.metadata
    given = {"created_at": metadata.created_at, "updated_at": metadata.updated_at}
    missing = {key: changed_at for key, value in given.items() if value is None}
    if file.is_broken or not missing:
        return text
    try:
        return rewritten(file, missing, None)
    except Conflict:
        return text


def is_same_memory(here: str, text: str) -> bool:
    """Whether a memory is this file of another program, apart from the times that the import has added."""
    if here == text:
        return True
    one, other = parse(here), parse(text)
    added = {"created_at", "updated_at"} - other.fields.keys()
    kept = {key: value for key, value in one.fields.items() if key not in added}
    return one.content == other.content and kept == other.fields


def _broken() -> Conflict:
    return Conflict("The front matter of this file is not YAML that can be changed. Fix the file by hand first.")


def _moment(fields: Mapping[str, Any], names: tuple[str, ...], read: Callable[[str], datetime] = instant) -> str | None:
    """The first of these fields that is a time, in UTC."""
    for name in names:
        text = _text(fields.get(name))
        if text is not None:
            try:
                return short_stamp(read(text))
            except ValueError:
                continue
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object, *, split: bool = True) -> list[str]:
    """A list of texts; one text with commas or spaces in it, as people write tags, is one too."""
    if isinstance(value, str):
        value = re.split(r"[,\s]+", value) if split else [value]
    if not isinstance(value, list):
        return []
    return [text for one in value if (text := _text(one))]


def _first_line(text: str) -> str:
    for line in text.splitlines():
        words = " ".join(re.sub(r"^[\s#>*+-]+", "", line).split())
        if words:
            return words if len(words) <= MAX_SUMMARY_CHARS else words[: MAX_SUMMARY_CHARS - 1].rstrip() + "…"
    return ""
