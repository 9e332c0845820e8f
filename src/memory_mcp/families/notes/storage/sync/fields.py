"""SQL for the stamps of notes' fields, and for the tombstones of deleted notes. Triggers stamp local changes."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memory_mcp.engines.transactions import Read, Write


def is_stamped(tx: Read, seq: int) -> bool:
    found = tx.one("SELECT 1 FROM sync_fields WHERE note_seq = :seq AND field = 'content'", {"seq": seq})
    return found is not None


def stamp_note(tx: Write, seq: int) -> None:
    """Stamp a note with the time of its last change, before a record of it is merged."""
    stamp_by_update_time(tx, ":seq", {"seq": seq})


def stamp_by_update_time(tx: Write, seqs: str, values: Mapping[str, Any]) -> None:
    tx.all(
        f"""
        INSERT INTO sync_fields (note_seq, field, stamp, value)
        SELECT sent.seq, field,
            printf('%015d:%05d:%s', max(0, min(node.ms, unixepoch(updated_at, 'subsec') * 1000)), 0, node), value
        FROM sync_told AS sent JOIN notes USING (seq), sync_node AS node WHERE sent.seq IN ({seqs})
        ON CONFLICT (note_seq, field) DO NOTHING
        """,
        values,
    )


def fields(tx: Read, seqs: Collection[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
    """By note and field: the stamp, and for a link the other note's id."""
    found: dict[int, dict[str, tuple[str, str | None]]] = {seq: {} for seq in seqs}
    for seq, field, stamp, value in tx.each(
        "SELECT note_seq, field, stamp, value FROM sync_fields WHERE note_seq IN (SELECT value FROM json_each(:seqs))",
        {"seqs": json.dumps(list(seqs))},
    ):
        found[seq][field] = stamp, value
    return found


def set_fields(tx: Write, seq: int, stamps: Mapping[str, tuple[str, str | None]]) -> None:
    tx.all(
        """
        INSERT INTO sync_fields (note_seq, field, stamp, value)
        SELECT :seq, value ->> 0, value ->> 1, value ->> 2 FROM json_each(:fields) WHERE true
        ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp, value = excluded.value
        WHERE sync_fields.stamp <> excluded.stamp OR sync_fields.value IS NOT excluded.value
        """,
        {"seq": seq, "fields": json.dumps([[field, *stamp] for field, stamp in stamps.items()], ensure_ascii=False)},
    )


def tags_sent(tx: Read, seqs: Collection[int]) -> dict[int, dict[str, tuple[str, str]]]:
    """By note and tag: name and origin of the tags that are sent."""
    found: dict[int, dict[str, tuple[str, str]]] = {seq: {} for seq in seqs}
    for seq, key, tag, origin in tx.each(
        """
        SELECT note_seq, tag_key, tag, origin FROM note_tags
        WHERE note_seq IN (SELECT value FROM json_each(:seqs)) AND origin IN ('user', 'system')
        """,
        {"seqs": json.dumps(list(seqs))},
    ):
        found[seq][key] = tag, origin
    return found


def set_times(tx: Write, seq: int, created_at: str, updated_at: str, last_referenced_at: str | None) -> None:
    tx.all(
        """
        UPDATE notes SET created_at = :created, updated_at = :updated, last_referenced_at = :referenced
        WHERE seq = :seq AND (created_at, updated_at, last_referenced_at) IS NOT (:created, :updated, :referenced)
        """,
        {"seq": seq, "created": created_at, "updated": updated_at, "referenced": last_referenced_at},
    )


def apply_hub_limits(tx: Write, ids: Collection[str], now: str) -> None:
    """Apply the same limits as the hub did at `now`: times ahead of it become `now`; importance is the greatest ever,
    but zero for archived notes."""
    tx.all(
        """
        UPDATE notes SET updated_at = min(updated_at, :now), last_referenced_at = min(last_referenced_at, :now),
            importance = known.importance
        FROM (
            SELECT note.seq,
                iif(note.archived, 0.0, max(note.importance, coalesce(CAST(sent.value AS REAL), 0.0))) AS importance
            FROM json_each(:ids) AS wanted JOIN notes AS note ON note.id = wanted.value
            LEFT JOIN sync_fields AS sent ON sent.note_seq = note.seq AND sent.field = 'importance'
        ) AS known
        WHERE notes.seq = known.seq
            AND (updated_at > :now OR last_referenced_at > :now OR notes.importance <> known.importance)
        """,
        {"ids": json.dumps(list(ids)), "now": now},
    )


def links_to(tx: Read, ids: Collection[str]) -> list[tuple[int, str, bool]]:
    """(note, field, whether it is made or removed) of every link to these notes by other nodes, including links written
    before the notes existed in an enabled namespace; from notes in enabled namespaces."""
    rows = tx.all(
        """
        SELECT note_seq, field, value IS NOT NULL FROM sync_fields JOIN notes ON notes.seq = note_seq
        WHERE (field GLOB 'link/*' OR field GLOB 'supersedes/*') AND field IN (
            SELECT 'link/' || value FROM json_each(:ids) UNION ALL SELECT 'supersedes/' || value FROM json_each(:ids)
        ) AND namespace IN (SELECT namespace FROM sync_namespaces WHERE enabled)
        """,
        {"ids": json.dumps(list(ids))},
    )
    return [(seq, field, bool(made)) for seq, field, made in rows]


# Notes


def seqs_of(tx: Read, ids: Sequence[str]) -> dict[str, int]:
    rows = tx.all(
        "SELECT id, seq FROM notes WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(list(ids))}
    )
    return dict(rows)


def seqs_in_scope(tx: Read, ids: Sequence[str]) -> dict[str, int]:
    """The same, only for notes in enabled namespaces."""
    rows = tx.all(
        """
        SELECT id, seq FROM notes WHERE id IN (SELECT value FROM json_each(:ids))
            AND namespace IN (SELECT namespace FROM sync_namespaces WHERE enabled)
        """,
        {"ids": json.dumps(list(ids))},
    )
    return dict(rows)


# Tombstones


def tombstones(tx: Read, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """By id: the former namespace, and the stamp of the deletion."""
    rows = tx.all(
        "SELECT id, namespace, stamp FROM sync_tombstones WHERE id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids))},
    )
    return {id_: (namespace, stamp) for id_, namespace, stamp in rows}


def add_tombstone(tx: Write, id_: str, namespace: str, stamp: str) -> None:
    tx.all(
        """
        INSERT INTO sync_tombstones (id, namespace, stamp) VALUES (:id, :namespace, :stamp)
        ON CONFLICT (id) DO UPDATE SET stamp = max(stamp, excluded.stamp)
        """,
        {"id": id_, "namespace": namespace, "stamp": stamp},
    )
