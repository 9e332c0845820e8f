"""The notes' file."""

from pathlib import Path

from memory_mcp.sqlite import migrations

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D434E)  # "MMCN"
