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

_KINDS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (FoundNote, FoundFile, NewEntity, NamedRelation, ImportProblem)
}


def write(path: Path, found: Iterable[Found]) -> int:
    """Write each item as a line. Returns how many there were."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for count, one in enumerate(found, start=1):  # noqa: B007
            file.write(json.dumps([type(one).__name__, asdict(one)]) + "\n")
    return count


def read(path: Path, on_bytes: OnBytes) -> Iterator[Found]:
    """Every line is checked: the process that wrote it has read a foreign file."""
    with path.open("rb") as file:
        for line in compressed.lines(compressed.count_reads(file, on_bytes)):
            try:
                kind, fields = json.loads(line)
                yield _KINDS[kind].validate_python(fields)
            except (ValueError, KeyError, TypeError, ValidationError) as exc:
                raise Unavailable("The process that reads files gave a wrong answer. Look at the log.") from exc
