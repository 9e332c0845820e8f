"""The folder behind Anthropic's memory tool (`memory_20250818`): text files that Claude made under /memories.

https://docs.claude.com/en/docs/agents-and-tools/tool-use/memory-tool. The SDK's BetaLocalFilesystemMemoryTool keeps
them in `memories/` under its base path.
"""

from collections.abc import Iterator
from pathlib import Path

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.importers import archives, folders
from memory_mcp.importers.model import FoundFile, ImportProblem

ROOT = "memories"


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundFile | ImportProblem]:
    """Every file: `prefs.xml` becomes the memory `prefs.xml`, `notes.md` the memory `notes`."""
    folders.check(path, "the memory tool")
    visible = [one.name for one in path.iterdir() if not one.name.startswith(".")]
    root = path / ROOT if visible == [ROOT] and (path / ROOT).is_dir() else path
    if not folders.has_suffix_below(root, ""):
        raise Invalid(f"{path} has no files. Give the folder that the memory tool keeps as /memories.")
    yield from folders.read(root, on_bytes, lambda name: name.removesuffix(".md"))
