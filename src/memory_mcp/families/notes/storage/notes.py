"""SQL for notes: their rows, former versions and tags."""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_mcp.engines.texts import Query
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.model import IMPORTED_FROM, ImportedNote, ImportOrigin, Note, Tag, folded

LIVE = "archived = 0 AND (expires_at IS NULL OR expires_at > :now)"


def inside(within: str | None, notes: str = "notes") -> str:
    """The SQL condition for notes that a caller may see: if confined to a namespace (`:within`), only those in it."""
    return "TRUE" if within is None else f"{notes}.namespace = :within"


_NOTE = """
    note.seq, note.id, note.user_id, note.namespace, note.title, note.content, note.folder, note.tags,
    note.importance, note.metadata, note.source, note.client, note.created_at, note.updated_at,
    note.last_referenced_at, note.archived, note.expires_at, newer.id, note.version,
    note.has_own_title, note.previous
"""


@dataclass(frozen=True)
class StoredNote:
    """A note with its internal fields."""

    seq: int
    note: Note
    has_own_title: bool
    previous: int | None

    @property
    def own_title(self) -> str:
        return self.note.title if self.has_own_title else ""


def insert(tx: Write, note: Note, *, has_own_title: bool, previous: int | None, session_id: str | None) -> StoredNote:
    seq = tx.number(
        """
        INSERT INTO notes (
            id, user_id, mcp_namespace, title, has_own_title, title_key, content, content_key, folder, tags,
            importance, metadata, source, client, session_id, created_at, updated_at, expires_at, previous
        )
        VALUES (
            :id, :user_id, :namespace, :title, :has_own_title, :title_key, :content, :content_key, :folder, :tags,
            :importance, :metadata, :source, :client, :session_id, :created_at, :updated_at, :expires_at, :previous
        )
        RETURNING seq
        """,
        _values(StoredNote(0, note, has_own_title, previous)) | {"session_id": session_id},
    )
    return StoredNote(seq, note, has_own_title, previous)


def update(tx: Write, stored: StoredNote) -> None:
    tx.all(
        """
        UPDATE notes SET
            mcp_namespace = :namespace, title = :title, has_own_title = :has_own_title, title_key = :title_key,
            content = :content, content_key = :content_key, folder = :folder, tags = :tags,
            importance = :importance, metadata = :metadata, updated_at = :updated_at, expires_at = :expires_at,
            archived = :archived, previous = :previous, version = :version
        WHERE seq = :seq
        """,
        _values(stored),
    )


def _values(stored: StoredNote) -> dict[str, Any]:
    note = stored.note
    return {
        "seq": stored.seq,
        "id": note.id,
        "user_id": note.user_id,
        "namespace": note.namespace,
        "title": note.title,
        "has_own_title": stored.has_own_title,
        "title_key": folded(note.title),
        "content": note.content,
        "content_key": content_key(note.content),
        "folder": note.folder,
        "tags": ",".join(note.tags),
        "importance": note.importance,
        "metadata": _json(note.metadata),
        "source": note.source,
        "client": note.client,
        "created_at": note.created_at,
        "updated_at": note.updated_at,
        "expires_at": note.expires_at,
        "archived": note.archived,
        "previous": stored.previous,
        "version": note.version,
    }


def content_key(content: str) -> bytes:
    return hashlib.sha256(folded(content).encode()).digest()[:16]


def get(tx: Read, id_: str, within: str | None = None) -> StoredNote | None:
    rows = tx.all(
        f"""
        SELECT {_NOTE} FROM notes AS note
        LEFT JOIN notes AS newer ON newer.seq = note.superseded_by AND {inside(within, "newer")}
        WHERE note.id = :id AND {inside(within, "note")}
        """,
        {"id": id_, "within": within},
    )
    return _stored(rows[0]) if rows else None


def ids_starting(tx: Read, beginning: str, within: str | None, limit: int) -> list[str]:
    """The ids that begin like this, of notes that the caller may see."""
    rows = tx.all(
        f"SELECT id FROM notes AS note WHERE id BETWEEN :first AND :last AND {inside(within, 'note')} LIMIT :limit",
        {"first": beginning, "last": f"{beginning}z", "within": within, "limit": limit},
    )
    return [id_ for (id_,) in rows if id_.startswith(beginning)]


