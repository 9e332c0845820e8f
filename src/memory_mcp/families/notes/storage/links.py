"""SQL for the relations of notes: links, wikilinks and supersession."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.list_model import PicturedNote
from memory_mcp.families.notes.model import Edge, Link, Links, LinkTotals, Neighbourhood, Node, folded
from memory_mcp.families.notes.storage.notes import LIVE, inside


def link(tx: Write, source: int, target: int, kind: str) -> int:
    """How many links are new: one or none."""
    rows = tx.all(
        """
        INSERT INTO note_links (source_seq, target_seq, kind, created_at)
        VALUES (:source, :target, :kind, :now) ON CONFLICT DO NOTHING RETURNING 1
        """,
        {"source": source, "target": target, "kind": kind, "now": tx.precise_stamp},
    )
    return len(rows)


def unlink(tx: Write, source: int, target: int) -> list[str]:
    """The kinds of the links that were removed. A note that superseded the other no longer does."""
    rows = tx.all(
        "DELETE FROM note_links WHERE source_seq = :source AND target_seq = :target RETURNING kind",
        {"source": source, "target": target},
    )
    if ("supersedes",) in rows:
        refresh_superseded(tx, target)
    return [kind for (kind,) in rows]


def unlink_kind(tx: Write, source: int, target: int, kind: str) -> int:
    """The same for one kind of link."""
    rows = tx.all(
        """
        DELETE FROM note_links WHERE source_seq = :source AND target_seq = :target AND kind = :kind RETURNING 1
        """,
        {"source": source, "target": target, "kind": kind},
    )
    return len(rows)


def everything(tx: Read) -> Iterator[tuple[str, str, str, str]]:
    """(source id, target id, kind, creation time) of every explicit link."""
    return tx.each(
        """
        SELECT source.id, target.id, link.kind, link.created_at FROM note_links AS link
        JOIN notes AS source ON source.seq = link.source_seq JOIN notes AS target ON target.seq = link.target_seq
        ORDER BY link.source_seq, link.target_seq, link.kind
        """
    )


def counts(tx: Read, ids: Collection[str]) -> dict[str, int]:
    """How many edges each of these notes has, in both directions, with live notes."""
    rows = tx.all(
        f"""
        SELECT note.id,
            (SELECT count(*) FROM note_edges JOIN notes ON seq = target_seq WHERE source_seq = note.seq AND {LIVE})
            + (SELECT count(*) FROM note_edges JOIN notes ON seq = source_seq WHERE target_seq = note.seq AND {LIVE})
        FROM json_each(:ids) AS wanted CROSS JOIN notes AS note ON note.id = wanted.value
        """,
        {"ids": json.dumps(list(ids)), "now": tx.precise_stamp},
    )
    return dict(rows)


def links_of(tx: Read, seq: int, within: str | None, offset: int, limit: int) -> Links:
    """A page of each kind of link, and how many there are of each."""
    values = {"seq": seq, "within": within, "offset": offset, "limit": limit}
    outgoing = (
        f"seq IN (SELECT target_seq FROM note_edges WHERE source_seq = :seq) AND archived = 0 AND {inside(within)}"
    )
    incoming = (
        f"seq IN (SELECT source_seq FROM note_edges WHERE target_seq = :seq) AND archived = 0 AND {inside(within)}"
    )
    dangling = "source_seq = :seq AND target_seq IS NULL"

    def notes(condition: str) -> list[Link]:
        sql = f"SELECT id, title FROM notes WHERE {condition} ORDER BY seq LIMIT :limit OFFSET :offset"
        return [Link(*row) for row in tx.all(sql, values)]

    titles = tx.all(
        f"SELECT title FROM note_wikilinks WHERE {dangling} ORDER BY title LIMIT :limit OFFSET :offset", values
    )
    return Links(
        outgoing=notes(outgoing),
        incoming=notes(incoming),
        dangling=[title for (title,) in titles],
        total=LinkTotals(
            outgoing=tx.number(f"SELECT count(*) FROM notes WHERE {outgoing}", values),
            incoming=tx.number(f"SELECT count(*) FROM notes WHERE {incoming}", values),
            dangling=tx.number(f"SELECT count(*) FROM note_wikilinks WHERE {dangling}", values),
        ),
    )


def neighbors(tx: Read, root: int, within: str | None, depth: int, limit: int) -> Neighbourhood:
    """Breadth first, along links in both directions, through visible notes that are not archived."""
    rows = _reached(tx, root, within, depth, limit + 1)
    shown = rows[:limit]
    return Neighbourhood(
        nodes=[Node(id_, title, nearest) for _, id_, title, nearest in shown],
        edges=_among(tx, [row[0] for row in shown]),
        truncated=len(rows) > limit,
    )


def count_neighbors(tx: Read, root: int, within: str | None, depth: int, limit: int) -> int:
    """How many notes `neighbors` finds, at most `limit`."""
    return len(_reached(tx, root, within, depth, limit))


def _reached(tx: Read, root: int, within: str | None, depth: int, limit: int) -> list[Any]:
    """(seq, id, title, depth), nearest first, at most `limit`."""
    rows = tx.all("SELECT seq, id, title, 0 FROM notes WHERE seq = :root", {"root": root})
    reached, latest = {root}, [root]
    for distance in range(1, depth + 1):
        if not latest or len(rows) >= limit:
            break
        found = _linked(tx, latest, within, limit + len(reached))
        rows += [(*row, distance) for row in found if row[0] not in reached]
        latest = [row[0] for row in found if row[0] not in reached]
        reached.update(latest)
    return rows[:limit]


def _linked(tx: Read, seqs: list[int], within: str | None, limit: int) -> list[Any]:
    """(seq, id, title) of the notes that one of these links to or is linked from."""
    listed = "(SELECT CAST(value AS BIGINT) FROM json_each(:seqs))"
    return tx.all(
        f"""
        SELECT seq, id, title FROM notes
        WHERE seq IN (
            SELECT target_seq FROM note_links WHERE source_seq IN {listed}
            UNION
            SELECT source_seq FROM note_links WHERE target_seq IN {listed}
            UNION
            SELECT target_seq FROM note_wikilinks WHERE source_seq IN {listed} AND target_seq IS NOT NULL
            UNION
            SELECT source_seq FROM note_wikilinks WHERE target_seq IN {listed}
        ) AND +archived = 0 AND (expires_at IS NULL OR expires_at > :now) AND {inside(within, "+notes")}
        ORDER BY seq LIMIT :limit
        """,
        {"seqs": json.dumps(seqs), "within": within, "limit": limit, "now": tx.precise_stamp},
    )


def best_connected(tx: Read, within: str | None, limit: int) -> list[str]:
    """The ids of the notes with most links to live notes, of any namespace; among equals those written last."""
    rows = tx.all(
        f"""
        SELECT notes.id FROM notes
        LEFT JOIN (
            SELECT linked.here, count(*) AS degree
            FROM (
                SELECT source_seq AS here, target_seq AS there FROM note_edges
                UNION ALL
                SELECT target_seq, source_seq FROM note_edges
            ) AS linked
            JOIN notes ON notes.seq = linked.there
            WHERE {LIVE}
            GROUP BY linked.here
        ) AS counted ON counted.here = notes.seq
        WHERE {LIVE} AND {inside(within)}
        ORDER BY coalesce(counted.degree, 0) DESC, notes.seq DESC LIMIT :limit
        """,
        {"limit": limit, "within": within, "now": tx.precise_stamp},
    )
    return [id_ for (id_,) in rows]


def count_notes(tx: Read, within: str | None) -> int:
    """How many notes a graph could show."""
    sql = f"SELECT count(*) FROM notes WHERE {LIVE} AND {inside(within)}"
    return tx.number(sql, {"within": within, "now": tx.precise_stamp})


def pictured(tx: Read, depths: Mapping[str, int]) -> list[PicturedNote]:
    """Notes as a graph shows them, those with most links first. `depths`: by the id of each."""
    degrees = counts(tx, depths)
    rows = tx.all(
        """
        SELECT note.id, note.title, note.namespace FROM json_each(:ids) AS wanted
        CROSS JOIN notes AS note ON note.id = wanted.value
        """,
        {"ids": json.dumps(list(depths))},
    )
    found = [PicturedNote(id_, title, namespace, degrees.get(id_, 0), depths[id_]) for id_, title, namespace in rows]
    return sorted(found, key=lambda note: -note.degree)


def among(tx: Read, ids: Collection[str]) -> list[Edge]:
    """The links between some notes."""
    rows = tx.all(
        "SELECT note.seq FROM json_each(:ids) AS wanted CROSS JOIN notes AS note ON note.id = wanted.value",
        {"ids": json.dumps(list(ids))},
    )
    return _among(tx, [seq for (seq,) in rows])


def _among(tx: Read, seqs: list[int]) -> list[Edge]:
    """The links between some notes."""
    edges = tx.all(
        """
        SELECT source.id, target.id FROM note_edges AS edge
        JOIN notes AS source ON source.seq = edge.source_seq
        JOIN notes AS target ON target.seq = edge.target_seq
        WHERE edge.source_seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
            AND edge.target_seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        GROUP BY edge.source_seq, edge.target_seq, source.id, target.id
        ORDER BY edge.source_seq, edge.target_seq
        """,
        {"seqs": json.dumps(seqs)},
    )
    return [Edge(*row) for row in edges]


# Notes that supersede others


def supersede(tx: Write, newer: int, older: int) -> None:
    link(tx, newer, older, "supersedes")
    refresh_superseded(tx, older)


def refresh_superseded(tx: Write, seq: int) -> None:
    """Set the newest superseding note that is not archived: the same one on every node."""
    tx.all(
        """
        UPDATE notes SET superseded_by = (
            SELECT newer.seq FROM note_links JOIN notes AS newer ON newer.seq = source_seq
            WHERE target_seq = :seq AND kind = 'supersedes' AND newer.archived = 0
            ORDER BY newer.created_at DESC, newer.id DESC LIMIT 1
        ) WHERE seq = :seq
        """,
        {"seq": seq},
    )


def superseded(tx: Read, seq: int) -> list[int]:
    """The notes that this one supersedes directly."""
    rows = tx.all("SELECT target_seq FROM note_links WHERE source_seq = :seq AND kind = 'supersedes'", {"seq": seq})
    return [target for (target,) in rows]


def successors(tx: Read, seqs: Collection[int]) -> dict[int, int]:
    """The superseding notes of these notes, and of those in turn. Only live ones."""
    rows = tx.all(
        f"""
        WITH RECURSIVE chain(older, newer) AS (
            SELECT note.seq, note.superseded_by FROM notes AS note
            WHERE note.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs)) AND note.superseded_by IS NOT NULL
            UNION
            SELECT note.seq, note.superseded_by FROM chain JOIN notes AS note ON note.seq = chain.newer
            WHERE note.superseded_by IS NOT NULL
        )
        SELECT chain.older, chain.newer FROM chain JOIN notes ON notes.seq = chain.newer WHERE {LIVE}
        """,
        {"seqs": json.dumps(list(seqs)), "now": tx.precise_stamp},
    )
    return dict(rows)


def supersedes(tx: Read, newer: int, older: int) -> bool:
    """Whether one note supersedes another, directly or not; every note supersedes itself."""
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


# Wikilinks


def set_wikilinks(tx: Write, seq: int, titles: Iterable[str]) -> None:
    """Set the titles in a body. A title that was resolved before keeps its target, even after a rename."""
    named = {folded(title): title for title in reversed(list(titles))}  # the first spelling stays
    named.pop(tx.all("SELECT title_key FROM notes WHERE seq = :seq", {"seq": seq})[0][0], None)  # a link to itself
    tx.all(
        """
        DELETE FROM note_wikilinks
        WHERE source_seq = :seq AND title_key NOT IN (SELECT value FROM json_each(:keys))
        """,
        {"seq": seq, "keys": json.dumps(list(named), ensure_ascii=False)},
    )
    tx.all(
        """
        INSERT INTO note_wikilinks (source_seq, title_key, title)
        SELECT :seq, value ->> 'key', value ->> 'title' FROM json_each(:titles) WHERE true ON CONFLICT DO NOTHING
        """,
        {"seq": seq, "titles": json.dumps([{"key": key, "title": named[key]} for key in named], ensure_ascii=False)},
    )


def resolve_wikilinks(tx: Write, seq: int) -> list[int]:
    """Resolve dangling links in this note, and those in other notes to it, to the oldest live note of that title in the
    namespace. Returns the other notes whose links changed."""
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


def unresolve_links(tx: Write, seq: int) -> list[int]:
    """Unresolve the links to and from a note that moves or is deleted. Returns the notes that linked to it."""
    rows = tx.all(
        """
        UPDATE note_wikilinks SET target_seq = NULL WHERE target_seq = :seq OR source_seq = :seq RETURNING source_seq
        """,
        {"seq": seq},
    )
    return [source for (source,) in rows if source != seq]


def near_in_series(tx: Read, ids: Sequence[str], reach: int) -> list[tuple[str, int, int]]:
    """(id, seq of a note near it, distance) for each of these notes: the note itself at distance 0, and at most `reach`
    notes before it, at negative distances, and after it."""
    return tx.all(
        """
        WITH RECURSIVE
        start AS (SELECT notes.id, notes.seq FROM json_each(:ids) AS one CROSS JOIN notes ON notes.id = one.value),
        before (id, seq, distance) AS (
            SELECT id, seq, 0 FROM start
            UNION ALL
            SELECT before.id, notes.previous, before.distance - 1 FROM before JOIN notes ON notes.seq = before.seq
            WHERE notes.previous IS NOT NULL AND before.distance > :least
        ),
        after (id, seq, distance) AS (
            SELECT id, seq, 0 FROM start
            UNION ALL
            SELECT after.id, notes.seq, after.distance + 1 FROM after JOIN notes ON notes.previous = after.seq
            WHERE after.distance < :reach
        )
        SELECT id, seq, distance FROM before UNION ALL SELECT id, seq, distance FROM after WHERE distance > 0
        """,
        {"ids": json.dumps(list(ids)), "reach": reach, "least": -reach},
    )
