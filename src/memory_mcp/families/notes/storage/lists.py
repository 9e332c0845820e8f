"""SQL for lists and counts of notes, with filters."""

import json
from collections import Counter
from collections.abc import Collection

from memory_mcp.engines.texts import Allowed, Query
from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.list_model import ListedPart, Order
from memory_mcp.families.notes.model import (
    Counted,
    CreatedCursor,
    Filter,
    Namespace,
    NoteSummary,
    Source,
    Stats,
    TagCount,
    UpdatedCursor,
)
from memory_mcp.families.notes.storage.conditions import (
    CONTAINS,
    conditions_of,
    filter_condition,
    filter_values,
    lower,
)
from memory_mcp.families.notes.storage.notes import LIVE, inside, tag_names

TOP = 10


def recent(tx: Read, chosen: Filter, offset: int, limit: int) -> list[NoteSummary]:
    rows = tx.all(
        f"""
        SELECT id, title, substr(content, 1, 1000), namespace, tags, importance, updated_at, last_referenced_at, source
        FROM notes WHERE {filter_condition(chosen)}
        ORDER BY last_referenced_at DESC NULLS LAST, updated_at DESC, seq DESC LIMIT :limit OFFSET :offset
        """,
        filter_values(tx, chosen) | {"limit": limit, "offset": offset},
    )
    return [_summary(*row) for row in rows]


def count(tx: Read, chosen: Filter) -> int:
    """How many notes match a filter."""
    return tx.number(f"SELECT count(*) FROM notes WHERE {filter_condition(chosen)}", filter_values(tx, chosen))


def count_archived(tx: Read, within: str | None) -> int:
    return tx.number(f"SELECT count(*) FROM notes WHERE archived = 1 AND {inside(within)}", {"within": within})


def archived(tx: Read, within: str | None, offset: int, limit: int) -> list[NoteSummary]:
    """Soft-deleted notes, last first."""
    rows = tx.all(
        f"""
        SELECT id, title, substr(content, 1, 1000), namespace, tags, importance, updated_at, last_referenced_at, source
        FROM notes WHERE archived = 1 AND {inside(within)}
        ORDER BY updated_at DESC, seq DESC LIMIT :limit OFFSET :offset
        """,
        {"limit": limit, "offset": offset, "within": within},
    )
    return [_summary(*row) for row in rows]


_THE_START = UpdatedCursor("9", 0)  # later than any time
_ORDERS: dict[Order, str] = {
    "updated": "updated_at DESC, seq DESC",
    "created": "created_at DESC, seq DESC",
    "oldest": "created_at, seq",
    "title": "title_key, seq",
    "importance": "importance DESC, updated_at DESC, seq DESC",
}


def page(tx: Read, chosen: Filter, part: ListedPart) -> tuple[list[NoteSummary], UpdatedCursor | None]:
    """A part of the notes that match a filter, and the next cursor of the order `updated`. Expired notes are left out,
    so there may be fewer than `limit`."""
    conditions = conditions_of(chosen) + ([CONTAINS] if part.words else [])
    # Without a condition an index alone gives the order, and no text is read for it.
    has_index = not (conditions or part.is_archived) and part.order == "updated"
    conditions += [f"archived = {int(part.is_archived)}"]
    if part.order == "updated":
        conditions += ["(updated_at, seq) < (:updated_at, :seq)"]
    start, order = part.after or _THE_START, _ORDERS[part.order]
    rows = tx.all(
        f"""
        WITH listed AS MATERIALIZED (
            SELECT seq FROM notes {"INDEXED BY idx_notes_updated" if has_index else ""}
            WHERE {" AND ".join(conditions)} ORDER BY {order} LIMIT :limit OFFSET :offset
        )
        SELECT id, title, substr(content, 1, 1000), namespace, tags, importance, updated_at, last_referenced_at, source,
            seq, coalesce(expires_at <= :now, FALSE)
        FROM notes WHERE seq IN (SELECT seq FROM listed) ORDER BY {order}
        """,
        filter_values(tx, chosen, part.words)
        | {"updated_at": start.updated_at, "seq": start.seq, "limit": part.limit, "offset": part.offset},
    )
    shows_expired = part.is_archived or chosen.state == "expired"
    shown = [_summary(*row[:9]) for row in rows if shows_expired or not row[10]]
    has_next = len(rows) == part.limit and part.order == "updated"
    return shown, UpdatedCursor(rows[-1][6], rows[-1][9]) if has_next else None


def _summary(
    id_: str,
    title: str,
    start: str,
    namespace: str,
    tags: str,
    importance: float,
    updated: str,
    referenced: str | None,
    source: Source,
) -> NoteSummary:
    return NoteSummary(id_, title, start, namespace, tag_names(tags), importance, updated, referenced, source)


def namespaces(tx: Read, within: str | None) -> list[Namespace]:
    rows = tx.all(
        f"""
        SELECT namespace, count(*), max(updated_at) FROM notes WHERE {LIVE} AND {inside(within)}
        GROUP BY namespace ORDER BY max(updated_at) DESC, namespace
        """,
        {"now": tx.precise_stamp, "within": within},
    )
    return [Namespace(*row) for row in rows]


