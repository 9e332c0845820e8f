"""SQL of stores.db, the cache of the stores' files."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from memory_mcp.clock import instant
from memory_mcp.engines.files.signature import Signature
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.stores.model import Content, Listing, MemorySummary, ReadFile

_SUMMED = "path, token_estimate, summary, created_at, updated_at, expires_at, tags"


def fingerprints(tx: Read, store: str, category: str) -> dict[str, str | None]:
    """Of a category's folder and all below it, by path."""
    rows = tx.all(
        f"""
        SELECT path, fingerprint FROM folders WHERE store = {_STORE} AND {_BELOW}
        """,
        {"store": store, "category": category},
    )
    return dict(rows)


def fingerprint(tx: Read, store: str, folder: str) -> str | None:
    row = tx.one(
        f"SELECT fingerprint FROM folders WHERE number = {_FOLDER}",
        {"store": store, "folder": folder},
    )
    return row[0] if row else None


def signatures(tx: Read, store: str, folder: str) -> dict[str, Signature]:
    """Of the files that were read in a folder, by their names on disk."""
    rows = tx.all(
        f"SELECT file, mtime_ns, size, inode FROM memories WHERE folder = {_FOLDER} AND is_settled",
        {"store": store, "folder": folder},
    )
    return {file: (mtime_ns, size, int(inode)) for file, mtime_ns, size, inode in rows}


def contents(tx: Read, store: str, folder: str) -> dict[str, Content]:
    """What the files of a folder held when they were read, by their names on disk."""
    rows = tx.all(
        f"SELECT file, content_hash, stated_at, changed_ns FROM memories WHERE folder = {_FOLDER}",
        {"store": store, "folder": folder},
    )
    return {file: Content(*more) for file, *more in rows}


def content(tx: Read, store: str, path: str, file: str) -> Content | None:
    """What a memory's file held when it was read, also if its name is spelt in another Unicode form on disk."""
    column = "file = :file" if file.isascii() else "path = :path"
    row = tx.one(
        f"SELECT content_hash, stated_at, changed_ns FROM memories WHERE folder = {_FOLDER} AND {column}",
        {"store": store, "folder": path.rpartition("/")[0], "path": path, "file": file},
    )
    return Content(*row) if row else None


def has_former_contents(tx: Read, store: str) -> bool:
    return tx.one(f"SELECT 1 FROM former_contents WHERE store = {_STORE} LIMIT 1", {"store": store}) is not None


def former_content(tx: Read, store: str, digest: bytes) -> Content | None:
    """A content that a file of the store held earlier."""
    row = tx.one(
        f"SELECT changed_ns FROM former_contents WHERE store = {_STORE} AND content_hash = :digest",
        {"store": store, "digest": digest},
    )
    return Content(digest, None, row[0]) if row else None


def delete_former_contents(tx: Write, store: str, max_count: int) -> None:
    """Delete all former contents of a store if there are more than `max_count`."""
    tx.all(
        f"""
        DELETE FROM former_contents WHERE store = {_STORE}
            AND (SELECT count(*) FROM former_contents WHERE store = {_STORE}) > :max_count
        """,
        {"store": store, "max_count": max_count},
    )


def put_folder(tx: Write, store: str, listing: Listing, fingerprint: str, files: Iterable[str]) -> None:
    """Store a folder, and delete the rows of its files that are not in `files`."""
    values = {"store": store, "folder": listing.path}
    tx.all("INSERT INTO stores (folder) VALUES (:store) ON CONFLICT DO NOTHING", {"store": store})
    tx.all(
        f"""
        INSERT INTO folders (store, path, fingerprint) VALUES ({_STORE}, :folder, :fingerprint)
        ON CONFLICT (store, path) DO UPDATE SET fingerprint = excluded.fingerprint
        """,
        {**values, "fingerprint": fingerprint},
    )
    tx.all(
        f"DELETE FROM memories WHERE folder = {_FOLDER} AND file NOT IN (SELECT value FROM json_each(:files))",
        {**values, "files": json.dumps(list(files))},
    )


