"""SQL of the notes: the notes themselves, their tags, links and versions, the indexes of words and of vectors."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_mcp.embedding import Space
from memory_mcp.notes.model import (
    Counted,
    Edge,
    Filter,
    Link,
    Links,
    Namespace,
    Neighbourhood,
    Node,
    Note,
    Slim,
    Stats,
    Tag,
    TagCount,
    folded,
    tag_key,
)
from memory_mcp.search import words
from memory_mcp.sqlite import Read, Write

OWN_COLUMNS = "{title content tags parts}"
CONTEXT_SHARE = 0.6  # what a word of the note before counts next to one of the note itself
LONGEST_CONTEXT = 2000  # characters of the note before that are looked at
TOP = 10

_NOTE = """
    note.seq, note.id, note.user_id, note.namespace, note.title, note.content, note.folder, note.tags,
    note.importance, note.metadata, note.source, note.client, note.created_at, note.updated_at,
    note.last_referenced_at, note.archived, note.expires_at, newer.id, note.version,
    note.has_own_title, note.previous
"""
_LIVE = "archived = 0 AND (expires_at IS NULL OR expires_at > :now)"


@dataclass(frozen=True)
class Stored:
    """A note with what only this file knows of it."""

    seq: int
    note: Note
    has_own_title: bool
    previous: int | None

    @property
    def own_title(self) -> str:
        return self.note.title if self.has_own_title else ""


# Notes


def insert(tx: Write, note: Note, *, has_own_title: bool, previous: int | None, session_id: str | None) -> Stored:
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
        _values(Stored(0, note, has_own_title, previous)) | {"session_id": session_id},
    )
    return Stored(seq, note, has_own_title, previous)


def update(tx: Write, stored: Stored) -> None:
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


def _values(stored: Stored) -> dict[str, Any]:
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


def get(tx: Read, id_: str) -> Stored | None:
    rows = tx.all(
        f"""
        SELECT {_NOTE} FROM notes AS note LEFT JOIN notes AS newer ON newer.seq = note.superseded_by
        WHERE note.id = :id
        """,
        {"id": id_},
    )
    return _stored(rows[0]) if rows else None


def _stored(row: Sequence[Any]) -> Stored:
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
        tags=_tags(tags),
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
    return Stored(seq, note, bool(has_own_title), previous)


def keep_version(tx: Write, seq: int) -> None:
    """Keep what the note says now, before it is changed."""
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


def former(tx: Read, stored: Stored, version: int) -> Note | None:
    """A note as it was in a former version."""
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
    return replace(
        stored.note,
        namespace=namespace,
        title=title,
        content=content,
        folder=folder,
        tags=_tags(tags),
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


def delete(tx: Write, seq: int) -> None:
    """Delete for good. Tags, links, versions, vectors and words go with it; wikilinks to it dangle again."""
    tx.all("DELETE FROM notes WHERE seq = :seq", {"seq": seq})


def touch(tx: Write, id_: str) -> str:
    """The instant at which a note was referenced: now."""
    tx.all("UPDATE notes SET last_referenced_at = :now WHERE id = :id", {"id": id_, "now": tx.precise_stamp})
    return tx.precise_stamp


def equal_texts(tx: Read, seq: int, limit: int) -> list[str]:
    """The other live notes of the namespace with the same text, the oldest first."""
    rows = tx.all(
        f"""
        SELECT id FROM notes
        WHERE content_key = (SELECT content_key FROM notes WHERE seq = :seq)
            AND namespace = (SELECT namespace FROM notes WHERE seq = :seq)
            AND seq <> :seq AND {_LIVE}
        ORDER BY seq LIMIT :limit
        """,
        {"seq": seq, "now": tx.precise_stamp, "limit": limit},
    )
    return [id_ for (id_,) in rows]


# Context: the note written just before in the same session


def latest_of_session(tx: Read, session_id: str | None, namespace: str, since: str) -> int | None:
    row = tx.one(
        """
        SELECT seq FROM notes
        WHERE session_id = :session AND +namespace = :namespace AND +archived = 0 AND +created_at >= :since
        ORDER BY seq DESC LIMIT 1
        """,
        {"session": session_id, "namespace": namespace, "since": since},
    )
    return row[0] if row else None


def followers(tx: Read, seq: int) -> list[int]:
    return [row[0] for row in tx.all("SELECT seq FROM notes WHERE previous = :seq", {"seq": seq})]


def close_gap(tx: Write, seq: int) -> list[int]:
    """Let the notes that followed this one follow the one before it. Returns which they are."""
    following = followers(tx, seq)
    tx.all(
        "UPDATE notes SET previous = (SELECT previous FROM notes WHERE seq = :seq) WHERE previous = :seq", {"seq": seq}
    )
    return following


# Tags


def set_tags(tx: Write, seq: int, tags: Sequence[Tag]) -> None:
    tx.all("DELETE FROM note_tags WHERE note_seq = :seq", {"seq": seq})
    tx.all(
        """
        INSERT INTO note_tags (note_seq, tag_key, tag, origin, position)
        SELECT :seq, value ->> 'key', value ->> 'tag', value ->> 'origin', key FROM json_each(:tags)
        """,
        {"seq": seq, "tags": _json([{"key": tag.key, "tag": tag.name, "origin": tag.origin} for tag in tags])},
    )


def tags_of(tx: Read, seq: int) -> list[Tag]:
    rows = tx.all("SELECT tag, origin FROM note_tags WHERE note_seq = :seq ORDER BY position", {"seq": seq})
    return [Tag(*row) for row in rows]


def tag_counts(tx: Read, namespace: str | None, at_least: int, limit: int) -> list[TagCount]:
    # Without a namespace almost every note counts: it is faster to leave out those that do not.
    counted = (
        f"IN (SELECT seq FROM notes WHERE namespace = :namespace AND {_LIVE})"
        if namespace is not None
        else "NOT IN (SELECT seq FROM notes WHERE archived = 1 UNION SELECT seq FROM notes WHERE expires_at <= :now)"
    )
    rows = tx.all(
        f"""
        SELECT max(tag), count(*) AS notes FROM note_tags WHERE note_seq {counted}
        GROUP BY tag_key HAVING notes >= :at_least
        ORDER BY notes DESC, tag_key LIMIT :limit
        """,
        {"namespace": namespace, "at_least": at_least, "limit": limit, "now": tx.precise_stamp},
    )
    return [TagCount(*row) for row in rows]


# Links


def link(tx: Write, source: int, target: int, kind: str) -> int:
    """How many links are new: one or none."""
    rows = tx.all(
        """
        INSERT OR IGNORE INTO note_links (source_seq, target_seq, kind, created_at)
        VALUES (:source, :target, :kind, :now) RETURNING 1
        """,
        {"source": source, "target": target, "kind": kind, "now": tx.precise_stamp},
    )
    return len(rows)


def unlink(tx: Write, source: int, target: int) -> int:
    """How many links are gone. A note that replaced the other no longer does."""
    rows = tx.all(
        "DELETE FROM note_links WHERE source_seq = :source AND target_seq = :target RETURNING kind",
        {"source": source, "target": target},
    )
    if ("supersedes",) in rows:
        refresh_superseded(tx, target)
    return len(rows)


def supersede(tx: Write, newer: int, older: int) -> None:
    link(tx, newer, older, "supersedes")
    refresh_superseded(tx, older)


def refresh_superseded(tx: Write, seq: int) -> None:
    """By the newest note that says so and is not archived."""
    tx.all(
        """
        UPDATE notes SET superseded_by = (
            SELECT max(newer.seq) FROM note_links JOIN notes AS newer ON newer.seq = source_seq
            WHERE target_seq = :seq AND kind = 'supersedes' AND newer.archived = 0
        ) WHERE seq = :seq
        """,
        {"seq": seq},
    )


def superseded(tx: Read, seq: int) -> list[int]:
    """The notes this one supersedes, directly."""
    rows = tx.all("SELECT target_seq FROM note_links WHERE source_seq = :seq AND kind = 'supersedes'", {"seq": seq})
    return [target for (target,) in rows]


def successors(tx: Read, seqs: Collection[int]) -> dict[int, int]:
    """Which note supersedes which: of these notes, and on along the chains. Only by notes that may be found."""
    rows = tx.all(
        f"""
        WITH RECURSIVE chain(older, newer) AS (
            SELECT note.seq, note.superseded_by FROM notes AS note
            WHERE note.seq IN (SELECT value FROM json_each(:seqs)) AND note.superseded_by IS NOT NULL
            UNION
            SELECT note.seq, note.superseded_by FROM chain JOIN notes AS note ON note.seq = chain.newer
            WHERE note.superseded_by IS NOT NULL
        )
        SELECT chain.older, chain.newer FROM chain JOIN notes ON notes.seq = chain.newer WHERE {_LIVE}
        """,
        {"seqs": _json(list(seqs)), "now": tx.precise_stamp},
    )
    return dict(rows)


def supersedes(tx: Read, newer: int, older: int) -> bool:
    """Whether one note supersedes another, also by way of others; every note does itself."""
    row = tx.one(
        """
        WITH RECURSIVE reached(seq) AS (
            SELECT :newer
            UNION
            SELECT target_seq FROM note_links JOIN reached ON source_seq = reached.seq WHERE kind = 'supersedes'
        )
        SELECT 1 FROM reached WHERE seq = :older
        """,
        {"newer": newer, "older": older},
    )
    return row is not None


def set_wikilinks(tx: Write, seq: int, titles: Iterable[str]) -> None:
    """The titles a body names. One that was resolved before keeps its target, also after a rename."""
    named = {folded(title): title for title in reversed(list(titles))}  # the first spelling stays
    named.pop(tx.all("SELECT title_key FROM notes WHERE seq = :seq", {"seq": seq})[0][0], None)  # it means itself
    tx.all(
        """
        DELETE FROM note_wikilinks
        WHERE source_seq = :seq AND title_key NOT IN (SELECT value FROM json_each(:keys))
        """,
        {"seq": seq, "keys": _json(list(named))},
    )
    tx.all(
        """
        INSERT OR IGNORE INTO note_wikilinks (source_seq, title_key, title)
        SELECT :seq, key, value FROM json_each(:titles)
        """,
        {"seq": seq, "titles": _json(named)},
    )


def resolve_wikilinks(tx: Write, seq: int) -> list[int]:
    """Point what dangles at the oldest live note of that title in the namespace: the links in this note, and those of
    other notes that mean it. Returns the other notes whose links changed."""
    rows = tx.all(
        """
        UPDATE note_wikilinks SET target_seq = found.target FROM (
            SELECT link.source_seq, link.title_key, min(target.seq) AS target
            FROM note_wikilinks AS link
            JOIN notes AS source ON source.seq = link.source_seq
            JOIN notes AS target ON target.title_key = link.title_key AND target.namespace = source.namespace
            WHERE link.target_seq IS NULL AND target.archived = 0 AND target.seq <> link.source_seq
                AND (link.source_seq = :seq OR link.title_key = (SELECT title_key FROM notes WHERE seq = :seq))
            GROUP BY link.source_seq, link.title_key
        ) AS found
        WHERE note_wikilinks.source_seq = found.source_seq AND note_wikilinks.title_key = found.title_key
        RETURNING note_wikilinks.source_seq
        """,
        {"seq": seq},
    )
    return [source for (source,) in rows if source != seq]


def titles_named(tx: Read, seq: int) -> list[str]:
    return [title for (title,) in tx.all("SELECT title FROM note_wikilinks WHERE source_seq = :seq", {"seq": seq})]


def ids_of(tx: Read, seqs: Collection[int]) -> list[str]:
    rows = tx.all(
        "SELECT id FROM notes WHERE seq IN (SELECT value FROM json_each(:seqs)) ORDER BY seq",
        {"seqs": _json(list(seqs))},
    )
    return [id_ for (id_,) in rows]


def dangle(tx: Write, seq: int) -> list[int]:
    """Undo what resolved to a note, and what it resolved itself: it moves, or goes. Returns the notes that named it."""
    rows = tx.all(
        """
        UPDATE note_wikilinks SET target_seq = NULL WHERE target_seq = :seq OR source_seq = :seq RETURNING source_seq
        """,
        {"seq": seq},
    )
    return [source for (source,) in rows if source != seq]


def links_of(tx: Read, seq: int, limit: int) -> Links:
    def ends(sql: str) -> list[Link]:
        return [Link(*row) for row in tx.all(sql, {"seq": seq, "limit": limit})]

    dangling = tx.all(
        "SELECT title FROM note_wikilinks WHERE source_seq = :seq AND target_seq IS NULL ORDER BY title LIMIT :limit",
        {"seq": seq, "limit": limit},
    )
    return Links(
        outgoing=ends(
            """
            SELECT id, title FROM notes
            WHERE seq IN (SELECT target_seq FROM note_edges WHERE source_seq = :seq) AND archived = 0
            ORDER BY seq LIMIT :limit
            """
        ),
        incoming=ends(
            """
            SELECT id, title FROM notes
            WHERE seq IN (SELECT source_seq FROM note_edges WHERE target_seq = :seq) AND archived = 0
            ORDER BY seq LIMIT :limit
            """
        ),
        dangling=[title for (title,) in dangling],
    )


def neighbours(tx: Read, root: int, depth: int, most: int) -> Neighbourhood:
    """Breadth first, along links in both directions, through notes that are not archived."""
    # A note is reached at most once at each depth, so this many rows hold one note more than are wanted.
    rows = tx.all(
        """
        WITH RECURSIVE reached(seq, depth) AS (
            SELECT :root, 0
            UNION
            SELECT next.seq, reached.depth + 1
            FROM reached
            JOIN notes AS next ON +next.archived = 0 AND (next.expires_at IS NULL OR next.expires_at > :now)
                AND next.seq IN (
                SELECT target_seq FROM note_links WHERE source_seq = reached.seq
                UNION ALL
                SELECT source_seq FROM note_links WHERE target_seq = reached.seq
                UNION ALL
                SELECT target_seq FROM note_wikilinks WHERE source_seq = reached.seq AND target_seq IS NOT NULL
                UNION ALL
                SELECT source_seq FROM note_wikilinks WHERE target_seq = reached.seq
            )
            WHERE reached.depth < :depth
            ORDER BY 2, 1 LIMIT :rows
        )
        SELECT note.seq, note.id, note.title, min(reached.depth) AS nearest
        FROM reached JOIN notes AS note USING (seq) GROUP BY note.seq ORDER BY nearest, note.seq LIMIT :most
        """,
        {"root": root, "depth": depth, "rows": (depth + 1) * (most + 1), "most": most + 1, "now": tx.precise_stamp},
    )
    shown = rows[:most]
    edges = tx.all(
        """
        SELECT DISTINCT source.id, target.id FROM note_edges AS edge
        JOIN notes AS source ON source.seq = edge.source_seq
        JOIN notes AS target ON target.seq = edge.target_seq
        WHERE edge.source_seq IN (SELECT value FROM json_each(:seqs))
            AND edge.target_seq IN (SELECT value FROM json_each(:seqs))
        ORDER BY edge.source_seq, edge.target_seq
        """,
        {"seqs": _json([row[0] for row in shown])},
    )
    return Neighbourhood(
        nodes=[Node(id_, title, nearest) for _, id_, title, nearest in shown],
        edges=[Edge(*row) for row in edges],
        truncated=len(rows) > most,
    )


# Lists and counts


def namespaces(tx: Read) -> list[Namespace]:
    rows = tx.all(
        f"""
        SELECT namespace, count(*), max(updated_at) FROM notes WHERE {_LIVE}
        GROUP BY namespace ORDER BY max(updated_at) DESC, namespace
        """,
        {"now": tx.precise_stamp},
    )
    return [Namespace(*row) for row in rows]


def recent(tx: Read, chosen: Filter, limit: int) -> list[Slim]:
    rows = tx.all(
        f"""
        SELECT id, title, substr(content, 1, 1000), namespace, tags, importance, updated_at, last_referenced_at
        FROM notes WHERE {_fits(chosen)}
        ORDER BY last_referenced_at DESC NULLS LAST, updated_at DESC, seq DESC LIMIT :limit
        """,
        _filter_values(tx, chosen) | {"limit": limit},
    )
    return [_slim(*row) for row in rows]


def archived(tx: Read, limit: int) -> list[Slim]:
    """Notes that were deleted softly, the last one first."""
    rows = tx.all(
        """
        SELECT id, title, substr(content, 1, 1000), namespace, tags, importance, updated_at, last_referenced_at
        FROM notes WHERE archived = 1 ORDER BY updated_at DESC, seq DESC LIMIT :limit
        """,
        {"limit": limit},
    )
    return [_slim(*row) for row in rows]


def _slim(
    id_: str, title: str, start: str, namespace: str, tags: str, importance: float, updated: str, referenced: str | None
) -> Slim:
    return Slim(id_, title, start, namespace, _tags(tags), importance, updated, referenced)


def stats(tx: Read, namespace: str | None) -> Stats:
    rows = tx.all(
        f"""
        SELECT namespace, source, client, count(*), total(importance) FROM notes
        WHERE {_LIVE} AND (:namespace IS NULL OR namespace = :namespace)
        GROUP BY namespace, source, client
        """,
        {"namespace": namespace, "now": tx.precise_stamp},
    )
    by_namespace, by_source, by_client = Counter[str](), Counter[str](), Counter[str]()
    for place, source, client, notes, _ in rows:
        by_namespace[place] += notes
        by_source[source] += notes
        by_client[client] += notes
    total = by_source.total()
    clients = sorted((-notes, client) for client, notes in by_client.items() if client)
    return Stats(
        total=total,
        by_source=dict(by_source),
        by_namespace=dict(by_namespace),
        top_tags=[Counted(found.tag, found.count) for found in tag_counts(tx, namespace, 1, TOP)],
        top_clients=[Counted(client, -notes) for notes, client in clients[:TOP]],
        avg_importance=round(sum(row[4] for row in rows) / total, 6) if total else 0.0,
    )


def notes_after(tx: Read, seq: int, limit: int) -> list[tuple[int, str, str]]:
    """(seq, id, title) in the order they were written."""
    return tx.all(
        f"SELECT seq, id, title FROM notes WHERE seq > :seq AND {_LIVE} ORDER BY seq LIMIT :limit",
        {"seq": seq, "limit": limit, "now": tx.precise_stamp},
    )


def tags_starting(tx: Read, prefix: str, limit: int) -> list[str]:
    """Tags of live notes, the most used first."""
    rows = tx.all(
        """
        SELECT max(tag) FROM note_tags WHERE tag_key >= :prefix AND tag_key < :prefix || char(0x10FFFF)
            AND note_seq NOT IN (
                SELECT seq FROM notes WHERE archived = 1 UNION SELECT seq FROM notes WHERE expires_at <= :now
            )
        GROUP BY tag_key ORDER BY count(*) DESC, tag_key LIMIT :limit
        """,
        {"prefix": prefix, "limit": limit, "now": tx.precise_stamp},
    )
    return [tag for (tag,) in rows]


def titles_like(tx: Read, text: str, limit: int) -> list[str]:
    """Titles that start with the text, then those that hold it."""
    rows = tx.all(
        f"""
        SELECT title FROM notes WHERE instr(title_key, :text) AND {_LIVE}
        GROUP BY title_key ORDER BY min(instr(title_key, :text)), title_key LIMIT :limit
        """,
        {"text": text, "limit": limit, "now": tx.precise_stamp},
    )
    return [title for (title,) in rows]


def ids_like(tx: Read, text: str, limit: int) -> list[str]:
    """Ids that start with the text, or whose note's title holds it; the last referenced first."""
    rows = tx.all(
        f"""
        SELECT id FROM notes WHERE (id >= :text AND id < :text || 'g' OR instr(title_key, :text)) AND {_LIVE}
        ORDER BY last_referenced_at DESC NULLS LAST, updated_at DESC, seq DESC LIMIT :limit
        """,
        {"text": text, "limit": limit, "now": tx.precise_stamp},
    )
    return [id_ for (id_,) in rows]