def last_writes(tx: Read, within: str | None) -> dict[str, str]:
    """When a note of each namespace was last written. Reads an index alone, so expired notes count, too."""
    rows = tx.all(
        f"""
        SELECT namespace, max(updated_at) FROM notes INDEXED BY idx_notes_recent_ns
        WHERE archived = 0 AND {inside(within)} GROUP BY namespace
        """,
        {"within": within},
    )
    return dict(rows)


def tag_counts(tx: Read, chosen: Filter, min_count: int, limit: int, offset: int = 0) -> list[TagCount]:
    rows = tx.all(
        f"{_tag_groups(chosen)} ORDER BY notes DESC, tag_key LIMIT :limit OFFSET :offset",
        filter_values(tx, chosen) | {"min_count": min_count, "limit": limit, "offset": offset},
    )
    return [TagCount(*row) for row in rows]


def count_tags(tx: Read, chosen: Filter, min_count: int) -> int:
    """How many tags have at least this number of notes."""
    return tx.number(
        f"SELECT count(*) FROM ({_tag_groups(chosen)}) AS tags", filter_values(tx, chosen) | {"min_count": min_count}
    )


def _tag_groups(chosen: Filter) -> str:
    """(tag, notes) of each tag."""
    # Without a filter almost every note counts: it is faster to exclude the others.
    counted = (
        f"IN (SELECT seq FROM notes WHERE {filter_condition(chosen)})"
        if not chosen.is_empty
        else "NOT IN (SELECT seq FROM notes WHERE archived = 1 UNION SELECT seq FROM notes WHERE expires_at <= :now)"
    )
    return f"""
        SELECT max(tag), count(*) AS notes FROM note_tags WHERE note_seq {counted}
        GROUP BY tag_key HAVING count(*) >= :min_count
    """


def stats(tx: Read, chosen: Filter) -> Stats:
    rows = tx.all(
        f"""
        SELECT namespace, source, client, count(*), coalesce(sum(importance), 0.0) FROM notes
        WHERE {filter_condition(chosen)} GROUP BY namespace, source, client
        """,
        filter_values(tx, chosen),
    )
    by_namespace, by_source, by_client = Counter[str](), Counter[str](), Counter[str]()
    for namespace, source, client, notes, _ in rows:
        by_namespace[namespace] += notes
        by_source[source] += notes
        by_client[client] += notes
    total = by_source.total()
    clients = sorted((-notes, client) for client, notes in by_client.items() if client)
    return Stats(
        total=total,
        by_source=dict(by_source),
        by_namespace=dict(by_namespace),
        top_tags=[Counted(found.tag, found.count) for found in tag_counts(tx, chosen, 1, TOP)],
        top_clients=[Counted(client, -notes) for notes, client in clients[:TOP]],
        avg_importance=round(sum(row[4] for row in rows) / total, 6) if total else 0.0,
    )


def namespaces_after(tx: Read, within: str | None, name: str, limit: int) -> list[tuple[str, int]]:
    """(namespace, notes) in the order of their names."""
    return tx.all(
        f"""
        SELECT namespace, count(*) FROM notes WHERE namespace > :name AND {LIVE} AND {inside(within)}
        GROUP BY namespace ORDER BY namespace LIMIT :limit
        """,
        {"name": name, "within": within, "limit": limit, "now": tx.precise_stamp},
    )


def namespaces_starting(tx: Read, within: str | None, prefix: str, limit: int) -> list[str]:
    """Case-insensitive, last changed first."""
    rows = tx.all(
        f"""
        SELECT namespace FROM notes
        WHERE lower(substr(namespace, 1, length(:prefix))) = :prefix AND {LIVE} AND {inside(within)}
        GROUP BY namespace ORDER BY max(updated_at) DESC, namespace LIMIT :limit
        """,
        {"prefix": lower(prefix), "within": within, "limit": limit, "now": tx.precise_stamp},
    )
    return [name for (name,) in rows]


def notes_after(tx: Read, within: str | None, after: CreatedCursor, limit: int) -> list[tuple[str, str, str]]:
    """(created_at, id, title), first created first. If the note of the cursor was deleted, others of its instant may be
    repeated."""
    return tx.all(
        f"""
        SELECT created_at, id, title FROM notes
        WHERE {LIVE} AND {inside(within)} AND (created_at, seq) > (
            :created_at, coalesce((SELECT seq FROM notes WHERE id = :id AND {inside(within)}), 0)
        )
        ORDER BY created_at, seq LIMIT :limit
        """,
        {"created_at": after.created_at, "id": after.id, "within": within, "limit": limit, "now": tx.precise_stamp},
    )


