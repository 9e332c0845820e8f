"""Portals on a ClickHouse server: a database for each, over HTTP (--portals-url)."""