# Words


def index(tx: Write, seq: int) -> None:
    """Make a note findable by its words; an archived one no longer is."""
    tx.all("DELETE FROM notes_words WHERE rowid = :seq", {"seq": seq})
    row = tx.one(
        """
        SELECT CASE note.has_own_title WHEN 1 THEN note.title ELSE '' END, note.content,
            (SELECT group_concat(tag, ' ') FROM note_tags WHERE note_seq = note.seq AND origin = 'user'),
            coalesce(substr(before.content, -:most), '')
        FROM notes AS note LEFT JOIN notes AS before ON before.seq = note.previous AND before.expires_at IS NULL
        WHERE note.seq = :seq AND note.archived = 0
        """,
        {"seq": seq, "most": LONGEST_CONTEXT},
    )
    if row is None:
        return
    title, content, tags, context = row
    tx.all(
        """
        INSERT INTO notes_words (rowid, title, content, tags, parts, context)
        VALUES (:seq, :title, :content, :tags, :parts, :context)
        """,
        {
            "seq": seq,
            "title": words.spaced(title),
            "content": words.spaced(content),
            "tags": words.spaced(tags or ""),
            "parts": words.parts(f"{title} {content}"),
            "context": words.spaced(context),
        },
    )


@dataclass(frozen=True)
class Allowed:
    """Which notes a search may find: a byte for each, by its seq, and how many they are."""

    flags: bytes
    count: int


