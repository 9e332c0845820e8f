"""@modelcontextprotocol/server-memory: one JSON object per line, as in families/graph/exchange.py."""

from collections.abc import Iterator
from pathlib import Path

from memory_mcp.engines.files import compressed
from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.families.graph import exchange
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.importers import archives
from memory_mcp.importers.model import ImportProblem

MAX_PROBED_RECORDS = 20  # records, at least one of which must be valid


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[NewEntity | NamedRelation | ImportProblem]:
    """Each line. Raises Invalid if none of the first lines belongs to a graph; an empty file is an empty graph."""
    if not path.is_file():
        raise Invalid(f"{path} is not a file. Give the memory.jsonl of server-memory.")
    try:
        with path.open("rb") as file:
            probed = exchange.read(compressed.lines(file))
            first = [found for _, (_, found) in zip(range(MAX_PROBED_RECORDS), probed, strict=False)]
            if first and all(isinstance(one, Invalid) for one in first):
                raise Invalid(f"{path} is not a file of server-memory: no line is an entity or a relation of a graph.")
            file.seek(0)
            for number, found in exchange.read(compressed.lines(compressed.count_reads(file, on_bytes))):
                yield ImportProblem(f"line {number}", found.message) if isinstance(found, Invalid) else found
    except OSError as exc:
        raise Invalid(f"{path} cannot be read: {exc.strerror}.") from exc
