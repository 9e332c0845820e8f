"""SQL of what nodes know about each other's changes: stamps, outbox, tombstones. Triggers do most of it."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.sync.model import NamespaceCursor, ReplicaState, SetAside, Synced

MAX_REFUSALS = 20  # shown of a namespace
MAX_SET_ASIDE = 200  # notes that are remembered; the oldest are forgotten first
MAX_SET_ASIDE_SHOWN = 20

_OUTBOX = """
    sync_outbox AS waiting
    LEFT JOIN notes ON notes.id = waiting.note_id
    LEFT JOIN sync_tombstones AS tombstone ON tombstone.id = waiting.note_id
    LEFT JOIN sync_namespaces AS synced ON synced.namespace = coalesce(notes.namespace, tombstone.namespace)
"""


# This node


def standing(tx: Read) -> ReplicaState:
    node, hub, ticket, synced_at, error = tx.all("SELECT node, hub, ticket, synced_at, error FROM sync_node")[0]
    to_send = tx.number(f"SELECT count(*) FROM {_OUTBOX} WHERE synced.enabled")
    return ReplicaState(node, hub, ticket, synced_at, error, to_send)


def set_ticket(tx: Write, ticket: str) -> None:
    tx.all("UPDATE sync_node SET ticket = :ticket", {"ticket": ticket})


def set_ended(tx: Write, error: str | None) -> None:
    tx.all(
        "UPDATE sync_node SET error = :error, synced_at = CASE WHEN :error IS NULL THEN :now ELSE synced_at END",
        {"error": error, "now": tx.precise_stamp},
    )


def set_hub(tx: Write, hub: str | None) -> None:
    """Another hub has none of the stamps that this node exchanged with the former one."""
    tx.all(
        """
        UPDATE sync_node SET exchanged_ms = iif(hub IS :hub, exchanged_ms, 0),
            hub = :hub, ticket = NULL, error = NULL, synced_at = NULL
        """,
        {"hub": hub},
    )


def take_new_node(tx: Write) -> None:
    tx.all("UPDATE sync_node SET node = lower(hex(randomblob(8)))")


def set_arriving(tx: Write, arriving: bool) -> None:
    """While changes arrive, what is written keeps the stamps it has."""
    tx.all("UPDATE sync_node SET arriving = :arriving", {"arriving": arriving})


def observe(tx: Write, stamp: str) -> None:
    """Whatever is written here from now on is later than this."""
    ms, counter, _ = stamp.split(":")
    tx.all(
        """
        UPDATE sync_node SET ms = :ms, counter = :counter
        WHERE ms < :ms OR (ms = :ms AND counter < :counter)
        """,
        {"ms": int(ms), "counter": int(counter)},
    )


def set_exchanged(tx: Write, stamp: str) -> None:
    """The hub has this stamp, or may have it: it was sent there, whatever became of it, or came from there."""
    tx.all("UPDATE sync_node SET exchanged_ms = max(exchanged_ms, :ms)", {"ms": int(stamp.split(":")[0])})


def clock(tx: Read) -> tuple[int, int, int]:
    """In milliseconds: the latest stamp, the latest that the hub may have, and how far the hub's clock is ahead of this
    computer's."""
    row = tx.all("SELECT ms, exchanged_ms, offset_ms FROM sync_node")[0]
    return row[0], row[1], row[2]


def set_offset(tx: Write, offset_ms: int) -> None:
    tx.all("UPDATE sync_node SET offset_ms = :offset", {"offset": offset_ms})