def allowed(tx: Read, chosen: Filter) -> Allowed | None:
    """The notes that fit a filter. None if all that are indexed do."""
    top = tx.number("SELECT coalesce(max(seq), 0) FROM notes")
    if chosen.is_empty:
        expired = tx.all("SELECT seq FROM notes WHERE expires_at <= :now AND archived = 0", {"now": tx.precise_stamp})
        return _flagged(top, 1, expired) if expired else None
    return _flagged(top, 0, tx.all(f"SELECT seq FROM notes WHERE {_fits(chosen)}", _filter_values(tx, chosen)))


def _flagged(top: int, others: int, seqs: Sequence[tuple[int]]) -> Allowed:
    """The notes up to `top`: these one way, all others the other way. Notes that came later are not allowed."""
    flags = bytearray([others]) * (top + 1)
    for (seq,) in seqs:
        flags[seq] = 1 - others
    return Allowed(bytes(flags) + b"\0", sum(flags))


@dataclass(frozen=True)
class WordIndex:
    """The index of words as search/finding.py asks it."""

    tx: Read
    allowed: Allowed | None

    def expression(self, query: str) -> str | None:
        """Phrases, prefixes and operators, but no columns: "Context: …" is a text, and so is "Do NOT deploy"."""
        return None if words.reads_like_a_sentence(query) else words.syntax(query, ("nothing",))

    def documents(self) -> int:
        return self.allowed.count if self.allowed else self.tx.number("SELECT count(*) FROM notes_words_docsize")

    def count(self, term: str, most: int) -> int:
        return self.tx.number(
            f"""
            SELECT count(*) FROM (
                SELECT 1 FROM notes_words WHERE notes_words MATCH :term {self._only("rowid")} LIMIT :most
            )
            """,
            self._values() | {"term": term, "most": most},
        )

    def holding(self, term: str, among: Collection[int]) -> dict[int, float]:
        """Those whose context alone holds it do so less."""
        context = self._matches(f"{{context}} : {term}", among)
        own = self._matches(f"{OWN_COLUMNS} : {term}", among)
        return dict.fromkeys(context, CONTEXT_SHARE) | dict.fromkeys(own, 1.0)

    def _matches(self, expression: str, among: Collection[int]) -> list[int]:
        # The plus keeps SQLite from running MATCH once for each of them.
        rows = self.tx.all(
            """
            SELECT rowid FROM notes_words
            WHERE notes_words MATCH :expression AND +rowid IN (SELECT value FROM json_each(:among))
            """,
            {"expression": expression, "among": _json(list(among))},
        )
        return [seq for (seq,) in rows]

    def matching(self, expression: str, most: int) -> dict[int, float]:
        """The bm25 of the best matches, higher for better."""
        # The plus keeps FTS5's own sorter out, which is slower than SQLite's.
        rows = self.tx.all(
            f"""
            SELECT rowid, -rank FROM notes_words
            WHERE notes_words MATCH :expression {self._only("rowid")} ORDER BY +rank LIMIT :most
            """,
            self._values() | {"expression": expression, "most": most},
        )
        return dict(rows)

    def matching_syntax(self, expression: str, most: int) -> dict[int, float]:
        """An expression is about a note, and not about the one before it."""
        return self.matching(f"{OWN_COLUMNS} : ({expression})", most)

    def containing(self, text: str, most: int) -> dict[int, float]:
        """The newest notes that hold a text without any word in it, such as an emoji: no index knows it."""
        rows = self.tx.all(
            f"""
            SELECT seq, 1.0 FROM notes
            WHERE archived = 0 AND (instr(title, :text) OR instr(content, :text)) {self._only("seq")}
            ORDER BY seq DESC LIMIT :most
            """,
            self._values() | {"text": text, "most": most},
        )
        return dict(rows)

    def _only(self, seq: str) -> str:
        """A further condition that a note may be found: a look at its byte, 40 times as fast as one at its row."""
        return f"AND substr(:flags, {seq} + 1, 1) = x'01'" if self.allowed else ""

    def _values(self) -> dict[str, Any]:
        return {"flags": self.allowed.flags} if self.allowed else {}


