"""SQL for the targets of [[titles]], which are the same on all nodes."""

import json
from collections.abc import Collection

from memory_mcp.engines.transactions import Write

_CONCERNED = """
    WITH of(seq, id) AS (SELECT notes.seq, value FROM json_each(:ids) LEFT JOIN notes ON notes.id = value),
    concerned(holder, named) AS (
        SELECT source_seq, title_key FROM note_wikilinks WHERE source_seq IN (SELECT seq FROM of)
        UNION
        SELECT source_seq, title_key FROM note_wikilinks WHERE target_seq IN (SELECT seq FROM of)
        UNION
        SELECT note_seq, substr(field, length('wikilink/') + 1) FROM sync_fields
        WHERE value IN (SELECT id FROM of) AND field LIKE 'wikilink/%'
        UNION
        SELECT source_seq, link.title_key FROM note_wikilinks AS link
        WHERE link.target_seq IS NULL
            AND link.title_key IN (SELECT title_key FROM notes WHERE notes.seq IN (SELECT seq FROM of))
    )
"""


def apply_recorded_targets(tx: Write, ids: Collection[str]) -> list[int]:
    """Set the target of every [[title]] in these notes, and of those that refer to one of them, to the recorded note,
    if that exists here, in the same namespace, and is not archived. Returns the notes whose links changed."""
    rows = tx.all(
        f"""
        {_CONCERNED}
        UPDATE note_wikilinks SET target_seq = recorded.target FROM (
            SELECT holder, named, (
                SELECT target.seq FROM sync_fields JOIN notes AS target ON target.id = value
                WHERE note_seq = holder AND field = 'wikilink/' || named AND target.seq <> holder
                    AND target.archived = 0 AND target.namespace = note.namespace
            ) AS target
            FROM concerned JOIN notes AS note ON note.seq = holder
            WHERE note.namespace IN (SELECT namespace FROM sync_namespaces WHERE enabled)
        ) AS recorded
        WHERE source_seq = recorded.holder AND title_key = recorded.named AND target_seq IS NOT recorded.target
        RETURNING source_seq
        """,
        {"ids": json.dumps(list(ids))},
    )
    return [seq for (seq,) in rows]


def resolve_dangling(tx: Write, ids: Collection[str]) -> list[int]:
    """Resolve those of them that have no target to the oldest live note of that title in the namespace. If the recorded
    note does not exist here yet, or is in a namespace that is not synced, the title stays unresolved: otherwise two
    nodes with different local notes would overwrite each other's choice forever. Returns the notes whose links
    changed."""
    rows = tx.all(
        f"""
        {_CONCERNED}
        UPDATE note_wikilinks SET target_seq = found.target FROM (
            SELECT holder, named, target.seq AS target, min(target.created_at || target.id)
            FROM concerned JOIN notes AS note ON note.seq = holder
            JOIN notes AS target ON target.title_key = named AND target.namespace = note.namespace
            WHERE target.archived = 0 AND target.seq <> holder
                AND note.namespace IN (SELECT namespace FROM sync_namespaces WHERE enabled)
                AND NOT EXISTS (
                    SELECT 1 FROM sync_fields AS recorded WHERE note_seq = holder AND field = 'wikilink/' || named
                        AND value NOT IN (
                            SELECT id FROM notes JOIN sync_namespaces USING (namespace)
                            WHERE id = recorded.value AND enabled
                            UNION ALL
                            SELECT id FROM sync_tombstones JOIN sync_namespaces USING (namespace)
                            WHERE id = recorded.value AND enabled
                        )
                )
            GROUP BY holder, named
        ) AS found
        WHERE source_seq = found.holder AND title_key = found.named AND target_seq IS NULL
        RETURNING source_seq
        """,
        {"ids": json.dumps(list(ids))},
    )
    return [seq for (seq,) in rows]


def restore_targets(tx: Write, seq: int) -> None:
    """Resolve the [[titles]] that other nodes have resolved to this note, which has arrived now or was restored."""
    tx.all(
        """
        UPDATE note_wikilinks SET target_seq = :seq
        WHERE target_seq IS NULL AND source_seq <> :seq
            AND (0, (SELECT namespace FROM notes WHERE seq = source_seq))
                = (SELECT archived, namespace FROM notes WHERE seq = :seq)
            AND (source_seq, 'wikilink/' || title_key) IN (
                SELECT note_seq, field FROM sync_fields WHERE value = (SELECT id FROM notes WHERE seq = :seq)
            )
        """,
        {"seq": seq},
    )