def lower_stamps(tx: Write, latest_ms: int, now_ms: int) -> None:
    """Give what was stamped later than `latest_ms` a stamp of now, which is later than all the others and than all that
    the hub may have. Nothing that the hub may have is later than `latest_ms`."""
    values = {"latest": f"{latest_ms:015d}:99999", "now": now_ms}
    tx.all(
        """
        UPDATE sync_node SET counter = 99999, ms = max(:now, exchanged_ms, coalesce((
            SELECT max(CAST(stamp AS INTEGER)) FROM (
                SELECT stamp FROM sync_fields UNION ALL SELECT stamp FROM sync_tombstones
            ) WHERE stamp <= :latest
        ), 0))
        """,
        values,
    )
    tx.all("UPDATE sync_node SET ticks = ticks + 1")
    tx.all("UPDATE sync_fields SET stamp = (SELECT stamp FROM sync_stamp) WHERE stamp > :latest", values)
    tx.all(
        """
        INSERT INTO sync_outbox (note_id) SELECT id FROM sync_tombstones WHERE stamp > :latest
        ON CONFLICT (note_id) DO NOTHING
        """,
        values,
    )
    tx.all("UPDATE sync_tombstones SET stamp = (SELECT stamp FROM sync_stamp) WHERE stamp > :latest", values)


def be_as_at_the_hub(tx: Write, ids: Collection[str], now: str) -> None:
    """What the hub made of notes it took at `now`, and the other nodes get: times of a clock that runs ahead are of
    now; importance is the greatest it ever had, but archived notes have none, even if somebody gave them one since."""
    tx.all(
        """
        UPDATE notes SET updated_at = min(updated_at, :now), last_referenced_at = min(last_referenced_at, :now),
            importance = known.importance
        FROM (
            SELECT note.seq,
                iif(note.archived, 0.0, max(note.importance, coalesce(CAST(told.value AS REAL), 0.0))) AS importance
            FROM json_each(:ids) AS wanted JOIN notes AS note ON note.id = wanted.value
            LEFT JOIN sync_fields AS told ON told.note_seq = note.seq AND told.field = 'importance'
        ) AS known
        WHERE notes.seq = known.seq
            AND (updated_at > :now OR last_referenced_at > :now OR notes.importance <> known.importance)
        """,
        {"ids": json.dumps(list(ids)), "now": now},
    )


# Namespaces


def namespaces(tx: Read) -> list[Synced]:
    rows = tx.all(
        f"""
        WITH waiting AS (
            SELECT synced.namespace, count(*) AS outbox,
                json_group_array(note_id || ': ' || refused) FILTER (WHERE refused IS NOT NULL) AS refused
            FROM {_OUTBOX} GROUP BY synced.namespace
        )
        SELECT namespace, enabled,
            (SELECT coalesce(sum(notes), 0) FROM note_counts WHERE note_counts.namespace = synced.namespace),
            coalesce(outbox, 0), ahead, coalesce(refused, '[]'), cursor, enabled_at, pushed_at, pulled_at
        FROM sync_namespaces AS synced LEFT JOIN waiting USING (namespace) ORDER BY namespace
        """
    )
    return [
        Synced(name, bool(enabled), notes, outbox, ahead, json.loads(refused)[:MAX_REFUSALS], *rest)
        for name, enabled, notes, outbox, ahead, refused, *rest in rows
    ]


def places(tx: Read) -> list[NamespaceCursor]:
    rows = tx.all("SELECT namespace, cursor, rereading FROM sync_namespaces WHERE enabled ORDER BY namespace")
    return [NamespaceCursor(namespace, cursor, bool(rereading)) for namespace, cursor, rereading in rows]


def is_tracked(tx: Read, namespace: str) -> bool:
    return tx.one("SELECT 1 FROM sync_namespaces WHERE namespace = :namespace", {"namespace": namespace}) is not None


def is_enabled(tx: Read, namespace: str | None) -> bool:
    row = tx.one("SELECT enabled FROM sync_namespaces WHERE namespace = :namespace", {"namespace": namespace})
    return row is not None and bool(row[0])


def set_enabled(tx: Write, namespace: str, enabled: bool) -> None:
    tx.all(
        "UPDATE sync_namespaces SET enabled = :enabled WHERE namespace = :namespace",
        {"namespace": namespace, "enabled": enabled},
    )