def fitting(tx: Read, chosen: Filter, among: Collection[int]) -> list[int]:
    """Those among some notes that fit a filter."""
    # CROSS keeps the order: the few first, then each one's row.
    rows = tx.all(
        f"""
        SELECT notes.seq FROM json_each(:among) AS one CROSS JOIN notes ON notes.seq = one.value
        WHERE {_fits(chosen)}
        """,
        _filter_values(tx, chosen) | {"among": _json(list(among))},
    )
    return [seq for (seq,) in rows]


def newest(tx: Read, chosen: Filter, limit: int) -> list[int]:
    rows = tx.all(
        f"SELECT seq FROM notes WHERE {_fits(chosen)} ORDER BY created_at DESC, seq DESC LIMIT :limit",
        _filter_values(tx, chosen) | {"limit": limit},
    )
    return [seq for (seq,) in rows]


def importances(tx: Read, seqs: Collection[int]) -> dict[int, float]:
    rows = tx.all(
        "SELECT seq, importance FROM notes WHERE seq IN (SELECT value FROM json_each(:seqs))",
        {"seqs": _json(list(seqs))},
    )
    return dict(rows)


def by_seq(tx: Read, seqs: Sequence[int]) -> list[Stored]:
    """These notes, in the order given."""
    rows = tx.all(
        f"""
        SELECT {_NOTE} FROM json_each(:seqs) AS wanted CROSS JOIN notes AS note ON note.seq = wanted.value
        LEFT JOIN notes AS newer ON newer.seq = note.superseded_by ORDER BY wanted.key
        """,
        {"seqs": _json(list(seqs))},
    )
    return [_stored(row) for row in rows]


