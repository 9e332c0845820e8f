"""The messages in a client's transcript: a file with a JSON object on each line, in the format of each client.

A file may be large and another program may be writing it: it is read line by line, from where the last reading ended.
A torn last line is left for the next reading. Lines of other kinds are skipped.
"""

import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from memory_mcp.conversations.model import Message, Role

MAX_LINE_BYTES = 8 * 1024 * 1024  # longer lines are skipped
MAX_BYTES_PER_READING = 256 * 1024 * 1024
MAX_TOOL_CHARS = 200  # of one call or its output
MAX_TOOL_GROUP_CHARS = 1000  # of calls between two messages

# What clients put into messages themselves: memories that were given, reminders, the environment.
_INSERTED = re.compile(
    r"<(memory-mcp|hook_context|system-reminder)\b[^<>]*>.*?(?:</\1>|\Z)|</?user_query>", re.DOTALL | re.IGNORECASE
)
_NOT_WRITTEN = re.compile(
    r"\s*(?:<(?:command-name|command-message|local-command-|bash-|environment_context|user_instructions|INSTRUCTIONS|"
    r"permissions|turn_aborted|session_context|task-notification)|# AGENTS\.md instructions|Caveat: )"
)


@dataclass(frozen=True)
class Reading:
    """A message, and where the next reading starts once it is stored."""

    message: Message
    end: int


Clean = Callable[[str], str]
"""Leaves out of a text what must not be stored."""


def read(path: Path, start: int, clean: Clean) -> Iterator[Reading]:
    """The messages from a position on, cleaned. Raises OSError if the file cannot be read."""
    if not stat.S_ISREG(path.stat().st_mode):
        return
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(start if start <= size else 0)  # a shorter file was written again
        yield from _grouped(_cleaned(one, clean) for one in _messages(file))


def _cleaned(one: Reading, clean: Clean) -> Reading:
    """Tool calls are made short only after cleaning: half a secret could not be recognised."""
    message = one.message
    text = clean(encodable(message.text))
    text = _short(text) if message.role == "tool" else text
    return replace(one, message=replace(message, id=encodable(message.id), text=text))


def encodable(text: str) -> str:
    """The text with `?` for halves of surrogate pairs, which JSON may hold and no database takes."""
    return text.encode("utf-8", "replace").decode()


def _short(text: str) -> str:
    return text if len(text) <= MAX_TOOL_CHARS else f"{text[: MAX_TOOL_CHARS - 1]}…"


def _messages(file: BinaryIO) -> Iterator[Reading]:
    first = file.tell()
    while file.tell() - first < MAX_BYTES_PER_READING:
        begin = file.tell()
        line = file.readline(MAX_LINE_BYTES)
        if not line:
            return
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            _skip_line(file)
            continue
        try:
            record = json.loads(line)
            found = list(_of_record(record, begin)) if isinstance(record, dict) else []
        except (ValueError, RecursionError):
            if not line.endswith(b"\n"):
                return
            continue
        for number, message in enumerate(found, start=1):
            yield Reading(message, file.tell() if number == len(found) else begin)


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def _grouped(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Tool calls that follow each other become one message."""
    group: Reading | None = None
    for one in readings:
        if one.message.role == "tool":
            group = _joined(group, one) if group else one
            continue
        if group:
            yield group
            group = None
        yield one
    if group:
        yield group


def _joined(group: Reading, one: Reading) -> Reading:
    first = group.message
    text = f"{first.text}\n{one.message.text}"[:MAX_TOOL_GROUP_CHARS]
    return Reading(Message(first.id, "tool", text, first.at), one.end)


def _of_record(record: Mapping[str, Any], begin: int) -> Iterator[Message]:
    """The messages of one line, in the format that it has."""
    kind, message = record.get("type"), record.get("message")
    if isinstance(message, dict) and kind in ("user", "assistant"):
        yield from _of_claude_code(record, message)
    elif isinstance(payload := record.get("payload"), dict) and kind == "response_item":
        yield from _of_codex(record, payload)
    elif kind in ("user", "gemini") and "content" in record:
        yield from _of_gemini(record)
    elif isinstance(message, dict) and record.get("role") in ("user", "assistant"):  # Cursor, without ids and times
        yield from _parts(str(begin), record["role"], message.get("content"), None)


def _of_claude_code(record: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[Message]:
    aside = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly")
    is_aside = any(record.get(name) for name in aside) or message.get("model") == "<synthetic>"  # of the client itself
    if not is_aside and isinstance(record.get("uuid"), str):
        yield from _parts(record["uuid"], cast(Role, record["type"]), message.get("content"), _time(record))


def _of_codex(record: Mapping[str, Any], payload: Mapping[str, Any]) -> Iterator[Message]:
    at = _time(record)
    kind = payload.get("type")
    if kind == "message" and payload.get("role") in ("user", "assistant"):
        content = payload.get("content")
        yield from _parts(_digest(at, payload["role"], content), payload["role"], content, at)
    elif isinstance(kind, str) and kind.endswith("_call"):
        given = payload.get("arguments") or payload.get("input") or payload.get("action")
        yield _tool(_digest(at, payload), f"{payload.get('name') or kind}: {_plain(given)}", at)
    elif isinstance(kind, str) and kind.endswith("_call_output"):
        yield _tool(_digest(at, payload), f"→ {_plain(payload.get('output'))}", at)


def _of_gemini(record: Mapping[str, Any]) -> Iterator[Message]:
    if not isinstance(record.get("id"), str):
        return
    role: Role = "user" if record["type"] == "user" else "assistant"
    yield from _parts(record["id"], role, record.get("content"), _time(record))
    calls = record.get("toolCalls")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            text = f"{call.get('name')}: {_plain(call.get('args'))} → {_plain(call.get('resultDisplay'))}"
            yield _tool(f"{record['id']}/{number}", text, _time(record))


def _parts(id_: str, role: Role, content: Any, at: str | None) -> Iterator[Message]:
    """What was said, and then tools in short."""
    blocks = content if isinstance(content, list) else [content]
    written = without_insertions("\n\n".join(filter(None, map(_text_of, blocks))))
    if written and not _NOT_WRITTEN.match(written):
        yield Message(id_, role, written, at)
    for number, block in enumerate(blocks):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            yield _tool(f"{id_}/{number}", f"{block.get('name')}: {_plain(block.get('input'))}", at)
        elif kind == "tool_result":
            yield _tool(f"{id_}/{number}", f"→ {_plain(block.get('content'))}", at)


def _text_of(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") in (None, "text", "input_text", "output_text"):
        return str(block.get("text") or "")
    return ""


def without_insertions(text: str) -> str:
    """What the user or the assistant wrote, without what the client put into it."""
    return _INSERTED.sub("", text).strip()


def _tool(id_: str, text: str, at: str | None) -> Message:
    return Message(id_, "tool", text, at)


def _plain(value: Any) -> str:
    """A value on one line, and not much of it."""
    if isinstance(value, list):
        value = " ".join(filter(None, map(_text_of, value)))
    elif isinstance(value, dict):
        value = next((one for one in value.values() if isinstance(one, str)), "")
    return " ".join(str(value or "")[: 20 * MAX_TOOL_CHARS].split())


def _time(record: Mapping[str, Any]) -> str | None:
    found = record.get("timestamp")
    return found if isinstance(found, str) else None


def _digest(*parts: Any) -> str:
    """An id for a message whose client gives it none."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