def track(tx: Write, namespace: str) -> None:
    """Stamp every note of a namespace from now on, and those there are as old as their last change."""
    tx.all(
        "INSERT INTO sync_namespaces (namespace, enabled, rereading, enabled_at) VALUES (:namespace, 1, 1, :now)",
        {"namespace": namespace, "now": tx.precise_stamp},
    )
    tx.all("UPDATE sync_node SET ticks = ticks + 1")
    seqs = "SELECT seq FROM notes WHERE namespace = :namespace"
    _stamp_as_old_as_they_are(tx, seqs, {"namespace": namespace})
    tell_again(tx, namespace)


def is_stamped(tx: Read, seq: int) -> bool:
    found = tx.one("SELECT 1 FROM sync_fields WHERE note_seq = :seq AND field = 'content'", {"seq": seq})
    return found is not None


def stamp_note(tx: Write, seq: int) -> None:
    """The same for one note, of which something arrives."""
    _stamp_as_old_as_they_are(tx, ":seq", {"seq": seq})


def _stamp_as_old_as_they_are(tx: Write, seqs: str, values: Mapping[str, Any]) -> None:
    tx.all(
        f"""
        INSERT INTO sync_fields (note_seq, field, stamp, value)
        SELECT told.seq, field,
            printf('%015d:%05d:%s', max(0, min(node.ms, unixepoch(updated_at, 'subsec') * 1000)), 0, node), value
        FROM sync_told AS told JOIN notes USING (seq), sync_node AS node WHERE told.seq IN ({seqs})
        ON CONFLICT (note_seq, field) DO NOTHING
        """,
        values,
    )


def forget(tx: Write, namespace: str) -> None:
    values = {"namespace": namespace}
    tx.all(
        """
        DELETE FROM sync_outbox WHERE note_id IN (
            SELECT id FROM notes WHERE namespace = :namespace
            UNION ALL SELECT id FROM sync_tombstones WHERE namespace = :namespace
        )
        """,
        values,
    )
    tx.all("DELETE FROM sync_fields WHERE note_seq IN (SELECT seq FROM notes WHERE namespace = :namespace)", values)
    tx.all("DELETE FROM sync_set_aside WHERE namespace = :namespace", values)
    tx.all("DELETE FROM sync_namespaces WHERE namespace = :namespace", values)


def start_over(tx: Write, namespace: str | None) -> None:
    """Read everything again, and tell everything again: of one namespace, or of all."""
    values = {"namespace": namespace}
    tx.all(
        """
        UPDATE sync_namespaces SET cursor = 0, rereading = 1 WHERE :namespace IS NULL OR namespace = :namespace
        """,
        values,
    )
    tx.all(
        """
        DELETE FROM sync_set_aside WHERE :namespace IS NULL OR namespace IS NULL OR namespace = :namespace
        """,
        values,
    )
    tell_again(tx, namespace)


def tell_again(tx: Write, namespace: str | None) -> None:
    """Put all notes into the outbox, and those that were deleted: of one namespace, or of all."""
    tx.all(
        """
        INSERT INTO sync_outbox (note_id)
        SELECT id FROM notes
        WHERE namespace IN (SELECT namespace FROM sync_namespaces) AND (:namespace IS NULL OR namespace = :namespace)
        UNION ALL
        SELECT id FROM sync_tombstones WHERE :namespace IS NULL OR namespace = :namespace
        ON CONFLICT (note_id) DO NOTHING
        """,
        {"namespace": namespace},
    )


def set_read(tx: Write, place: NamespaceCursor, cursor: int, left: int) -> None:
    """Unless somebody has asked meanwhile to read it all again."""
    tx.all(
        """
        UPDATE sync_namespaces
        SET cursor = :cursor, ahead = :left, pulled_at = :now, rereading = CASE :left WHEN 0 THEN 0 ELSE rereading END
        WHERE namespace = :namespace AND cursor = :read_from
        """,
        {
            "namespace": place.namespace,
            "read_from": place.cursor,
            "cursor": cursor,
            "left": left,
            "now": tx.precise_stamp,
        },
    )


