"""The notes' file."""

from pathlib import Path

from memory_mcp.engines.sqlite import Read, Write, migrations
from memory_mcp.families.notes.storage import words

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D434E)  # "MMCN"


def is_indexed(tx: Read) -> bool:
    """Whether everything can be found by its words."""
    return words.is_indexed(tx)


def index_anew(tx: Write) -> None:
    """Fill an index of words that is empty."""
    words.index_all(tx)
