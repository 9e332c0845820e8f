"""Parts of SQL that all tables share."""

import json
from typing import Any


def utc(column: str) -> str:
    """A time as answers show it. Other programs write it as SQLite's datetime('now') does, or with an offset."""
    form = "'%Y-%m-%dT%H:%M:%SZ'"
    other = f"coalesce(strftime({form}, {column}), strftime({form}, substr({column}, 1, 19)), {column})"
    return f"CASE WHEN {column} GLOB '*T*Z' THEN {column} ELSE {other} END"


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
