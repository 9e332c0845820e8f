"""The notes' file."""

from pathlib import Path

from memory_mcp.notes.storage import words
from memory_mcp.sqlite import Read, Write, migrations

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D434E)  # "MMCN"


def is_indexed(tx: Read) -> bool:
    """Whether everything can be found by its words."""
    return words.is_indexed(tx)


def index_anew(tx: Write) -> None:
    """Fill an index of words that is empty."""
    words.index_all(tx)