def put_memory(tx: Write, store: str, listing: Listing, file: str, read: ReadFile) -> None:
    tx.all(
        f"""
        INSERT INTO memories (
            store, folder, file, is_settled, mtime_ns, size, inode,
            path, token_estimate, summary, created_at, updated_at, expires_at, updated_ms, expires_ms, tags,
            content_hash, stated_at, changed_ns
        ) VALUES (
            {_STORE}, {_FOLDER}, :file, :is_settled, :mtime_ns, :size, :inode,
            :path, :token_estimate, :summary, :created_at, :updated_at, :expires_at, :updated_ms, :expires_ms, :tags,
            :digest, :stated_at, :changed_ns
        )
        ON CONFLICT (folder, file) DO UPDATE SET
            is_settled = excluded.is_settled, mtime_ns = excluded.mtime_ns,
            size = excluded.size, inode = excluded.inode,
            path = excluded.path, token_estimate = excluded.token_estimate, summary = excluded.summary,
            created_at = excluded.created_at, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
            updated_ms = excluded.updated_ms, expires_ms = excluded.expires_ms, tags = excluded.tags,
            content_hash = excluded.content_hash, stated_at = excluded.stated_at, changed_ns = excluded.changed_ns
        """,
        {
            **vars(read.summary),
            **vars(read.content),
            "updated_at": read.content.updated_at,
            "tags": json.dumps(read.summary.tags, ensure_ascii=False),
            "updated_ms": _milliseconds(read.content.updated_at),
            "expires_ms": _milliseconds(read.summary.expires_at),
            "store": store,
            "folder": listing.path,
            "file": file,
            "is_settled": listing.files[file] == read.signature,
            "mtime_ns": read.signature[0],
            "size": read.signature[1],
            "inode": str(read.signature[2]),
        },
    )


def delete_other_folders(tx: Write, store: str, category: str, folders: Iterable[str]) -> None:
    """Delete the rows of every other folder below a category."""
    tx.all(
        f"""
        DELETE FROM folders WHERE store = {_STORE} AND {_BELOW}
            AND path NOT IN (SELECT value FROM json_each(:folders))
        """,
        {"store": store, "category": category, "folders": json.dumps(list(folders))},
    )


def delete_store(tx: Write, store: str) -> None:
    tx.all("DELETE FROM stores WHERE folder = :store", {"store": store})


def in_folder(tx: Read, store: str, folder: str) -> list[MemorySummary]:
    rows = tx.all(
        f"SELECT {_SUMMED} FROM memories WHERE folder = {_FOLDER} ORDER BY path", {"store": store, "folder": folder}
    )
    return _summed(rows)


def recent(tx: Read, store: str, category: str, limit: int, expired_by: datetime | None) -> list[MemorySummary]:
    """The latest memories in and below a category; those without a time last, by when their files changed.

    Without those expired by a moment, if one is given.
    """
    rows = tx.all(
        f"""
        SELECT {_SUMMED} FROM memories
        WHERE store = {_STORE} AND {_INSIDE}
            AND (:expired_by IS NULL OR expires_ms IS NULL OR expires_ms > :expired_by)
        ORDER BY updated_ms DESC, mtime_ns DESC, path LIMIT :limit
        """,
        {"store": store, "category": category, "limit": limit, "expired_by": _since_1970(expired_by)},
    )
    return _summed(rows)


def expired(tx: Read, store: str, by: datetime) -> list[str]:
    """Paths of the memories that are expired by a moment."""
    rows = tx.all(
        f"SELECT path FROM memories WHERE store = {_STORE} AND expires_ms <= :by ORDER BY path",
        {"store": store, "by": _since_1970(by)},
    )
    return [path for (path,) in rows]


def versions(tx: Read, store: str, expired_by: datetime) -> dict[str, str]:
    """By path, a value that changes whenever the file does; without those expired by a moment."""
    rows = tx.all(
        f"""
        SELECT path, mtime_ns || ' ' || size || ' ' || inode FROM memories
        WHERE store = {_STORE} AND (expires_ms IS NULL OR expires_ms > :expired_by)
        """,
        {"store": store, "expired_by": _since_1970(expired_by)},
    )
    return dict(rows)


def count(tx: Read, store: str, expired_by: datetime | None = None) -> int:
    """How many memories a store has, without those expired by a moment, if one is given."""
    return tx.number(
        f"""
        SELECT count(*) FROM memories
        WHERE store = {_STORE} AND (:expired_by IS NULL OR expires_ms IS NULL OR expires_ms > :expired_by)
        """,
        {"store": store, "expired_by": _since_1970(expired_by)},
    )


_STORE = "(SELECT number FROM stores WHERE folder = :store)"
_FOLDER = f"(SELECT number FROM folders WHERE store = {_STORE} AND path = :folder)"
# Not LIKE, in which % and _ are wildcards.
_INSIDE = "(:category = '' OR substr(path, 1, length(:category) + 1) = :category || '/')"
_BELOW = f"(path = :category OR {_INSIDE})"


def _milliseconds(stamp: str | None) -> int | None:
    return _since_1970(instant(stamp)) if stamp else None


def _since_1970(moment: datetime | None) -> int | None:
    return round(moment.timestamp() * 1000) if moment else None


def _summed(rows: Sequence[Sequence[Any]]) -> list[MemorySummary]:
    tags = json.loads(f"[{','.join(row[-1] for row in rows)}]")  # of all in one go: each call has its price
    return [MemorySummary(*[*row[:-1], these]) for row, these in zip(rows, tags, strict=True)]
