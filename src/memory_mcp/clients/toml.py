"""Edits TOML in place: new tables are appended, existing values are changed by tomlkit, which keeps the rest."""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from memory_mcp.clients.jsonc import MalformedFile

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def value(text: str) -> dict[str, Any]:
    """The parsed text. Raises MalformedFile."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise MalformedFile(str(exc)) from exc


def put(text: str, path: Sequence[str], new: Any) -> str:
    """The text with a value at a path. Missing tables on the path are added."""
    if isinstance(new, dict) and len(path) == 2 and path[-1] not in _table(value(text), path[:-1]):
        appended = _append_table(text, path, new)
        with suppress(tomllib.TOMLDecodeError):  # a table on the path is an inline table
            tomllib.loads(appended)
            return appended
    with _edit(text) as document:
        _table(document, path[:-1])[path[-1]] = _inline(new) if isinstance(new, dict) else new
        return _with_line_ends_of(text, document.as_string())


def remove(text: str, path: Sequence[str]) -> str:
    """The text without the value at a path; unchanged if there is none."""
    with _edit(text) as document:
        inner = _table(document, path[:-1])
        if path[-1] not in inner:
            return text
        del inner[path[-1]]
        left = _with_line_ends_of(text, document.as_string())
    is_last = not left or text.startswith(left)  # then the empty line before it goes too
    return left.rstrip() + _newline(text) if is_last and left.strip() else left


@contextmanager
def _edit(text: str) -> Iterator["TOMLDocument"]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        yield tomlkit.parse(text)
    except TOMLKitError as exc:  # it is stricter than the standard library in some cases
        raise MalformedFile(str(exc)) from exc


def _table(document: Any, path: Sequence[str]) -> Any:
    for key in path:
        document = document.get(key, {})
        if not isinstance(document, dict):
            raise MalformedFile(f"{key} should be a table")
    return document


def _append_table(text: str, path: Sequence[str], new: dict[str, Any]) -> str:
    import tomlkit

    table = tomlkit.table()
    for key, part in new.items():
        table.add(key, _inline(part) if isinstance(part, dict) else part)
    for depth, key in enumerate(reversed(path)):
        outer = tomlkit.table(is_super_table=True) if depth < len(path) - 1 else tomlkit.document()
        outer.add(key, table)
        table = outer  # type: ignore[assignment]  # at last the document
    block = tomlkit.dumps(table)
    head = text + ("" if text.endswith("\n") or not text else "\n")
    return _with_line_ends_of(text, head + ("\n" if head.strip() else "") + block)


def _inline(part: dict[str, Any]) -> Any:
    import tomlkit

    inline = tomlkit.inline_table()
    for key, inner in part.items():
        inline.add(key, _inline(inner) if isinstance(inner, dict) else inner)
    return inline


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text and "\n" not in text.replace("\r\n", "") else "\n"


def _with_line_ends_of(former: str, text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if _newline(former) == "\r\n" else text
