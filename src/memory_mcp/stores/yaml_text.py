"""YAML that anybody may have written: every scalar as the text it is, and nothing nested too deep to be read."""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

# No `yes` that becomes True, no date that loses its zone.
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
DEEPEST = 100  # levels; the C loader takes a piece of the stack for each, and thousands end the process


class NotYaml(ValueError):
    """The text is no YAML, or none that can be read."""


def load(text: str) -> Any:
    """Nothing but texts, lists and dicts. Raises NotYaml."""
    return _tried(yaml.load, text)


def with_values(text: str, values: Mapping[str, Any], end: str = "\n") -> str:
    """A mapping's text with these texts and lists of texts at its top: lines are replaced, removed (None) or put at the
    end, and every other line stays to the byte. Raises NotYaml for a text that nothing can be put into.
    """
    if text and not text.endswith("\n"):
        text += end
    entries = _entries(text)
    at_margin = re.search(r"^- ", text, re.MULTILINE) is not None
    lines = {key: _lines(key, value, end, at_margin=at_margin) for key, value in values.items()}
    last = {key: number for number, (key, _) in enumerate(entries)}
    pieces = [text[: len(text) - sum(len(entry) for _, entry in entries)]]
    for number, (key, entry) in enumerate(entries):
        if key not in lines:
            pieces.append(entry)
            continue
        if last[key] == number:
            pieces.append(lines[key])
        pieces.append(_trailing(entry))
    pieces += [new for key, new in lines.items() if key not in last]
    changed = "".join(pieces)
    if not _reads_as(changed, values):
        raise NotYaml
    return changed


def _entries(text: str) -> list[tuple[str, str]]:
    """The keys at the top and the lines of each, up to the next. Raises NotYaml if they do not stand on lines."""
    top = _tried(yaml.compose, text)
    if not isinstance(top, yaml.MappingNode):
        return []
    if top.flow_style or top.start_mark.column:
        raise NotYaml
    starts = [text.rfind("\n", 0, key.start_mark.index) + 1 for key, _ in top.value]
    entries = [text[start:stop] for start, stop in zip(starts, [*starts[1:], len(text)], strict=True)]
    keys = [key.value if isinstance(key.value, str) else "" for key, _ in top.value]
    return list(zip(keys, entries, strict=True))


def _trailing(entry: str) -> str:
    """The blank lines and comments below an entry: they belong to what follows."""
    lines = entry.splitlines(keepends=True)
    first = len(lines)
    while first > 1 and (not lines[first - 1].strip() or lines[first - 1].startswith("#")):
        first -= 1
    return "".join(lines[first:])


def _lines(key: str, value: Any, end: str, *, at_margin: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"{_scalar(key)}: {_scalar(value)}{end}"
    items = [f"{'' if at_margin else '  '}- {_scalar(one)}{end}" for one in value]
    return f"{_scalar(key)}:{end}{''.join(items)}" if items else f"{_scalar(key)}: []{end}"


def _scalar(text: str) -> str:
    """A text on one line, in quotes where YAML would take it for something else."""
    if not text.isprintable():
        return re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", json.dumps(text, ensure_ascii=False))
    written: str = yaml.dump(text, Dumper=_Dumper, allow_unicode=True, width=1_000_000)
    return written.removesuffix("...\n").rstrip("\n")


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
    if sum(map(text.count, "[{-?:")) <= DEEPEST:  # every level takes one of these
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise NotYaml
