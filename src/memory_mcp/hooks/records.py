"""A record of the last calls of hooks, for `memory-mcp hook --explain`. It holds no text of a conversation."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

FILE, FORMER_FILE = "hooks.jsonl", "hooks.1.jsonl"  # in the data directory
MAX_FILE_BYTES = 128 * 1024
MAX_REFS = 20
MAX_TEXT_CHARS = 1000


def add(data_dir: str, record: Mapping[str, Any]) -> None:
    """Append one call. A record that cannot be written is lost: a hook reports no errors."""
    refs = record.get("refs")
    kept = {**record, "refs": list(refs)[:MAX_REFS]} if isinstance(refs, list) else record
    kept = {name: value[:MAX_TEXT_CHARS] if isinstance(value, str) else value for name, value in kept.items()}
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"at": at, **kept}, ensure_ascii=False) + "\n"
    path = os.path.join(data_dir, FILE)
    with suppress(OSError):
        if os.path.exists(path) and os.path.getsize(path) > MAX_FILE_BYTES:
            os.replace(path, os.path.join(data_dir, FORMER_FILE))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line.encode("utf-8", "replace"))
        finally:
            os.close(file)


def last(data_dir: str, limit: int) -> list[dict[str, Any]]:
    """The last calls, the latest first."""
    found: list[dict[str, Any]] = []
    for name in (FORMER_FILE, FILE):
        with suppress(OSError), open(os.path.join(data_dir, name), encoding="utf-8") as file:
            for line in file:
                with suppress(ValueError):  # torn by a kill
                    found.append(json.loads(line))
    return found[::-1][:limit]
