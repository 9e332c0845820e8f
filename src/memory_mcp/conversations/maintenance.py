"""Export and import of the list of conversations. Their messages are among the notes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.conversations.hook_calls import MAX_PATH_CHARS, MAX_SESSION_ID_CHARS
from memory_mcp.conversations.model import PortableConversation
from memory_mcp.conversations.operations import Conversations
from memory_mcp.families.maintenance import (
    ExportFolder,
    ExportUndo,
    FamilyMaintenance,
    ImportFolder,
    text_of,
    write_lines,
)
from memory_mcp.text.names import MAX_NAMESPACE_CHARS, check_readable

FILE = "conversations.jsonl"
FIELDS = ("id", "client", "project", "title", "started_at", "last_at", "folder", "messages", "last_note")
MAX_CLIENT_CHARS = 64
MAX_ID_CHARS = MAX_CLIENT_CHARS + 1 + MAX_SESSION_ID_CHARS
MAX_TITLE_CHARS = 1000
MAX_MESSAGES = 1_000_000_000
BATCH_SIZE = 1000  # conversations that are completed at once


def _export(conversations: Conversations, target: ExportFolder) -> int:
    def lines() -> Iterator[dict[str, Any]]:
        for one in target.track(conversations.transfer.everything(target.caller), "conversations"):
            yield {name: getattr(one, name) for name in FIELDS}

    return write_lines(target.path / FILE, lines())


def _import(conversations: Conversations, source: ImportFolder) -> None:
    """A conversation is identified by its id. Its messages have been imported before."""
    transfer, ids = conversations.transfer, list[str]()
    for location, fields in source.lines(FILE):
        with source.one(location):
            one = _conversation(fields)
            if source.dry_run:
                is_new = source.is_first("conversation", one.id) and not transfer.has(source.caller, one.id)
            else:
                is_new = transfer.add(source.caller, one)
                ids.append(one.id)
            source.result.count("conversations", new=is_new)
        if len(ids) >= BATCH_SIZE:
            transfer.finish(source.caller, ids)
            ids = []
    if ids:
        transfer.finish(source.caller, ids)


def _conversation(fields: dict[str, Any]) -> PortableConversation:
    """Raises KeyError, TypeError or ValueError."""
    return PortableConversation(
        id=_name(fields, "id", MAX_ID_CHARS),
        client=_name(fields, "client", MAX_CLIENT_CHARS),
        project=_name(fields, "project", MAX_NAMESPACE_CHARS),
        title=_text(fields, "title", MAX_TITLE_CHARS),
        started_at=precise_stamp(instant(text_of(fields, "started_at"))),
        last_at=precise_stamp(instant(text_of(fields, "last_at"))),
        folder=_text(fields, "folder", MAX_PATH_CHARS) if fields.get("folder") is not None else None,
        messages=_count(fields, "messages"),
        last_note=str(UUID(text_of(fields, "last_note"))),
    )


def _name(fields: dict[str, Any], name: str, max_chars: int) -> str:
    text = check_readable(_text(fields, name, max_chars))
    if not text:
        raise ValueError(f"{name} is empty")
    return text


def _text(fields: dict[str, Any], name: str, max_chars: int) -> str:
    text = text_of(fields, name)
    if len(text) > max_chars or "\0" in text:
        raise ValueError(f"{name} is too long, or not a text")
    return text


def _count(fields: dict[str, Any], name: str) -> int:
    if type(fields[name]) is not int:
        raise TypeError(name)
    if not 0 < fields[name] <= MAX_MESSAGES:
        raise ValueError(f"{name} is not a number of messages")
    return int(fields[name])


def _imported(conversations: Conversations, caller: Caller) -> dict[str, str]:
    return conversations.transfer.imported(caller)


def _is_in_export(export: Path, ref: str) -> bool:
    """Only imports add what `_imported` lists."""
    return (export / FILE).is_file()


def _remove(conversations: Conversations, caller: Caller, ref: str) -> None:
    conversations.transfer.remove(caller, ref)


MAINTENANCE = FamilyMaintenance[Conversations](
    exports={"conversations": _export},
    imports={"conversations": _import},
    import_undo=ExportUndo(_imported, _is_in_export, _remove),
)