def _fits(chosen: Filter) -> str:
    """The conditions of a filter on rows of `notes`."""
    conditions = [_LIVE]
    if chosen.namespace is not None:
        conditions.append("namespace = :namespace")
    if chosen.min_importance > 0:
        conditions.append("importance >= :min_importance")
    if chosen.source is not None:
        conditions.append("source = :source")
    if chosen.created_after is not None:
        conditions.append("created_at >= :created_after")
    if chosen.created_before is not None:
        conditions.append("created_at < :created_before")
    for number in range(len(chosen.tags)):
        conditions.append(f"notes.seq IN (SELECT note_seq FROM note_tags WHERE tag_key = :tag{number})")
    return " AND ".join(conditions)


def _filter_values(tx: Read, chosen: Filter) -> dict[str, Any]:
    return {
        "now": tx.precise_stamp,
        "namespace": chosen.namespace,
        "min_importance": chosen.min_importance,
        "source": chosen.source,
        "created_after": chosen.created_after,
        "created_before": chosen.created_before,
        **{f"tag{number}": tag_key(tag) for number, tag in enumerate(chosen.tags)},
    }


# Vectors and the queue


@dataclass(frozen=True)
class Waiting:
    """A note whose turn it is to be embedded."""

    seq: int
    ticket: int
    title: str  # empty if it is the content's first line
    content: str
    context: str  # the note before it


