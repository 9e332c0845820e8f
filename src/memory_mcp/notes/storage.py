"""SQL of the notes: the notes themselves, their tags, links and versions, the indexes of words and of vectors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_mcp.clock import precise_stamp
from memory_mcp.notes.model import (
    Counted,
    Edge,
    Filter,
    Link,
    Links,
    Namespace,
    Neighbours,
    Node,
    Note,
    Slim,
    Stats,
    TagCount,
)
from memory_mcp.search import words
from memory_mcp.sqlite import Read, Write

COLUMNS = ("title", "content", "tags", "parts", "context")
OWN_COLUMNS = "{title content tags parts}"
CONTEXT_SHARE = 0.6  # what a word of the note before counts next to one of the note itself
LONGEST_CONTEXT = 2000  # characters of the note before that are looked at
TOP = 10
TIDY_PIECES = 4

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


@dataclass(frozen=True)
class Tag:
    name: str
    origin: str  # user, system, inline or state

    @property
    def key(self) -> str:
        return tag_key(self.name)


def tag_key(tag: str) -> str:
    return tag.casefold()


# Notes


def insert(tx: Write, note: Note, keys: Mapping[str, Any]) -> int:
    """A new note. `keys` are the columns that callers never see."""
    return tx.number(
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
        _values(note) | dict(keys),
    )


def update(tx: Write, seq: int, note: Note, keys: Mapping[str, Any]) -> None:
    tx.all(
        """
        UPDATE notes SET
            mcp_namespace = :namespace, title = :title, has_own_title = :has_own_title, title_key = :title_key,
            content = :content, content_key = :content_key, folder = :folder, tags = :tags,
            importance = :importance, metadata = :metadata, updated_at = :updated_at, expires_at = :expires_at,
            archived = :archived, previous = :previous, version = version + 1
        WHERE seq = :seq
        """,
        _values(note) | dict(keys) | {"seq": seq},
    )


def _values(note: Note) -> dict[str, Any]:
    return {
        "id": note.id,
        "user_id": note.user_id,
        "namespace": note.namespace,
        "title": note.title,
        "content": note.content,
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
    }


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


def former(tx: Read, seq: int, version: int) -> dict[str, Any] | None:
    """The fields of a note that a former version had otherwise."""
    row = tx.one(
        """
        SELECT coalesce(nullif(mcp_namespace, ''), 'default'), title, content, folder, tags, importance, metadata,
            expires_at, archived, updated_at, version
        FROM note_versions WHERE note_seq = :seq AND version = :version
        """,
        {"seq": seq, "version": version},
    )
    if row is None:
        return None
    namespace, title, content, folder, tags, importance, metadata, expires_at, archived, updated_at, number = row
    return {
        "namespace": namespace,
        "title": title,
        "content": content,
        "folder": folder,
        "tags": _tags(tags),
        "importance": importance,
        "metadata": json.loads(metadata),
        "expires_at": expires_at,
        "archived": bool(archived),
        "updated_at": updated_at,
        "version": number,
    }


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


def touch(tx: Write, seq: int) -> str:
    now = precise_stamp(tx.now)
    tx.all("UPDATE notes SET last_referenced_at = :now WHERE seq = :seq", {"seq": seq, "now": now})
    return now


def equal_texts(tx: Read, seq: int) -> list[str]:
    """The other live notes of the namespace with the same text, the oldest first."""
    rows = tx.all(
        f"""
        SELECT id FROM notes
        WHERE content_key = (SELECT content_key FROM notes WHERE seq = :seq)
            AND namespace = (SELECT namespace FROM notes WHERE seq = :seq)
            AND seq <> :seq AND {_LIVE}
        ORDER BY seq LIMIT :limit
        """,
        {"seq": seq, "now": _now(tx), "limit": TOP},
    )
    return [id_ for (id_,) in rows]


# Context: the note written just before in the same session


def latest_of_session(tx: Read, session_id: str | None, namespace: str, since: str) -> int | None:
    row = tx.one(
        """
        SELECT seq FROM notes
        WHERE session_id = :session AND namespace = :namespace AND archived = 0 AND created_at >= :since
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
    rows = tx.all(
        f"""
        SELECT max(tag.tag), count(*) AS notes FROM note_tags AS tag JOIN notes ON notes.seq = tag.note_seq
        WHERE {_LIVE} AND (:namespace IS NULL OR namespace = :namespace)
        GROUP BY tag.tag_key HAVING notes >= :at_least
        ORDER BY notes DESC, tag.tag_key LIMIT :limit
        """,
        {"namespace": namespace, "at_least": at_least, "limit": limit, "now": _now(tx)},
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
        {"source": source, "target": target, "kind": kind, "now": _now(tx)},
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


def replaced(tx: Read, seq: int) -> list[int]:
    """The notes this one supersedes, directly."""
    rows = tx.all("SELECT target_seq FROM note_links WHERE source_seq = :seq AND kind = 'supersedes'", {"seq": seq})
    return [target for (target,) in rows]


def successors(tx: Read, seqs: Sequence[int]) -> dict[int, int]:
    """For each of these notes that is superseded, the last note of the chain of those that replace it."""
    rows = tx.all(
        """
        WITH RECURSIVE chain(start, seq, steps) AS (
            SELECT seq, superseded_by, 1 FROM notes
            WHERE seq IN (SELECT value FROM json_each(:seqs)) AND superseded_by IS NOT NULL
            UNION
            SELECT chain.start, notes.superseded_by, chain.steps + 1 FROM chain JOIN notes ON notes.seq = chain.seq
            WHERE notes.superseded_by IS NOT NULL AND chain.steps < 100
        )
        SELECT start, seq, max(steps) FROM chain GROUP BY start
        """,
        {"seqs": _json(list(seqs))},
    )
    return {start: seq for start, seq, _ in rows}


def replaces(tx: Read, newer: int, older: int) -> bool:
    """Whether `newer` replaces `older`, also by way of others."""
    row = tx.one(
        """
        WITH RECURSIVE replaced(seq) AS (
            SELECT :newer
            UNION
            SELECT target_seq FROM note_links JOIN replaced ON source_seq = replaced.seq WHERE kind = 'supersedes'
        )
        SELECT 1 FROM replaced WHERE seq = :older
        """,
        {"newer": newer, "older": older},
    )
    return row is not None


def set_wikilinks(tx: Write, seq: int, namespace: str, titles: Mapping[str, str]) -> None:
    """The titles a body names, by their keys. One that was resolved before keeps its target, also after a rename."""
    keys = _json(list(titles))
    tx.all(
        """
        DELETE FROM note_wikilinks
        WHERE source_seq = :seq AND title_key NOT IN (SELECT value FROM json_each(:keys))
        """,
        {"seq": seq, "keys": keys},
    )
    tx.all(
        """
        INSERT OR IGNORE INTO note_wikilinks (source_seq, title_key, title)
        SELECT :seq, key, value FROM json_each(:titles)
        """,
        {"seq": seq, "titles": _json(dict(titles))},
    )
    tx.all(
        """
        UPDATE note_wikilinks SET target_seq = (
            SELECT min(seq) FROM notes
            WHERE notes.title_key = note_wikilinks.title_key AND namespace = :namespace AND archived = 0
        ) WHERE source_seq = :seq AND target_seq IS NULL
        """,
        {"seq": seq, "namespace": namespace},
    )


def resolve(tx: Write, seq: int) -> None:
    """Point the wikilinks of its namespace that dangle and mean this note at it."""
    tx.all(
        """
        UPDATE note_wikilinks SET target_seq = :seq
        WHERE target_seq IS NULL AND title_key = (SELECT title_key FROM notes WHERE seq = :seq)
            AND (SELECT namespace FROM notes WHERE seq = source_seq) = (SELECT namespace FROM notes WHERE seq = :seq)
        """,
        {"seq": seq},
    )


def resolve_title(tx: Write, title_key: str, namespace: str) -> None:
    """Point the dangling wikilinks of a title at the oldest note that has it, if any does."""
    row = tx.one(
        """
        SELECT seq FROM notes
        WHERE title_key = :title_key AND namespace = :namespace AND archived = 0 ORDER BY seq LIMIT 1
        """,
        {"title_key": title_key, "namespace": namespace},
    )
    if row:
        resolve(tx, row[0])


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
            WHERE seq IN (SELECT target_seq FROM note_edges WHERE source_seq = :seq) ORDER BY seq LIMIT :limit
            """
        ),
        incoming=ends(
            """
            SELECT id, title FROM notes
            WHERE seq IN (SELECT source_seq FROM note_edges WHERE target_seq = :seq) ORDER BY seq LIMIT :limit
            """
        ),
        dangling=[title for (title,) in dangling],
    )


def neighbours(tx: Read, root: int, depth: int, most: int) -> Neighbours:
    """Breadth first, along links in both directions, through notes that are not archived."""
    # A note is reached at most once at each depth, so this many rows hold one note more than are wanted.
    rows = tx.all(
        """
        WITH RECURSIVE reached(seq, depth) AS (
            SELECT :root, 0
            UNION
            SELECT next.seq, reached.depth + 1
            FROM reached
            JOIN notes AS next ON next.archived = 0 AND next.seq IN (
                SELECT target_seq FROM note_edges WHERE source_seq = reached.seq
                UNION ALL
                SELECT source_seq FROM note_edges WHERE target_seq = reached.seq
            )
            WHERE reached.depth < :depth
            ORDER BY 2, 1 LIMIT :rows
        )
        SELECT note.seq, note.id, note.title, min(reached.depth) AS nearest
        FROM reached JOIN notes AS note USING (seq) GROUP BY note.seq ORDER BY nearest, note.seq LIMIT :most
        """,
        {"root": root, "depth": depth, "rows": (depth + 1) * (most + 1), "most": most + 1},
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
    return Neighbours(
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
        {"now": _now(tx)},
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
    values = {"namespace": namespace, "now": _now(tx), "top": TOP}
    where = f"{_LIVE} AND (:namespace IS NULL OR namespace = :namespace)"
    rows = tx.all(f"SELECT count(*), coalesce(avg(importance), 0.0) FROM notes WHERE {where}", values)
    by_source = tx.all(f"SELECT source, count(*) FROM notes WHERE {where} GROUP BY source", values)
    by_namespace = tx.all(f"SELECT namespace, count(*) FROM notes WHERE {where} GROUP BY namespace", values)
    clients = tx.all(
        f"""
        SELECT client, count(*) AS notes FROM notes WHERE {where} AND client IS NOT NULL
        GROUP BY client ORDER BY notes DESC, client LIMIT :top
        """,
        values,
    )
    return Stats(
        total=rows[0][0],
        by_source=dict(by_source),
        by_namespace=dict(by_namespace),
        top_tags=[Counted(found.tag, found.count) for found in tag_counts(tx, namespace, 1, TOP)],
        top_clients=[Counted(*row) for row in clients],
        avg_importance=round(rows[0][1], 6),
    )


def notes_after(tx: Read, seq: int, limit: int) -> list[tuple[int, str, str]]:
    """(seq, id, title) in the order they were written."""
    return tx.all(
        f"SELECT seq, id, title FROM notes WHERE seq > :seq AND {_LIVE} ORDER BY seq LIMIT :limit",
        {"seq": seq, "limit": limit, "now": _now(tx)},
    )


def titles_like(tx: Read, text: str, limit: int) -> list[str]:
    """Titles that start with the text, then those that hold it."""
    rows = tx.all(
        f"""
        SELECT title FROM notes WHERE instr(title_key, :text) AND {_LIVE}
        GROUP BY title_key ORDER BY min(instr(title_key, :text)), title_key LIMIT :limit
        """,
        {"text": text, "limit": limit, "now": _now(tx)},
    )
    return [title for (title,) in rows]


def ids_like(tx: Read, text: str, limit: int) -> list[str]:
    """Ids that start with the text, or whose note's title holds it; the last referenced first."""
    rows = tx.all(
        f"""
        SELECT id FROM notes WHERE (id >= :text AND id < :text || 'g' OR instr(title_key, :text)) AND {_LIVE}
        ORDER BY last_referenced_at DESC NULLS LAST, updated_at DESC LIMIT :limit
        """,
        {"text": text, "limit": limit, "now": _now(tx)},
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
        FROM notes AS note LEFT JOIN notes AS before ON before.seq = note.previous
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


def is_tidy(tx: Read) -> bool:
    """Whether the index of words lies in few pieces: each one more makes every search slower."""
    return tx.number("SELECT count(DISTINCT segid) FROM notes_words_idx") <= TIDY_PIECES


def tidy(tx: Write) -> None:
    """Merge pieces of the index, at most some megabytes of it: 20 to 30 ms, however many notes there are."""
    tx.all("INSERT INTO notes_words (notes_words, rank) VALUES ('merge', 1000)")


@dataclass(frozen=True)
class WordIndex:
    """The index of words as search/finding.py asks it: only the notes that fit a filter."""

    tx: Read
    chosen: Filter

    columns = COLUMNS

    def documents(self) -> int:
        if self.chosen.is_empty:
            return self.tx.number("SELECT count(*) FROM notes_words_docsize")
        return self.tx.number(f"SELECT count(*) FROM notes WHERE {_fits(self.chosen)}", self._values())

    def holding(self, term: str, most: int) -> dict[int, float]:
        """Up to `most` notes that hold a term, and how far: those whose context alone does, less."""
        context = self._matches(f"{{context}} : {term}", most)
        own = self._matches(f"{OWN_COLUMNS} : {term}", most)
        return dict.fromkeys(context, CONTEXT_SHARE) | dict.fromkeys(own, 1.0)

    def _matches(self, expression: str, most: int) -> list[int]:
        rows = self.tx.all(
            f"SELECT rowid FROM notes_words WHERE notes_words MATCH :expression {self._only()} LIMIT :most",
            self._values() | {"expression": expression, "most": most},
        )
        return [seq for (seq,) in rows]

    def matching(self, expression: str, most: int) -> dict[int, float]:
        """The bm25 of the best matches, higher for better."""
        # The plus keeps FTS5's own sorter out, which is slower than SQLite's.
        rows = self.tx.all(
            f"""
            SELECT rowid, -rank FROM notes_words
            WHERE notes_words MATCH :expression {self._only()} ORDER BY +rank LIMIT :most
            """,
            self._values() | {"expression": expression, "most": most},
        )
        return dict(rows)

    matching_syntax = matching

    def containing(self, text: str, most: int) -> dict[int, float]:
        """The newest notes that hold a text without any word in it, such as an emoji: no index knows it."""
        rows = self.tx.all(
            f"""
            SELECT seq, 1.0 FROM notes
            WHERE {_fits(self.chosen)} AND (instr(title, :text) OR instr(content, :text))
            ORDER BY seq DESC LIMIT :most
            """,
            self._values() | {"text": text, "most": most},
        )
        return dict(rows)

    def _only(self) -> str:
        """The condition that a match fits the filter: a look at each match's own row, and none if all fit."""
        if self.chosen.is_empty and not has_expired(self.tx):
            return ""
        return f"AND EXISTS (SELECT 1 FROM notes WHERE seq = notes_words.rowid AND {_fits(self.chosen)})"

    def _values(self) -> dict[str, Any]:
        return _filter_values(self.tx, self.chosen)


def has_expired(tx: Read) -> bool:
    return tx.one("SELECT 1 FROM notes WHERE expires_at <= :now LIMIT 1", {"now": _now(tx)}) is not None


def fitting(tx: Read, chosen: Filter, among: Sequence[int] | None = None) -> list[int]:
    """The notes that fit a filter: all of them, or those among some."""
    only = "" if among is None else "AND seq IN (SELECT value FROM json_each(:among))"
    rows = tx.all(
        f"SELECT seq FROM notes WHERE {_fits(chosen)} {only}",
        _filter_values(tx, chosen) | {"among": _json(list(among or ()))},
    )
    return [seq for (seq,) in rows]


def newest(tx: Read, chosen: Filter, limit: int) -> list[int]:
    rows = tx.all(
        f"SELECT seq FROM notes WHERE {_fits(chosen)} ORDER BY created_at DESC, seq DESC LIMIT :limit",
        _filter_values(tx, chosen) | {"limit": limit},
    )
    return [seq for (seq,) in rows]


def importances(tx: Read, seqs: Sequence[int]) -> dict[int, float]:
    rows = tx.all(
        "SELECT seq, importance FROM notes WHERE seq IN (SELECT value FROM json_each(:seqs))",
        {"seqs": _json(list(seqs))},
    )
    return dict(rows)


def by_seq(tx: Read, seqs: Sequence[int]) -> dict[int, Stored]:
    rows = tx.all(
        f"""
        SELECT {_NOTE} FROM notes AS note LEFT JOIN notes AS newer ON newer.seq = note.superseded_by
        WHERE note.seq IN (SELECT value FROM json_each(:seqs))
        """,
        {"seqs": _json(list(seqs))},
    )
    return {row[0]: _stored(row) for row in rows}


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
    if chosen.tags:
        conditions.append(
            """
            (SELECT count(*) FROM note_tags
             WHERE note_seq = notes.seq AND tag_key IN (SELECT value FROM json_each(:tags))) = :tag_count
            """
        )
    return " AND ".join(conditions)


def _filter_values(tx: Read, chosen: Filter) -> dict[str, Any]:
    keys = list(dict.fromkeys(map(tag_key, chosen.tags)))
    return {
        "now": _now(tx),
        "namespace": chosen.namespace,
        "min_importance": chosen.min_importance,
        "source": chosen.source,
        "created_after": chosen.created_after,
        "created_before": chosen.created_before,
        "tags": _json(keys),
        "tag_count": len(keys),
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
    tx.all("INSERT INTO embed_queue (note_id, due_at) VALUES (:seq, :now)", {"seq": seq, "now": _now(tx)})


def enqueue_all(tx: Write) -> int:
    """Put every live note on the queue; those that wait already keep their place. Returns how many wait now."""
    tx.all(
        """
        INSERT OR IGNORE INTO embed_queue (note_id, due_at)
        SELECT seq, :now FROM notes WHERE archived = 0
        """,
        {"now": _now(tx)},
    )
    return queue_size(tx)


def forget_vectors(tx: Write, seq: int) -> None:
    tx.all("DELETE FROM embed_queue WHERE note_id = :seq", {"seq": seq})
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq", {"seq": seq})


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
        {"now": _now(tx), "most": most},
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
        LEFT JOIN notes AS before ON before.seq = note.previous
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


def space(tx: Read) -> tuple[str, bytes] | None:
    """The name of the space the vectors are of, and its background."""
    row = tx.one("SELECT name, background FROM embedding_space")
    return (row[0], row[1]) if row else None


def set_space(tx: Write, name: str, dimensions: int, background: bytes) -> None:
    """From now on vectors are of this space: there are none yet, and every note waits."""
    forget_space(tx)
    tx.all(
        """
        INSERT INTO embedding_space (only_one, name, dimensions, background, chosen_at)
        VALUES (1, :name, :dimensions, :background, :now)
        """,
        {"name": name, "dimensions": dimensions, "background": background, "now": _now(tx)},
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


def context_vectors(tx: Read, seqs: Sequence[int]) -> dict[int, bytes]:
    rows = tx.all(
        """
        SELECT note_seq, vector FROM note_vectors
        WHERE note_seq IN (SELECT value FROM json_each(:seqs)) AND part = -1
        """,
        {"seqs": _json(list(seqs))},
    )
    return dict(rows)


def vector(tx: Read, seq: int) -> bytes | None:
    row = tx.one("SELECT vector FROM note_vectors WHERE note_seq = :seq AND part = 0", {"seq": seq})
    return row[0] if row else None


def embedded(tx: Read) -> int:
    return tx.number("SELECT count(*) FROM note_vectors WHERE part = 0")


def count(tx: Read) -> int:
    return tx.number("SELECT count(*) FROM notes WHERE archived = 0")


def _now(tx: Read) -> str:
    return precise_stamp(tx.now)


def _tags(text: str) -> list[str]:
    return [tag for tag in text.split(",") if tag]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
