"""mcp-memory-service: the `memories` table of its SQLite file (doobidoo/mcp-memory-service, storage/sqlite_vec.py).

The SQL here reads another tool's file, and never writes it. Older versions have fewer columns.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.engines.sqlite import sibling_files
from memory_mcp.errors import Invalid
from memory_mcp.importers import archives, bounds
from memory_mcp.importers.model import FoundNote, ImportProblem

COLUMNS = ("content_hash", "content", "tags", "memory_type", "metadata", "created_at", "updated_at")
NEWER = ("created_at_iso", "updated_at_iso", "deleted_at", "superseded_by", "store", "confidence")
WRONG_FILE = "is not a file of mcp-memory-service. It is called sqlite_vec.db or memory.db, in that tool's data folder."


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundNote | ImportProblem]:
    """Every memory, in the order they were stored. Raises Invalid before the first if it is not such a file."""
    if not path.is_file():
        raise Invalid(f"{path} {WRONG_FILE}")
    db = _open(path)
    try:
        there = {row[1] for row in db.execute("PRAGMA table_info(memories)")}
        if not there.issuperset(COLUMNS):
            raise Invalid(f"{path} {WRONG_FILE}")
        columns = [*COLUMNS, *(name for name in NEWER if name in there)]
        [(rows,)] = db.execute("SELECT count(*) FROM memories")
        for row in db.execute(f"SELECT {', '.join(columns)} FROM memories ORDER BY id"):
            on_bytes(path.stat().st_size // rows)
            yield _memory(dict(zip(columns, row, strict=True)))
    except apsw.Error as exc:
        raise Invalid(f"{path} {WRONG_FILE} ({exc})") from exc
    finally:
        db.close()


def _open(path: Path) -> apsw.Connection:
    """Open read-only. Without a WAL file, open as immutable, so that SQLite creates no files in that folder."""
    is_in_use = sibling_files.wal(path).exists()
    uri = f"{path.resolve().as_uri()}?mode=ro{'' if is_in_use else '&immutable=1'}"
    try:
        db = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        db.set_busy_timeout(5000)
    except apsw.Error as exc:
        raise Invalid(f"{path} cannot be opened.") from exc
    return db


def _memory(row: dict[str, Any]) -> FoundNote | ImportProblem:
    where = f"memory {str(row['content_hash'])[:12]}"
    if row.get("deleted_at") is not None:
        return ImportProblem(where, "It is deleted there.", "left_out")
    if row.get("superseded_by"):
        return ImportProblem(where, "A newer memory replaced it there.", "left_out")
    metadata = _metadata(row["metadata"])
    tags = row["tags"] if isinstance(row["tags"], str) else ""
    noted = {"type": row["memory_type"], "store": row.get("store") if row.get("store") != "default" else None}
    return bounds.note(
        where,
        row["content"],
        id_=row["content_hash"],
        tags=[tag for tag in tags.split(",") if tag.strip() != "untagged"],
        metadata={key: value for key, value in noted.items() if value} | metadata,
        created_at=row["created_at"] or row.get("created_at_iso"),
        updated_at=row["updated_at"] or row.get("updated_at_iso"),
    )


def _metadata(text: object) -> dict[str, Any]:
    """The metadata; a text that is not a JSON object is stored under `metadata`."""
    if not isinstance(text, str) or not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {"metadata": text}
    return found if isinstance(found, dict) else {"metadata": found}