def by_seq(tx: Read, seqs: Sequence[int], within: str | None = None) -> list[StoredNote]:
    """These notes, which the caller may see, in the order given."""
    if not seqs:
        return []
    found = {row[0]: _stored(row) for row in tx.all(*by_seq_query(seqs, within))}
    return [found[seq] for seq in seqs if seq in found]


def by_seq_query(seqs: Sequence[int], within: str | None) -> Query:
    sql = f"""
        SELECT {_NOTE} FROM notes AS note
        LEFT JOIN notes AS newer ON newer.seq = note.superseded_by AND {inside(within, "newer")}
        WHERE note.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
    """
    return sql, {"seqs": json.dumps(list(seqs)), "within": within}


def everything(tx: Read) -> Iterator[StoredNote]:
    """Every note, archived or not, in the order they were written."""
    rows = tx.each(
        f"""
        SELECT {_NOTE} FROM notes AS note LEFT JOIN notes AS newer ON newer.seq = note.superseded_by ORDER BY note.seq
        """
    )
    return map(_stored, rows)


def count_everything(tx: Read) -> int:
    return int(tx.all("SELECT count(*) FROM notes")[0][0])


def set_referenced(tx: Write, seq: int, at: str | None) -> None:
    tx.all("UPDATE notes SET last_referenced_at = :at WHERE seq = :seq", {"seq": seq, "at": at})


def _stored(row: Sequence[Any]) -> StoredNote:
    seq, *fields, has_own_title, previous = row
    (id_, user, namespace, title, content, folder, tags, importance, metadata, source, client, *rest) = fields
    created, updated, referenced, archived, expires, superseded_by, version = rest
    note = Note(
        id=id_,
        user_id=user,
        namespace=namespace,
        title=title,
        content=content,
        folder=folder,
        tags=tag_names(tags),
        importance=importance,
        metadata=json.loads(metadata),
        source=source,
        client=client,
        created_at=created,
        updated_at=updated,
        last_referenced_at=referenced,
        archived=bool(archived),
        expires_at=expires,
        superseded_by=superseded_by,
        version=version,
    )
    return StoredNote(seq, note, bool(has_own_title), previous)


def ids_of(tx: Read, seqs: Collection[int]) -> list[str]:
    if not seqs:
        return []
    rows = tx.all(
        "SELECT id FROM notes WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs)) ORDER BY seq",
        {"seqs": json.dumps(list(seqs))},
    )
    return [id_ for (id_,) in rows]


def namespaces_of(tx: Read, ids: Collection[str]) -> dict[str, str]:
    rows = tx.all(
        "SELECT id, namespace FROM notes WHERE id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids))},
    )
    return dict(rows)


def delete(tx: Write, seq: int) -> None:
    """Delete permanently, with tags, links, versions, vectors and words; wikilinks to it dangle again."""
    tx.all("DELETE FROM notes WHERE seq = :seq", {"seq": seq})


def touch(tx: Write, id_: str) -> str | None:
    """Record that a note was referenced now. Returns its namespace; None if there is no such note any more."""
    row = tx.one(
        "UPDATE notes SET last_referenced_at = :now WHERE id = :id RETURNING namespace",
        {"id": id_, "now": tx.precise_stamp},
    )
    return row[0] if row else None


def equal_texts(tx: Read, seq: int, limit: int) -> list[str]:
    """The other live notes of the namespace with the same text, the oldest first."""
    return [id_ for (id_,) in tx.all(*equal_texts_query(tx, seq, limit))]


def equal_texts_query(tx: Read, seq: int, limit: int) -> Query:
    sql = f"""
        SELECT id FROM notes
        WHERE content_key = (SELECT content_key FROM notes WHERE seq = :seq)
            AND namespace = (SELECT namespace FROM notes WHERE seq = :seq)
            AND seq <> :seq AND {LIVE}
        ORDER BY seq LIMIT :limit
    """
    return sql, {"seq": seq, "now": tx.precise_stamp, "limit": limit}


