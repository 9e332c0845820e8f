"""mem0 and OpenMemory.

- mem0ai/mem0 `Memory.get_all` and `MemoryClient.get_all`, saved as JSON: `{"results": [...]}` or the list alone; the
  CLI's `mem0 list -o json`.
- A record has `memory` (`content`, `text` or `data` elsewhere: mem0's own `mem0 import` accepts those too).
- OpenMemory's backup (`POST /api/v1/backup/export`, openmemory/api/app/routers/backup.py): a zip of
  `memories.jsonl.gz`, with the names of categories and apps, and `memories.json`, with their ids.
"""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from memory_mcp.engines.files import compressed
from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.importers import archives, bounds, json_records
from memory_mcp.importers.archives import Member
from memory_mcp.importers.model import FoundNote, ImportProblem

MAX_PROBED_RECORDS = 20  # records, at least one of which must be valid
LISTS = ("results", "memories")
TEXTS = ("memory", "content", "text", "data")
WHOSE = ("user_id", "agent_id", "run_id", "actor_id", "app_id", "app", "role", "state", "immutable", "hash")


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundNote | ImportProblem]:
    """Raises Invalid before the first memory if the file is not such an export."""
    with archives.open_export(path, on_bytes) as members:
        member = _choose(members)
        if member is None:
            raise Invalid(
                f"{path} has no memories.json or memories.jsonl.gz in it. Is it an export of mem0 or OpenMemory?"
            )
        found = _lines(member) if ".jsonl" in member.base else _array(path, member)
        first = list(islice(found, MAX_PROBED_RECORDS))
        if first and all(isinstance(one, ImportProblem) and one.outcome == "refused" for one in first):
            raise Invalid(f"{path} is not an export of mem0 or OpenMemory: none of its first records has a text.")
        yield from first
        yield from found


def _choose(members: list[Member]) -> Member | None:
    """The only file; of OpenMemory's two files the one that has names."""
    by_name = {member.base: member for member in members}
    named = next(
        (by_name[name] for name in ("memories.jsonl.gz", "memories.jsonl", "memories.json") if name in by_name), None
    )
    return named or (members[0] if len(members) == 1 else None)


def _array(path: Path, member: Member) -> Iterator[FoundNote | ImportProblem]:
    number = 0
    with _open(member) as stream:
        try:
            for record in json_records.records(stream, LISTS):
                number = record.number
                yield _memory(f"record {number}", record.value, dict(record.siblings))
        except Invalid as exc:
            raise Invalid(f"{path} is not an export of mem0 or OpenMemory. {exc.message}") from exc
        except json_records.Truncated as exc:
            if not number:
                raise Invalid(f"{path} is not JSON. Give an export of mem0 or OpenMemory.") from exc
            yield ImportProblem(f"after record {number}", "The file is truncated, or not JSON from there on.")


def _lines(member: Member) -> Iterator[FoundNote | ImportProblem]:
    with _open(member) as stream:
        number = 0
        lines = compressed.lines(stream)
        while True:
            try:
                line = next(lines, b"")
            except archives.DAMAGE:
                yield ImportProblem(f"after line {number}", "The file is truncated.")
                return
            if not line:
                return
            number += 1
            if line.strip():
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    yield ImportProblem(f"line {number}", "It is not JSON.")
                    continue
                yield _memory(f"line {number}", found, {})


def _open(member: Member) -> IO[bytes]:
    stream = member.open()
    if not member.base.endswith(".gz"):
        return stream
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    return compressed.open_gzip(stream, size)


def _memory(where: str, found: Any, header: dict[str, Any]) -> FoundNote | ImportProblem:
    if not isinstance(found, dict):
        return ImportProblem(where, "It is not a memory: not a JSON object.")
    if found.get("state") == "deleted" or found.get("deleted_at"):
        return ImportProblem(where, "It is deleted there.", "left_out")
    metadata = found.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return bounds.note(
        where,
        next((found[key] for key in TEXTS if found.get(key)), None),
        id_=found.get("id"),
        tags=[*_categories(found, header), *_texts(own.get("tags"))],
        metadata={key: found[key] for key in WHOSE if found.get(key) not in (None, "")} | own,
        created_at=found.get("created_at"),
        updated_at=found.get("updated_at"),
        expires_at=found.get("expiration_date"),
    )


def _categories(found: dict[str, Any], header: dict[str, Any]) -> list[Any]:
    named = header.get("categories")
    names = (
        {one.get("id"): one.get("name") for one in named if isinstance(one, dict)} if isinstance(named, list) else {}
    )
    return [*_texts(found.get("categories")), *(names.get(id_) for id_ in _texts(found.get("category_ids")))]


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
