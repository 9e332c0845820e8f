"""SQL of what nodes know about each other's changes (migrations/0002_sync.sql)."""
