"""What a reader found, as lines of JSON: a child process writes them, and the server reads them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memory_mcp.engines.files import compressed
from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Unavailable
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.importers.model import FoundFile, FoundNote, ImportProblem
from memory_mcp.importers.readers import Found

MAX_ITEM_CHARS = 16 * 1024 * 1024  # a note has up to 1 MiB of characters, each up to 12 as JSON, and metadata
OBJECT_CHARS = 50  # that a text takes beside its own
_KINDS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (FoundNote, FoundFile, NewEntity, NamedRelation, ImportProblem)
}


def count_chars(found: object) -> int:
    """About how much text an item has, and so how much memory it takes."""
    if isinstance(found, FoundNote):
        return len(found.note.content) + len(json.dumps(found.note.metadata))
    return sum(len(text) + OBJECT_CHARS for text in found.observations) if isinstance(found, NewEntity) else 0


def write(path: Path, found: Iterable[Found]) -> int:
    """Write each item as a line. Returns how many there were."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for count, one in enumerate(found, start=1):  # noqa: B007
            file.write(_line(one))
    return count


def _line(found: Found) -> str:
    line = json.dumps([type(found).__name__, asdict(found)])
    if len(line) > MAX_ITEM_CHARS:  # an entity may have any number of observations
        name = found.name if isinstance(found, NewEntity) else getattr(found, "where", "a relation")
        return _line(ImportProblem(str(name), "It is too long to be held in memory. Split it."))
    return line + "\n"


def read(path: Path, on_bytes: OnBytes) -> Iterator[Found]:
    """Every line is checked: the process that wrote it has read a foreign file."""
    with path.open("rb") as file:
        for line in compressed.lines(compressed.count_reads(file, on_bytes)):
            try:
                kind, fields = json.loads(line)
                yield _KINDS[kind].validate_python(fields)
            except (ValueError, KeyError, TypeError, ValidationError) as exc:
                raise Unavailable("The process that reads files gave a wrong answer. Look at the log.") from exc
