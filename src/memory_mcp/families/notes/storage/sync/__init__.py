"""SQL for sync (migrations/0002_sync.sql)."""