def enqueue(tx: Write, seq: int) -> None:
    """Have a note embedded, or embedded anew. Whoever has claimed it works in vain."""
    tx.all("DELETE FROM embed_queue WHERE note_id = :seq", {"seq": seq})
    tx.all("INSERT INTO embed_queue (note_id, due_at) VALUES (:seq, :now)", {"seq": seq, "now": tx.precise_stamp})


def enqueue_all(tx: Write) -> None:
    """Put every live note on the queue; those that wait already keep their place."""
    tx.all(
        """
        INSERT OR IGNORE INTO embed_queue (note_id, due_at)
        SELECT seq, :now FROM notes WHERE archived = 0
        """,
        {"now": tx.precise_stamp},
    )


def forget_vectors(tx: Write, seq: int) -> None:
    tx.all("DELETE FROM embed_queue WHERE note_id = :seq", {"seq": seq})
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq", {"seq": seq})


def forget_context(tx: Write, seq: int) -> None:
    """Forget the vector that a note has together with the one before it."""
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq AND part = -1", {"seq": seq})


def is_waiting(tx: Read) -> bool:
    return tx.one("SELECT 1 FROM embed_queue LIMIT 1") is not None


def is_queued(tx: Read, seq: int) -> bool:
    return tx.one("SELECT 1 FROM embed_queue WHERE note_id = :seq", {"seq": seq}) is not None


