"""Limits for imported values: the same as those of the note tools."""

import hashlib
import math
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from memory_mcp.clock import instant, precise_stamp
from memory_mcp.families.notes.model import ARCHIVED, IMPORTED_FROM, MAX_METADATA_BYTES, NewNote, folded, tag_key
from memory_mcp.families.notes.result_limits import metadata_json
from memory_mcp.importers.model import FoundNote, ImportProblem
from memory_mcp.text.json_counts import has_too_many_containers

MAX_CONTENT_CHARS = 1024 * 1024
MAX_TITLE_CHARS = 300
MAX_FOLDER_CHARS = 512
MAX_TAG_CHARS = 128
MAX_ID_CHARS = 512
MAX_TAGS = 64
MAX_METADATA_LEVELS = 50
MAX_METADATA_CONTAINERS = 10_000  # lists and objects, each of which takes a hundred bytes of memory
MAX_SECONDS = 2**40  # since 1970; a larger number is in milliseconds


def note(
    where: str,
    content: object,
    *,
    id_: object = None,
    title: str | None = None,
    tags: Iterable[object] = (),
    folder: str = "",
    metadata: Mapping[str, Any] | None = None,
    created_at: object = None,
    updated_at: object = None,
    expires_at: object = None,
) -> FoundNote | ImportProblem:
    """A memory as a note, or the reason why it cannot be one."""
    if not isinstance(content, str) or not content.strip():
        return ImportProblem(where, "It has no text.")
    if len(content) > MAX_CONTENT_CHARS:
        return ImportProblem(where, f"It has {len(content):,} characters; the limit is {MAX_CONTENT_CHARS:,}.")
    kept = {key: value for key, value in _clean(metadata or {}).items() if key != IMPORTED_FROM}
    if problem := _metadata_problem(kept):
        return ImportProblem(where, problem)
    text = clean_text(content)
    updated = moment(updated_at)
    created = moment(created_at) or updated
    if created and updated and updated < created:
        updated = created
    expires = moment(expires_at)
    name = str(id_)[:MAX_ID_CHARS] if isinstance(id_, str | int) and str(id_) else text_id(text)
    new = NewNote(
        content=text,
        title=_title(title),
        tags=_tags(tags),
        folder=clean_text(folder)[:MAX_FOLDER_CHARS],
        metadata=kept,
        created_at=precise_stamp(created) if created else None,
        updated_at=precise_stamp(updated) if updated else None,
        expires_at=precise_stamp(expires) if expires else None,
    )
    return FoundNote(clean_text(name), where, new)


def _metadata_problem(metadata: Mapping[str, Any]) -> str | None:
    text = metadata_json(metadata)
    if len(text) > MAX_METADATA_BYTES - 2048:  # 2048 for the origin
        return "Its metadata is over 1 MiB."
    if has_too_many_containers(text, MAX_METADATA_CONTAINERS):
        return f"Its metadata has over {MAX_METADATA_CONTAINERS:,} lists and objects."
    return None


def text_id(text: str) -> str:
    """The id for a memory that has none: the same for the same text, ignoring case and spacing."""
    return hashlib.sha256(folded(text).encode()).hexdigest()[:32]


def digest(new: NewNote) -> str:
    """A hash of a note's content, title and tags. Metadata is not part of it: tools keep counters there."""
    text = "\0".join([new.content, new.title or "", *new.tags])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def moment(value: object) -> datetime | None:
    """A time in ISO 8601, or in seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str) and value.strip():
            return instant(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > MAX_SECONDS else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def clean_text(text: str) -> str:
    """The text in NFC, without lone surrogates."""
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def _title(title: str | None) -> str | None:
    squeezed = " ".join(clean_text(title or "").split())
    return (squeezed if len(squeezed) <= MAX_TITLE_CHARS else squeezed[: MAX_TITLE_CHARS - 1].rstrip() + "…") or None


def _tags(tags: Iterable[object]) -> tuple[str, ...]:
    """The valid tags. A comma separates two tags, and line breaks become spaces."""
    kept: dict[str, str] = {}
    for name in tags:
        for part in clean_text(name).split(",") if isinstance(name, str) else ():
            tag = " ".join(part.split()).removeprefix("#").strip()
            if tag and tag.isprintable() and len(tag) <= MAX_TAG_CHARS and tag_key(tag) != ARCHIVED:
                kept.setdefault(tag_key(tag), tag)
    return tuple(kept.values())[:MAX_TAGS]


def _clean(value: Any, level: int = 0) -> Any:
    """The value as valid JSON: without NaN and lone surrogates, and not nested too deeply."""
    if level > MAX_METADATA_LEVELS:
        return None
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean(one, level + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one, level + 1) for one in value]
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int | None):
        return value
    return str(value)
