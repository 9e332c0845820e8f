"""The reader of each format, and which of them fits a file."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.importers import (
    anthropic_memory,
    archives,
    basic_memory,
    chatgpt,
    claude,
    markdown_folder,
    mcp_memory_service,
    mem0,
    server_memory,
)
from memory_mcp.importers.model import ForeignFormat, FoundFile, FoundNote, ImportProblem

Found = FoundNote | FoundFile | NewEntity | NamedRelation | ImportProblem
"""What a reader yields."""

READERS: dict[ForeignFormat, Callable[[Path, OnBytes], Iterator[Found]]] = {
    "server-memory": server_memory.read,
    "mcp-memory-service": mcp_memory_service.read,
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "mem0": mem0.read,
    "markdown": markdown_folder.read,
    "basic-memory": basic_memory.read,
    "anthropic-memory": anthropic_memory.read,
}
"""In the order in which they are tried with a file of an unknown format."""

OF_FOLDERS: frozenset[ForeignFormat] = frozenset({"markdown", "basic-memory", "anthropic-memory"})
"""Formats that are folders of files."""

UNKNOWN = (
    "No format fits this file. It can be a folder of markdown, a data export of ChatGPT or Claude, a memory.jsonl of "
    "server-memory, a file of mcp-memory-service, or an export of mem0. Choose the format to see what is wrong."
)


def detect(path: Path) -> ForeignFormat:
    """The first format whose reader accepts the file. Raises Invalid if none does."""
    for format_, read in READERS.items():
        if path.is_dir() == (format_ in OF_FOLDERS):
            with suppress(Invalid):
                if next(read(path, archives.ignore_bytes), None) is not None:
                    return format_
    raise Invalid(UNKNOWN)
