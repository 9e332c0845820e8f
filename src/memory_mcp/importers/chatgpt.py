"""The memories in a data export of ChatGPT (Settings, Data controls, Export data).

The export has no list of saved memories; they are in the conversations (`conversations.json`, in large exports
`conversations-000.json` and so on), as several public readers of exports agree (there is no published schema):

- saved memories: messages of the assistant to the tool `bio`, one memory each, which `bio` answers with "Model set
  context updated.";
- the whole list as it was at the start of a conversation: content of type `model_editable_context`, in
  `model_set_context`, a numbered line with a date each. Newer exports mostly leave it empty;
- custom instructions: content of type `user_editable_context`, in `user_profile` and `user_instructions`.

A list that ChatGPT printed (text_list.py) works too, and is the most complete.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.importers import archives, bounds, json_records, text_list
from memory_mcp.importers.archives import Member
from memory_mcp.importers.model import FoundNote, ImportProblem

_FILE = re.compile(r"conversations(?:-\d+)?\.json")
_FENCE = re.compile(r"```[a-z]*\n?(.*?)```", re.DOTALL)
_FORGET = re.compile(r"forget\b", re.IGNORECASE)
MAX_PROBLEMS = 100_000  # each takes 300 bytes of memory, and a record in a zip less than a byte
NO_MEMORIES = (
    "ChatGPT saved no memory in these conversations. Ask ChatGPT to list every memory that it has of you, one per "
    "line, and import that list as a text file."
)
INSTRUCTIONS = {"user_profile": "About me", "user_instructions": "How to respond"}


@dataclass
class _Found:
    """The memories in the conversations, by the ids of their texts."""

    saved: dict[str, FoundNote] = field(default_factory=dict)
    listed: dict[str, FoundNote] = field(default_factory=dict)
    listed_at: float = -1.0
    instructions: dict[str, tuple[float, FoundNote]] = field(default_factory=dict)
    problems: list[ImportProblem] = field(default_factory=list)


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundNote | ImportProblem]:
    """Raises Invalid before the first memory if the file is not such an export."""
    with archives.open_export(path, on_bytes) as members:
        if len(members) == 1 and members[0].base.endswith(text_list.SUFFIXES):
            yield from text_list.read(members[0])
            return
        kept = [one for one in members if _FILE.fullmatch(one.base) or len(members) == 1]
        if not kept:
            raise Invalid(f"{path} has no conversations.json in it. Is it a data export of ChatGPT?")
        seen = _Found()
        is_one = False
        for member in kept:
            is_one |= _read_file(path, member, seen)
        if not is_one:
            raise Invalid(f"{path} has no conversations of ChatGPT in it. Is it a data export of ChatGPT?")
        yield from seen.problems
        yield from _current(seen)
        yield from (note for _, note in seen.instructions.values())
        if not (seen.problems or seen.saved or seen.listed or seen.instructions):
            yield ImportProblem(kept[0].base, NO_MEMORIES, "left_out")


def _current(seen: _Found) -> Iterator[FoundNote | ImportProblem]:
    """The newest list, and the memories saved after it. Earlier ones that are not on the list were deleted."""
    yield from seen.listed.values()
    for id_, note in seen.saved.items():
        if id_ in seen.listed:
            continue
        created = bounds.moment(note.note.created_at)
        if seen.listed and created and created.timestamp() < seen.listed_at:
            yield ImportProblem(note.where, "It was saved once, and is not on the newest list of memories.", "left_out")
        else:
            yield note


def _read_file(path: Path, member: Member, seen: _Found) -> bool:
    """Collect the memories of one file. False if there is no conversation in it."""
    count = number = 0
    with member.open() as stream:
        try:
            for record in json_records.records(stream, ("conversations",)):
                number = record.number
                where = f"{member.base}, conversation {number}"
                if isinstance(record.value, dict) and isinstance(record.value.get("mapping"), dict):
                    count += 1
                    _read_conversation(where, record.value, seen)
                else:
                    seen.problems.append(ImportProblem(where, "It is not a conversation of ChatGPT."))
                _check_problems(seen)
        except Invalid as exc:
            raise Invalid(f"{path} is not a data export of ChatGPT. {exc.message}") from exc
        except json_records.Truncated as exc:
            if not number:
                raise Invalid(f"{member.name} of {path} is not JSON. Is it a data export of ChatGPT?") from exc
            after = f"{member.base}, after conversation {number}"
            seen.problems.append(ImportProblem(after, "The file is truncated, or not JSON from there on."))
    return count > 0


def _check_problems(seen: _Found) -> None:
    if len(seen.problems) > MAX_PROBLEMS:
        raise Invalid(f"More than {MAX_PROBLEMS:,} of its records cannot be imported.")


def _read_conversation(where: str, conversation: dict[str, Any], seen: _Found) -> None:
    began = _number(conversation.get("create_time"))
    source = conversation.get("conversation_id") or conversation.get("id")
    metadata = {"conversation_id": source} if isinstance(source, str) else {}
    for node in conversation["mapping"].values():
        message = node.get("message") if isinstance(node, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(content, dict):
            continue
        at = _number(message.get("create_time")) or began
        kind = content.get("content_type")
        if kind == "model_editable_context":
            _add_list(where, content.get("model_set_context"), at, metadata, seen)
        elif kind == "user_editable_context":
            _add_instructions(where, content, at, seen)
        elif message.get("recipient") == "bio":
            _add_saved(where, _text(content), at, metadata, seen)


def _add_saved(where: str, text: str, at: float, metadata: dict[str, str], seen: _Found) -> None:
    if not text.strip():
        return
    if _FORGET.match(text.strip()):
        seen.problems.append(ImportProblem(where, "It asks ChatGPT to forget something.", "left_out"))
        return
    found = bounds.note(where, text.strip(), id_=bounds.text_id(text), created_at=at, metadata=metadata)
    if isinstance(found, ImportProblem):
        seen.problems.append(found)
    else:
        seen.saved.setdefault(found.id, found)


def _add_list(where: str, text: object, at: float, metadata: dict[str, str], seen: _Found) -> None:
    if not isinstance(text, str) or not text.strip() or at <= seen.listed_at:
        return
    seen.listed, seen.listed_at = {}, at
    for line in text.splitlines():
        date, memory = text_list.dated(line)
        if memory:
            found = bounds.note(where, memory, id_=bounds.text_id(memory), created_at=date, metadata=metadata)
            if isinstance(found, FoundNote):
                seen.listed[found.id] = found


def _add_instructions(where: str, content: dict[str, Any], at: float, seen: _Found) -> None:
    """Add the newest instructions of each kind. ChatGPT puts them in a code block, within its own explanation."""
    for key, title in INSTRUCTIONS.items():
        text = content.get(key)
        if not isinstance(text, str) or at < seen.instructions.get(key, (-1.0, None))[0]:
            continue
        fenced = _FENCE.search(text)
        found = bounds.note(
            where,
            (fenced[1] if fenced else text).strip(),
            id_=f"custom-instructions/{key}",
            title=f"{title} (custom instructions of ChatGPT)",
            created_at=at,
        )
        if isinstance(found, FoundNote):
            seen.instructions[key] = (at, found)


def _text(content: dict[str, Any]) -> str:
    parts = content.get("parts")
    texts = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
    return "\n".join(texts) or (content["text"] if isinstance(content.get("text"), str) else "")


def _number(value: object) -> float:
    found = bounds.moment(value)
    return found.timestamp() if found else 0.0
