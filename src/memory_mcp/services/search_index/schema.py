"""The schema of a `SearchIndex`, recall.db."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations

FORMER_ID = 0x4D4D434E  # "MMCN": recall.db was a file of notes

POSTGRES = Path(__file__).parent / "postgres"
SCHEMA = migrations.load(
    Path(__file__).parent / "migrations",
    application_id=0x4D4D4349,  # "MMCI"
    replaces=FORMER_ID,
)