def tags_starting(tx: Read, within: str | None, prefix: str, limit: int) -> list[str]:
    """Tags of live notes, the most used first."""
    is_inside = "TRUE" if within is None else "note_seq IN (SELECT seq FROM notes WHERE namespace = :within)"
    rows = tx.all(
        f"""
        SELECT max(tag) FROM note_tags WHERE tag_key >= :prefix AND tag_key < :beyond
            AND note_seq NOT IN (
                SELECT seq FROM notes WHERE archived = 1 UNION SELECT seq FROM notes WHERE expires_at <= :now
            )
            AND {is_inside}
        GROUP BY tag_key ORDER BY count(*) DESC, tag_key LIMIT :limit
        """,
        {"prefix": prefix, "beyond": prefix + chr(0x10FFFF), "within": within, "limit": limit, "now": tx.precise_stamp},
    )
    return [tag for (tag,) in rows]


def titles_like(tx: Read, within: str | None, text: str, limit: int) -> list[str]:
    """Titles that start with the text, then those that contain it."""
    rows = tx.all(
        f"""
        SELECT min(title) FROM notes WHERE instr(title_key, :text) > 0 AND {LIVE} AND {inside(within)}
        GROUP BY title_key ORDER BY min(instr(title_key, :text)), title_key LIMIT :limit
        """,
        {"text": text, "within": within, "limit": limit, "now": tx.precise_stamp},
    )
    return [title for (title,) in rows]


def ids_like(tx: Read, within: str | None, text: str, limit: int) -> list[str]:
    """Ids that start with the text, or whose note's title contains it; last referenced first."""
    rows = tx.all(
        f"""
        SELECT id FROM notes
        WHERE (id >= :text AND id < :text || 'g' OR instr(title_key, :text) > 0) AND {LIVE} AND {inside(within)}
        ORDER BY last_referenced_at DESC NULLS LAST, updated_at DESC, seq DESC LIMIT :limit
        """,
        {"text": text, "within": within, "limit": limit, "now": tx.precise_stamp},
    )
    return [id_ for (id_,) in rows]


# Filters


def newest(tx: Read, chosen: Filter, offset: int, limit: int) -> list[int]:
    rows = tx.all(
        f"""
        SELECT seq FROM notes WHERE {filter_condition(chosen)}
        ORDER BY created_at DESC, seq DESC LIMIT :limit OFFSET :offset
        """,
        filter_values(tx, chosen) | {"limit": limit, "offset": offset},
    )
    return [seq for (seq,) in rows]


def in_order(tx: Read, chosen: Filter, after: int, limit: int, *, include_archived: bool = False) -> list[int]:
    """Notes that match a filter in the order they were stored, after this one."""
    condition = " AND ".join(["TRUE", *conditions_of(chosen)]) if include_archived else filter_condition(chosen)
    rows = tx.all(
        f"SELECT seq FROM notes WHERE seq > :after AND {condition} ORDER BY seq LIMIT :limit",
        filter_values(tx, chosen) | {"after": after, "limit": limit},
    )
    return [seq for (seq,) in rows]


def importances(tx: Read, chosen: Filter) -> dict[str, float]:
    """Of the notes that match a filter, by id."""
    return dict(tx.all(f"SELECT id, importance FROM notes WHERE {filter_condition(chosen)}", filter_values(tx, chosen)))


def expired(tx: Read, source: str, limit: int) -> list[int]:
    """Notes of a source that have expired, archived or not."""
    rows = tx.all(
        "SELECT seq FROM notes WHERE expires_at <= :now AND source = :source ORDER BY expires_at, seq LIMIT :limit",
        {"now": tx.precise_stamp, "source": source, "limit": limit},
    )
    return [seq for (seq,) in rows]


def matching(tx: Read, chosen: Filter, among: Collection[int]) -> list[int]:
    """Which of these notes match a filter."""
    if not among:
        return []
    # CROSS fixes the join order: the few first, then each one's row.
    rows = tx.all(
        f"""
        SELECT notes.seq FROM json_each(:among) AS one CROSS JOIN notes ON notes.seq = CAST(one.value AS BIGINT)
        WHERE {filter_condition(chosen)}
        """,
        filter_values(tx, chosen) | {"among": json.dumps(list(among))},
    )
    return [seq for (seq,) in rows]


def allowed(tx: Read, chosen: Filter) -> Allowed | None:
    """The notes that match a filter. None if all indexed notes do."""
    seqs = [seq for (seq,) in tx.all(*allowed_query(tx, chosen))]
    if chosen.is_empty:
        return Allowed.all_but(seqs, _last_seq(tx)) if seqs else None
    return Allowed.only(seqs, _last_seq(tx))


def allowed_query(tx: Read, chosen: Filter) -> Query:
    """The notes that match a filter, or if it is empty, those that do not, since they expired."""
    if chosen.is_empty:
        return "SELECT seq FROM notes WHERE expires_at <= :now AND archived = 0", {"now": tx.precise_stamp}
    return f"SELECT seq FROM notes WHERE {filter_condition(chosen)}", filter_values(tx, chosen)


def _last_seq(tx: Read) -> int:
    return tx.number("SELECT coalesce(max(seq), 0) FROM notes")
