"""The schema of the notes' file, notes.db."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.families.notes.storage import index

_HERE = Path(__file__).parent
SCHEMA = migrations.load(_HERE / "migrations", application_id=0x4D4D434E)  # "MMCN"

NOTES_FILE = DatabaseKind(
    "notes",
    SCHEMA,
    "notes.db",
    postgres=_HERE / "postgres",
    derived_tables=("vector_changes",),
    is_indexed=index.is_indexed,
    rebuild_index=index.index_all_words,
)