def set_pushed(tx: Write, ids: Collection[str]) -> None:
    tx.all(
        """
        UPDATE sync_namespaces SET pushed_at = :now WHERE namespace IN (
            SELECT namespace FROM notes WHERE id IN (SELECT value FROM json_each(:ids))
            UNION SELECT namespace FROM sync_tombstones WHERE id IN (SELECT value FROM json_each(:ids))
        )
        """,
        {"ids": json.dumps(list(ids)), "now": tx.precise_stamp},
    )


# What was set aside


def set_aside(tx: Read) -> list[SetAside]:
    rows = tx.all(
        "SELECT note_id, reason FROM sync_set_aside ORDER BY at DESC, note_id LIMIT :most",
        {"most": MAX_SET_ASIDE_SHOWN},
    )
    return [SetAside(*row) for row in rows]


def put_aside(tx: Write, several: Sequence[SetAside], namespace: str | None) -> None:
    tx.all(
        """
        INSERT INTO sync_set_aside (note_id, namespace, reason, at)
        SELECT value ->> 0, :namespace, value ->> 1, :now FROM json_each(:several) WHERE true
        ON CONFLICT (note_id) DO UPDATE SET namespace = excluded.namespace, reason = excluded.reason, at = excluded.at
        """,
        {
            "several": json.dumps([[one.id, one.reason] for one in several]),
            "namespace": namespace,
            "now": tx.precise_stamp,
        },
    )
    tx.all(
        """
        DELETE FROM sync_set_aside WHERE note_id NOT IN (
            SELECT note_id FROM sync_set_aside ORDER BY at DESC, note_id LIMIT :most
        )
        """,
        {"most": MAX_SET_ASIDE},
    )


def take_back(tx: Write, ids: Collection[str]) -> None:
    """These could be taken in after all."""
    tx.all(
        "DELETE FROM sync_set_aside WHERE note_id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids))},
    )


# The outbox


def outbox(tx: Read, after: int, most: int) -> list[tuple[int, str]]:
    """(ticket, note's id) of what may leave this node: notes, and deleted notes, of namespaces that are enabled here.
    Nothing else leaves, whatever the hub says: this is the only place where that is decided (docs/sync.md)."""
    rows = tx.all(
        f"""
        SELECT ticket, note_id FROM {_OUTBOX}
        WHERE ticket > :after AND synced.enabled ORDER BY ticket LIMIT :most
        """,
        {"after": after, "most": most},
    )
    return [(ticket, id_) for ticket, id_ in rows]


def acknowledge(tx: Write, tickets: Collection[int]) -> list[str]:
    """The ids of those that are out of it now: the others have changed since."""
    rows = tx.all(
        "DELETE FROM sync_outbox WHERE ticket IN (SELECT value FROM json_each(:tickets)) RETURNING note_id",
        {"tickets": json.dumps(list(tickets))},
    )
    return [id_ for (id_,) in rows]


def refuse(tx: Write, ticket: int, why: str) -> None:
    tx.all("UPDATE sync_outbox SET refused = :why WHERE ticket = :ticket", {"ticket": ticket, "why": why})


def add_to_outbox(tx: Write, id_: str) -> None:
    tx.all("INSERT INTO sync_outbox (note_id) VALUES (:id) ON CONFLICT (note_id) DO NOTHING", {"id": id_})


# Stamps and tombstones


