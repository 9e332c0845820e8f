"""SQL for the review of notes: which are compared, and which need not be."""

from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.model import UpdatedCursor
from memory_mcp.families.notes.storage.notes import LIVE, inside


def latest(tx: Read, within: str | None, after: UpdatedCursor | None, limit: int) -> list[int]:
    """The live notes changed last that no note supersedes, without messages of conversations."""
    start = after or UpdatedCursor("9", 0)
    rows = tx.all(
        f"""
        SELECT seq FROM notes
        WHERE {LIVE} AND superseded_by IS NULL AND source <> 'hook' AND {inside(within)}
            AND (updated_at, seq) < (:updated_at, :seq)
        ORDER BY updated_at DESC, seq DESC LIMIT :limit
        """,
        {"now": tx.precise_stamp, "within": within, "updated_at": start.updated_at, "seq": start.seq, "limit": limit},
    )
    return [seq for (seq,) in rows]


def equal_texts(tx: Read, seq: int, limit: int) -> list[int]:
    """The other notes with the same text, in any namespace."""
    rows = tx.all(
        """
        SELECT seq FROM notes WHERE content_key = (SELECT content_key FROM notes WHERE seq = :seq) AND seq <> :seq
        ORDER BY seq DESC LIMIT :limit
        """,
        {"seq": seq, "limit": limit},
    )
    return [other for (other,) in rows]


def linked(tx: Read, seq: int) -> set[int]:
    """The notes that this one links to, and those that link to it."""
    rows = tx.all(
        """
        SELECT target_seq FROM note_edges WHERE source_seq = :seq
        UNION SELECT source_seq FROM note_edges WHERE target_seq = :seq
        """,
        {"seq": seq},
    )
    return {other for (other,) in rows}
