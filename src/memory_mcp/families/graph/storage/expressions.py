"""Parts of SQL that all tables share."""

import json
from typing import Any

ALL_ROWS = 2**62  # for LIMIT


def utc(column: str) -> str:
    """A time as answers show it. Other programs write it as SQLite's datetime('now') does, or with an offset."""
    form = "'%Y-%m-%dT%H:%M:%SZ'"
    other = f"coalesce(strftime({form}, {column}), strftime({form}, substr({column}, 1, 19)), {column})"
    is_ours = f"substr({column}, 11, 1) = 'T' AND substr({column}, length({column}), 1) = 'Z'"
    return f"CASE WHEN {is_ours} THEN {column} ELSE {other} END"


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