def fields(tx: Read, seqs: Collection[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
    """By note and field: its stamp, and of a link the other note's id."""
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


def tags_told(tx: Read, seqs: Collection[int]) -> dict[int, dict[str, tuple[str, str]]]:
    """By note and tag: its name and origin, of those that others are told of."""
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


def tombstones(tx: Read, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """By id: the namespace it was in, and when it was deleted."""
    rows = tx.all(
        "SELECT id, namespace, stamp FROM sync_tombstones WHERE id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids))},
    )
    return {id_: (namespace, stamp) for id_, namespace, stamp in rows}


def bury(tx: Write, id_: str, namespace: str, stamp: str) -> None:
    tx.all(
        """
        INSERT INTO sync_tombstones (id, namespace, stamp) VALUES (:id, :namespace, :stamp)
        ON CONFLICT (id) DO UPDATE SET stamp = max(stamp, excluded.stamp)
        """,
        {"id": id_, "namespace": namespace, "stamp": stamp},
    )


def seqs_of(tx: Read, ids: Sequence[str]) -> dict[str, int]:
    rows = tx.all(
        "SELECT id, seq FROM notes WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(list(ids))}
    )
    return dict(rows)


def seqs_in_scope(tx: Read, ids: Sequence[str]) -> dict[str, int]:
    """The same, but only of notes in namespaces that are enabled."""
    rows = tx.all(
        """
        SELECT id, seq FROM notes WHERE id IN (SELECT value FROM json_each(:ids))
            AND namespace IN (SELECT namespace FROM sync_namespaces WHERE enabled)
        """,
        {"ids": json.dumps(list(ids))},
    )
    return dict(rows)


def links_to(tx: Read, ids: Collection[str]) -> list[tuple[int, str, bool]]:
    """(note, field, whether it is made or undone) of every link to some notes that other nodes wrote, be it before
    those were here or while they lay where nothing is synced; from notes in namespaces that are enabled."""
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


# What a [[title]] means

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


def point_as_told(tx: Write, ids: Collection[str]) -> list[int]:
    """Let every [[title]] in these notes, and every one that means one of them, mean the note that was told, if that is
    here, in the same namespace and not archived. Returns the notes whose links changed."""
    rows = tx.all(
        f"""
        {_CONCERNED}
        UPDATE note_wikilinks SET target_seq = told.target FROM (
            SELECT holder, named, (
                SELECT target.seq FROM sync_fields JOIN notes AS target ON target.id = value
                WHERE note_seq = holder AND field = 'wikilink/' || named AND target.seq <> holder
                    AND target.archived = 0 AND target.namespace = note.namespace
            ) AS target
            FROM concerned JOIN notes AS note ON note.seq = holder
            WHERE note.namespace IN (SELECT namespace FROM sync_namespaces WHERE enabled)
        ) AS told
        WHERE source_seq = told.holder AND title_key = told.named AND target_seq IS NOT told.target
        RETURNING source_seq
        """,
        {"ids": json.dumps(list(ids))},
    )
    return [seq for (seq,) in rows]


def resolve(tx: Write, ids: Collection[str]) -> list[int]:
    """Point what dangles among the same at the oldest live note of that title in the namespace; not what was told to
    mean a note that is not here yet, or lies here where nothing is synced: two nodes that keep different notes to
    themselves would otherwise choose by turns, without end. Returns the notes whose links changed."""
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
                    SELECT 1 FROM sync_fields AS told WHERE note_seq = holder AND field = 'wikilink/' || named
                        AND value NOT IN (
                            SELECT id FROM notes JOIN sync_namespaces USING (namespace)
                            WHERE id = told.value AND enabled
                            UNION ALL
                            SELECT id FROM sync_tombstones JOIN sync_namespaces USING (namespace)
                            WHERE id = told.value AND enabled
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


def point_back(tx: Write, seq: int) -> None:
    """Let what others say means a note mean it, now that it has come, or come back."""
    tx.all(
        """
        UPDATE note_wikilinks SET target_seq = :seq
        WHERE target_seq IS NULL AND source_seq <> :seq
            AND (SELECT archived, namespace FROM notes WHERE seq = :seq)
                = (0, (SELECT namespace FROM notes WHERE seq = source_seq))
            AND (source_seq, 'wikilink/' || title_key) IN (
                SELECT note_seq, field FROM sync_fields WHERE value = (SELECT id FROM notes WHERE seq = :seq)
            )
        """,
        {"seq": seq},
    )


# Times


def set_times(tx: Write, seq: int, created_at: str, updated_at: str, last_referenced_at: str | None) -> None:
    tx.all(
        """
        UPDATE notes SET created_at = :created, updated_at = :updated, last_referenced_at = :referenced
        WHERE seq = :seq AND (created_at, updated_at, last_referenced_at) IS NOT (:created, :updated, :referenced)
        """,
        {"seq": seq, "created": created_at, "updated": updated_at, "referenced": last_referenced_at},
    )
