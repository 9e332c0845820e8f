"""Reads and edits YAML of any author: every scalar is read as text, and deep nesting is refused."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

_NULL = {"", "~", "null", "Null", "NULL"}
# Characters that YAML does not allow unescaped.
_NOT_PLAIN = re.compile("[^\\x20-\\x7e\\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes one for each text
_Base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(_Base):  # type: ignore[misc]  # which of the two it is, is known when it runs
    """Reads every scalar as text, so that `yes` is not True and no date loses its zone; an empty value is None."""

    def construct_scalar(self, node: Any) -> Any:
        return None if not node.style and node.value in _NULL else node.value

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        found = super().construct_mapping(node, deep)
        if None in found:  # keys are texts, even `null`
            names = [key.value for key, _ in node.value if not key.style and key.value in _NULL]
            found[names[-1]] = found.pop(None)
        return found


MAX_LEVELS = 100  # the C loader uses stack space for each, and thousands crash the process


class NotYaml(ValueError):
    """The text is not YAML, or not YAML that can be read."""


def load(text: str) -> Any:
    """Nothing but texts, None, lists and dicts. Raises NotYaml."""
    return _tried(yaml.load, text)


def with_values(text: str, values: Mapping[str, Any], end: str = "\n") -> str:
    """A mapping's text with these texts and lists of texts at its top: lines are replaced, removed (None) or put at the
    end, and every other line stays to the byte. Raises NotYaml for a text that nothing can be put into.
    """
    if text and not text.endswith("\n"):
        text += end
    entries = _entries(text)
    margin = "" if re.search(r"^- ", text, re.MULTILINE) else "  "
    last = {entry.key: number for number, entry in enumerate(entries)}
    pieces = [text[: len(text) - sum(len(entry.lines) for entry in entries)]]
    for number, entry in enumerate(entries):
        if entry.key not in values:
            pieces.append(entry.lines)
            continue
        if last[entry.key] == number:
            pieces.append(_lines(entry, values[entry.key], margin, end))
        pieces.append(_trailing(entry.lines))
    pieces += [_lines(_Entry(key), value, margin, end) for key, value in values.items() if key not in last]
    changed = "".join(pieces)
    if not _reads_as(changed, values):
        raise NotYaml
    return changed


@dataclass(frozen=True)
class _Entry:
    """A key at the top and its lines, up to the next."""

    key: str
    lines: str = ""
    is_flow: bool = False  # its value is a list in brackets
    comment: str = ""  # behind its value, or behind the key of a list
    inner: tuple[str, ...] = ()  # lines between the items of a list that are comments


def _entries(text: str) -> list[_Entry]:
    """Raises NotYaml if the keys do not stand on lines of their own."""
    top = _tried(yaml.compose, text)
    if not isinstance(top, yaml.MappingNode):
        return []
    if top.flow_style or top.start_mark.column:
        raise NotYaml
    starts = [text.rfind("\n", 0, key.start_mark.index) + 1 for key, _ in top.value]
    stops = [*starts[1:], len(text)]
    return [
        _entry(key, value, text, start, stop)
        for (key, value), start, stop in zip(top.value, starts, stops, strict=True)
    ]


def _entry(key: Any, value: Any, text: str, start: int, stop: int) -> _Entry:
    is_block = isinstance(value, yaml.SequenceNode) and not value.flow_style
    behind = text[(key if is_block else value).end_mark.index : stop].partition("\n")[0].rstrip("\r")
    found = re.search(r"(?:^|[\s:])(\s*#.*)", behind)
    inside = text[key.end_mark.index : value.end_mark.index].splitlines()[1:] if is_block else ()
    return _Entry(
        key=key.value if isinstance(key.value, str) else "",
        lines=text[start:stop],
        is_flow=isinstance(value, yaml.SequenceNode) and bool(value.flow_style),
        comment=f" {found[1].strip()}" if found else "",
        inner=tuple(line for line in inside if line.strip().startswith("#")),
    )


def _trailing(entry: str) -> str:
    """The blank lines and comments below an entry: they belong to what follows."""
    lines = entry.splitlines(keepends=True)
    first = len(lines)
    while first > 1 and (not lines[first - 1].strip() or lines[first - 1].startswith("#")):
        first -= 1
    return "".join(lines[first:])


def _lines(entry: _Entry, value: Any, margin: str, end: str) -> str:
    """A key with another value, and the comments it had."""
    key = _scalar(entry.key)
    if value is None:
        return ""
    if isinstance(value, str):
        return f"{key}: {_scalar(value)}{entry.comment}{end}"
    if entry.is_flow or not value:
        return f"{key}: [{', '.join(_scalar(one, in_brackets=True) for one in value)}]{entry.comment}{end}"
    items = [*entry.inner, *(f"{margin}- {_scalar(one)}" for one in value)]
    return f"{key}:{entry.comment}{end}" + "".join(f"{line}{end}" for line in items)


def _scalar(text: str, *, in_brackets: bool = False) -> str:
    """A text on one line, in quotes where YAML would take it for something else."""
    if _NOT_PLAIN.search(text):
        return quoted(text)
    written: str = yaml.dump(
        [text] if in_brackets else {"k": text},
        Dumper=yaml.SafeDumper,  # the one in C escapes emoji
        allow_unicode=True,
        width=1_000_000,
        default_flow_style=in_brackets,
    )
    return written.rstrip("\n")[1:-1] if in_brackets else written.removeprefix("k: ").rstrip("\n")


def quoted(text: str) -> str:
    """A JSON string is a YAML string, once what YAML cannot have is escaped."""
    return _NOT_PLAIN.sub(lambda found: f"\\U{ord(found[0]):08x}", _json(text))


def _reads_as(text: str, values: Mapping[str, Any]) -> bool:
    fields = load(text) or {}
    return isinstance(fields, dict) and all(fields.get(key) == value for key, value in values.items())


def _tried(read: Any, text: str) -> Any:
    try:
        _check_depth(text)
        return read(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise NotYaml from exc


def _check_depth(text: str) -> None:
    if sum(map(text.count, "[{-?:")) <= MAX_LEVELS:  # every level takes one of these
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_LEVELS:
            raise NotYaml