def queue_size(tx: Read) -> int:
    return tx.number("SELECT count(*) FROM embed_queue")


def due(tx: Read, most: int) -> list[tuple[int, int, int]]:
    """(ticket, attempts, length) of notes whose turn it is and that nobody has claimed."""
    return tx.all(
        """
        SELECT queue.ticket, queue.attempts, length(note.content)
        FROM embed_queue AS queue JOIN notes AS note ON note.seq = queue.note_id
        WHERE queue.due_at <= :now AND (queue.claimed_until IS NULL OR queue.claimed_until <= :now)
        ORDER BY queue.attempts, queue.ticket LIMIT :most
        """,
        {"now": tx.precise_stamp, "most": most},
    )


def claim(tx: Write, worker: str, tickets: Sequence[int], until: str) -> list[Waiting]:
    tx.all(
        """
        UPDATE embed_queue SET claimed_by = :worker, claimed_until = :until
        WHERE ticket IN (SELECT value FROM json_each(:tickets))
        """,
        {"worker": worker, "until": until, "tickets": _json(list(tickets))},
    )
    rows = tx.all(
        """
        SELECT note.seq, queue.ticket, CASE note.has_own_title WHEN 1 THEN note.title ELSE '' END, note.content,
            coalesce(before.content, '')
        FROM embed_queue AS queue JOIN notes AS note ON note.seq = queue.note_id
        LEFT JOIN notes AS before ON before.seq = note.previous AND before.expires_at IS NULL
        WHERE queue.ticket IN (SELECT value FROM json_each(:tickets)) ORDER BY queue.ticket
        """,
        {"tickets": _json(list(tickets))},
    )
    return [Waiting(*row) for row in rows]


