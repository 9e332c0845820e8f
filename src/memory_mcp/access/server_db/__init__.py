"""server.db: what the services keep about the server itself. access/ and sessions/ own its tables."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4353)  # "MMCS"
