"""A folder of markdown files, such as a vault of Obsidian: a note for each file.

Its path is the note's id and folder, its name the title, so that `[[Title]]` leads from one note to the other. Front
matter gives tags, dates and metadata; `#tags` and links stay in the text.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_mcp.clock import precise_stamp
from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.families.stores import frontmatter
from memory_mcp.importers import archives, bounds, folders
from memory_mcp.importers.model import FoundFile, FoundNote, ImportProblem

SUFFIXES = (".md", ".markdown")
OWN_FIELDS = {"title", "tags", "created", "created_at", "date", "updated", "updated_at", "modified", "expires_at"}


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundNote | ImportProblem]:
    """Raises Invalid for a folder without markdown files."""
    folders.check(path, "your markdown files")
    if not any(folders.has_suffix_below(path, suffix) for suffix in SUFFIXES):
        raise Invalid(f"{path} has no markdown files.")
    for found in folders.read(path, on_bytes, lambda name: name if name.lower().endswith(SUFFIXES) else None):
        yield _note(found) if isinstance(found, FoundFile) else found


def _note(found: FoundFile) -> FoundNote | ImportProblem:
    file = frontmatter.parse(found.text)
    folder, _, name = found.path.rpartition("/")
    title = file.fields.get("title")
    updated = file.metadata.updated_at or precise_stamp(datetime.fromtimestamp(found.changed_ns / 1e9, UTC))
    return bounds.note(
        found.where,
        file.content,
        id_=found.path,
        title=title if isinstance(title, str) and title.strip() else name.rpartition(".")[0],
        tags=file.metadata.tags,
        folder=folder,
        metadata={"path": found.path} | _further_fields(file.fields),
        created_at=file.metadata.created_at or updated,
        updated_at=updated,
        expires_at=file.metadata.expires_at,
    )


def _further_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in fields.items() if str(key) not in OWN_FIELDS and value is not None}