def finish(tx: Write, ticket: int) -> bool:
    """Take a note off the queue. False if it has changed since and waits anew, or is gone."""
    return bool(tx.all("DELETE FROM embed_queue WHERE ticket = :ticket RETURNING 1", {"ticket": ticket}))


def put_off(tx: Write, ticket: int, until: str, reason: str) -> None:
    tx.all(
        """
        UPDATE embed_queue
        SET attempts = attempts + 1, due_at = :until, claimed_by = NULL, claimed_until = NULL, last_error = :reason
        WHERE ticket = :ticket
        """,
        {"ticket": ticket, "until": until, "reason": reason},
    )


def has_claims(tx: Read, worker: str) -> bool:
    return tx.one("SELECT 1 FROM embed_queue WHERE claimed_by = :worker LIMIT 1", {"worker": worker}) is not None


def let_go(tx: Write, worker: str) -> None:
    tx.all(
        "UPDATE embed_queue SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = :worker", {"worker": worker}
    )


def attempts(tx: Read, ticket: int) -> int:
    row = tx.one("SELECT attempts FROM embed_queue WHERE ticket = :ticket", {"ticket": ticket})
    return row[0] if row else 0


def set_vectors(tx: Write, seq: int, vectors: Mapping[int, bytes]) -> None:
    """Vectors by part; -1 is the note with the one before it."""
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq", {"seq": seq})
    for part, vector in vectors.items():
        tx.all(
            "INSERT INTO note_vectors (note_seq, part, vector) VALUES (:seq, :part, :vector)",
            {"seq": seq, "part": part, "vector": vector},
        )


def space(tx: Read) -> Space | None:
    """The space the vectors are of."""
    row = tx.one("SELECT name FROM embedding_space")
    return Space.parse(row[0]) if row else None


def background(tx: Read) -> bytes:
    rows = tx.all("SELECT background FROM embedding_space")
    return bytes(rows[0][0])


def set_space(tx: Write, space: Space, background: bytes) -> None:
    """From now on vectors are of this space: there are none yet, and every note waits."""
    forget_space(tx)
    tx.all(
        """
        INSERT INTO embedding_space (only_one, name, dimensions, background, chosen_at)
        VALUES (1, :name, :dimensions, :background, :now)
        """,
        {
            "name": space.name,
            "dimensions": space.dimensions,
            "background": background,
            "now": tx.precise_stamp,
        },
    )


def forget_space(tx: Write) -> None:
    tx.all("DELETE FROM embedding_space")
    tx.all("DELETE FROM note_vectors")
    tx.all("DELETE FROM embed_queue")
    enqueue_all(tx)


def changed_vectors(tx: Read, after: int) -> Iterator[tuple[int, int, int | None, bytes | None]]:
    """(change, note, part, vector) of what changed after `after`; no part for a note without vectors."""
    return tx.each(
        """
        SELECT change.seq, change.note_seq, own.part, own.vector FROM vector_changes AS change
        LEFT JOIN note_vectors AS own ON own.note_seq = change.note_seq AND own.part >= 0
        WHERE change.seq > :after ORDER BY change.seq, own.part
        """,
        {"after": after},
    )


def context_vectors(tx: Read, seqs: Sequence[int], length: int) -> dict[int, bytes]:
    """Of these notes taken together with the ones before them, those vectors that are `length` bytes long."""
    rows = tx.all(
        """
        SELECT note_seq, vector FROM note_vectors
        WHERE note_seq IN (SELECT value FROM json_each(:seqs)) AND part = -1 AND length(vector) = :length
        """,
        {"seqs": _json(list(seqs)), "length": length},
    )
    return dict(rows)


def vector(tx: Read, seq: int) -> bytes | None:
    row = tx.one("SELECT vector FROM note_vectors WHERE note_seq = :seq AND part = 0", {"seq": seq})
    return row[0] if row else None


def embedded(tx: Read) -> int:
    return tx.number("SELECT count(*) FROM note_vectors WHERE part = 0")


def count(tx: Read) -> int:
    return tx.number("SELECT count(*) FROM notes WHERE archived = 0")


def _tags(text: str) -> list[str]:
    return [tag for tag in text.split(",") if tag]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
