"""basic-memory: a folder of markdown files with `title`, `type`, `permalink` and `tags` in their front matter.

https://github.com/basicmachines-co/basic-memory/blob/main/docs/NOTE-FORMAT.md
"""

from collections.abc import Iterator
from pathlib import Path

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.importers import archives, folders
from memory_mcp.importers.model import FoundFile, ImportProblem

SUFFIX = ".md"


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundFile | ImportProblem]:
    """Every markdown file, unchanged. Raises Invalid for a folder without any."""
    folders.check(path, "a basic-memory project")
    if not folders.has_suffix_below(path, SUFFIX):
        raise Invalid(f"{path} has no markdown files. Give the folder of a basic-memory project.")
    yield from folders.read(path, on_bytes, lambda name: name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else None)