def imported(tx: Read, format_: str) -> list[ImportedNote]:
    """The notes from imports of a format, including archived ones."""
    rows = tx.all(
        f"""
        SELECT id, version, origin ->> 'id', origin ->> 'digest', origin ->> 'version'
        FROM (
            SELECT id, version, metadata -> '{IMPORTED_FROM}' AS origin FROM notes WHERE source = 'import'
        ) AS imported
        WHERE origin ->> 'format' = :format AND origin ->> 'id' IS NOT NULL
        """,
        {"format": format_},
    )
    return [
        ImportedNote(id_, ImportOrigin(format_, theirs, digest, then), version)
        for id_, version, theirs, digest, then in rows
    ]


# Former versions


def save_version(tx: Write, seq: int) -> None:
    """Store the current version, before a change."""
    tx.all(
        """
        INSERT INTO note_versions (
            note_seq, version, mcp_namespace, title, content, folder, tags, importance, metadata, expires_at,
            archived, updated_at
        )
        SELECT seq, version, mcp_namespace, title, content, folder, tags, importance, metadata, expires_at,
            archived, updated_at
        FROM notes WHERE seq = :seq
        """,
        {"seq": seq},
    )


def former(tx: Read, stored: StoredNote, version: int, within: str | None) -> Note | None:
    """A former version of a note. A confined caller sees only versions in their namespace."""
    row = tx.one(
        """
        SELECT coalesce(nullif(mcp_namespace, ''), 'default'), title, content, folder, tags, importance, metadata,
            expires_at, archived, updated_at, version
        FROM note_versions WHERE note_seq = :seq AND version = :version
        """,
        {"seq": stored.seq, "version": version},
    )
    if row is None:
        return None
    namespace, title, content, folder, tags, importance, metadata, expires_at, archived, updated_at, number = row
    if within not in (None, namespace):
        return None
    return replace(
        stored.note,
        namespace=namespace,
        title=title,
        content=content,
        folder=folder,
        tags=tag_names(tags),
        importance=importance,
        metadata=json.loads(metadata),
        expires_at=expires_at,
        archived=bool(archived),
        updated_at=updated_at,
        version=number,
    )


def importance_before_archiving(tx: Read, seq: int) -> float | None:
    row = tx.one(
        """
        SELECT importance FROM note_versions WHERE note_seq = :seq AND archived = 0
        ORDER BY version DESC LIMIT 1
        """,
        {"seq": seq},
    )
    return row[0] if row else None


# Tags


def set_tags(tx: Write, seq: int, tags: Sequence[Tag]) -> None:
    """Set exactly these tags. A tag that stays is not written again, so it keeps its stamp."""
    wanted = _tags_json(tags)
    tx.all(
        """
        DELETE FROM note_tags
        WHERE note_seq = :seq AND tag_key NOT IN (SELECT value ->> 'key' FROM json_each(:tags))
        """,
        {"seq": seq, "tags": wanted},
    )
    insert_tags(tx, seq, tags)


def insert_tags(tx: Write, seq: int, tags: Sequence[Tag]) -> None:
    """Add these tags."""
    wanted = _tags_json(tags)
    tx.all(
        """
        INSERT INTO note_tags (note_seq, tag_key, tag, origin, position)
        SELECT :seq, value ->> 'key', value ->> 'tag', value ->> 'origin', key FROM json_each(:tags) WHERE true
        ON CONFLICT (tag_key, note_seq)
        DO UPDATE SET tag = excluded.tag, origin = excluded.origin, position = excluded.position
        """,
        {"seq": seq, "tags": wanted},
    )


def _tags_json(tags: Sequence[Tag]) -> str:
    return _json([{"key": tag.key, "tag": tag.name, "origin": tag.origin} for tag in tags])


def tags_of(tx: Read, seq: int) -> list[Tag]:
    rows = tx.all("SELECT tag, origin FROM note_tags WHERE note_seq = :seq ORDER BY position", {"seq": seq})
    return [Tag(*row) for row in rows]


def tag_names(text: str) -> list[str]:
    return [tag for tag in text.split(",") if tag]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
