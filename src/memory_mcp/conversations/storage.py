"""SQL for conversations and what was given to them."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from memory_mcp.conversations.model import (
    Conversation,
    ConversationCursor,
    ConversationFilter,
    GivenMemories,
    GivenMemory,
    HookCall,
    PortableConversation,
)
from memory_mcp.engines.transactions import Read, Write

_CONVERSATION = """
    id, client, project, transcript, read_bytes, last_note, messages, title, started_at, last_at, folder,
    compacted_at, is_unfinished, is_deleted
"""


def get(tx: Read, id_: str) -> Conversation | None:
    row = tx.one(f"SELECT {_CONVERSATION} FROM conversations WHERE id = :id", {"id": id_})
    return _conversation(row) if row else None


def begin_capture(tx: Write, call: HookCall, project: str) -> Conversation:
    """Record that a transcript has messages to store. One with another path is read from its start."""
    path, now = str(call.transcript), tx.precise_stamp
    named = {"id": call.conversation, "client": call.client, "project": project, "path": path}
    tx.all(
        """
        INSERT INTO conversations
            (id, client, project, transcript, folder, started_at, last_at, compacted_at, is_unfinished)
        VALUES (:id, :client, :project, :path, :folder, :now, :now, :compacted_at, 1)
        ON CONFLICT (id) DO UPDATE SET
            read_bytes = CASE WHEN conversations.transcript = :path THEN conversations.read_bytes ELSE 0 END,
            transcript = excluded.transcript, folder = excluded.folder,
            compacted_at = coalesce(excluded.compacted_at, conversations.compacted_at), is_unfinished = 1
        """,
        named | {"folder": str(call.folder), "now": now, "compacted_at": now if call.is_compaction else None},
    )
    row = tx.one(f"SELECT {_CONVERSATION} FROM conversations WHERE id = :id", {"id": call.conversation})
    return _conversation(row or ())


def advance(
    tx: Write, id_: str, read_bytes: int, last_note: str | None, times: Sequence[str], added: int, title: str
) -> bool:
    """Record messages of these times that were stored; `added` of them are new. False if the conversation was deleted
    meanwhile."""
    rows = tx.all(
        """
        UPDATE conversations SET
            read_bytes = :read_bytes, last_note = :last_note, messages = messages + :added,
            title = CASE title WHEN '' THEN :title ELSE title END,
            last_at = CASE WHEN messages = 0 OR last_at < :last_at THEN :last_at ELSE last_at END,
            started_at = CASE WHEN started_at > :first_at THEN :first_at ELSE started_at END
        WHERE id = :id AND is_deleted = 0 RETURNING id
        """,
        {
            "id": id_,
            "read_bytes": read_bytes,
            "last_note": last_note,
            "added": added,
            "title": title,
            "first_at": min(times, default=tx.precise_stamp),
            "last_at": max(times, default=tx.precise_stamp),
        },
    )
    return bool(rows)


def end_capture(tx: Write, id_: str) -> None:
    tx.all("UPDATE conversations SET is_unfinished = 0 WHERE id = :id", {"id": id_})


def unfinished(tx: Read, limit: int) -> list[Conversation]:
    return _all(tx, "is_unfinished = 1 AND is_deleted = 0", {"limit": limit})


_HAS_MESSAGES = "messages > 0 AND is_deleted = 0"
_THE_START = ConversationCursor("9", "")  # later than any time


def page(
    tx: Read, chosen: ConversationFilter, limit: int, after: ConversationCursor = _THE_START
) -> list[Conversation]:
    """Those with stored messages that match a filter, the last first."""
    where = f"""
        {_HAS_MESSAGES} AND (last_at < :last_at OR last_at = :last_at AND id > :id)
        AND (CAST(:project AS TEXT) IS NULL OR project = :project)
        AND (CAST(:client AS TEXT) IS NULL OR client = :client)
        AND (CAST(:after AS TEXT) IS NULL OR last_at >= :after)
        AND (CAST(:before AS TEXT) IS NULL OR last_at < :before)
    """
    last = {"after": chosen.last.after, "before": chosen.last.before}
    return _all(tx, where, {"project": chosen.project, "client": chosen.client, "limit": limit} | last | vars(after))


def counts(tx: Read) -> tuple[dict[str, int], dict[str, int]]:
    """How many conversations with stored messages each project has, and each client; the name with the last first."""
    return _counts(tx, "project"), _counts(tx, "client")


def _counts(tx: Read, column: str) -> dict[str, int]:
    sql = f"SELECT {column}, count(*) FROM conversations WHERE {_HAS_MESSAGES} GROUP BY 1 ORDER BY max(last_at) DESC, 1"
    return dict(tx.all(sql))


def _all(tx: Read, where: str, values: dict[str, Any]) -> list[Conversation]:
    rows = tx.all(
        f"SELECT {_CONVERSATION} FROM conversations WHERE {where} ORDER BY last_at DESC, id LIMIT :limit", values
    )
    return [_conversation(row) for row in rows]


def mark_deleted(tx: Write, ids: Collection[str], *, is_deleted: bool) -> None:
    tx.all(
        "UPDATE conversations SET is_deleted = :deleted WHERE id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids)), "deleted": int(is_deleted)},
    )


def purge(tx: Write, ids: Collection[str]) -> None:
    """Delete what is known of conversations, except that they are deleted."""
    values = {"ids": json.dumps(list(ids))}
    tx.all(
        """
        UPDATE conversations SET is_deleted = 1, is_unfinished = 0, title = '', transcript = NULL, last_note = NULL
        WHERE id IN (SELECT value FROM json_each(:ids))
        """,
        values,
    )
    tx.all("DELETE FROM given_memories WHERE conversation IN (SELECT value FROM json_each(:ids))", values)


def matching(tx: Read, project: str | None, *, include_deleted: bool) -> list[str]:
    """The ids of the conversations of a project, or of all."""
    rows = tx.all(
        """
        SELECT id FROM conversations
        WHERE (CAST(:project AS TEXT) IS NULL OR project = :project) AND is_deleted <= :deleted
            AND (messages > 0 OR :deleted = 1)
        """,
        {"project": project, "deleted": int(include_deleted)},
    )
    return [id_ for (id_,) in rows]


# Exports and imports


def everything(tx: Read) -> Iterator[Conversation]:
    """Every one with stored messages, in the order of their ids."""
    return map(_conversation, tx.each(f"SELECT {_CONVERSATION} FROM conversations WHERE {_HAS_MESSAGES} ORDER BY id"))


def add_imported(tx: Write, new: PortableConversation) -> bool:
    """False if it exists, also as a deleted one."""
    rows = tx.all(
        """
        INSERT INTO conversations (id, client, project, title, started_at, last_at, folder, messages, last_note)
        VALUES (:id, :client, :project, :title, :started_at, :last_at, :folder, :messages, :last_note)
        ON CONFLICT (id) DO NOTHING RETURNING id
        """,
        vars(new),
    )
    return bool(rows)


_IS_IMPORTED = f"transcript IS NULL AND {_HAS_MESSAGES}"  # every capture names a transcript


def imported(tx: Read) -> list[tuple[str, str]]:
    """(id, last_at) of those that no capture has gone on with."""
    return [(id_, last_at) for id_, last_at in tx.all(f"SELECT id, last_at FROM conversations WHERE {_IS_IMPORTED}")]


def deleted(tx: Read, ids: Collection[str]) -> list[Conversation]:
    """Those of these that the user deleted."""
    rows = tx.all(
        f"""
        SELECT {_CONVERSATION} FROM conversations
        WHERE is_deleted = 1 AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id
        """,
        {"ids": json.dumps(list(ids))},
    )
    return [_conversation(row) for row in rows]


def remove_imported(tx: Write, id_: str) -> None:
    tx.all(f"DELETE FROM conversations WHERE id = :id AND {_IS_IMPORTED}", {"id": id_})


def _conversation(row: Sequence[Any]) -> Conversation:
    fields: Any = (*row[:-2], *map(bool, row[-2:]))
    return Conversation(*fields)


# What was given


def given(tx: Read, conversation: str) -> set[str]:
    """The references that a conversation was given."""
    rows = tx.all("SELECT ref FROM given_memories WHERE conversation = :id", {"id": conversation})
    return {ref for (ref,) in rows}


def add_given(tx: Write, call: HookCall, project: str, memories: Sequence[GivenMemory]) -> None:
    tx.all(
        """
        INSERT INTO given_memories (conversation, project, event, ref, why, at)
        SELECT :id, :project, :event, value ->> 'ref', value ->> 'why', :now FROM json_each(:memories)
        """,
        {
            "id": call.conversation,
            "project": project,
            "event": call.event,
            "memories": json.dumps([{"ref": one.ref, "why": one.why} for one in memories]),
            "now": tx.precise_stamp,
        },
    )


def given_memories(tx: Read, conversation: str | None, before: int | None, limit: int) -> list[GivenMemories]:
    """What calls of hooks gave, the last first: to one conversation or to all, before the call with this number."""
    rows = tx.all(
        """
        SELECT min(seq), conversation, max(project), event, at, json_group_array(json_array(ref, why) ORDER BY seq)
        FROM given_memories
        WHERE (CAST(:conversation AS TEXT) IS NULL OR conversation = :conversation)
            AND (CAST(:before AS BIGINT) IS NULL OR seq < :before)
        GROUP BY conversation, event, at ORDER BY min(seq) DESC LIMIT :limit
        """,
        {"conversation": conversation, "before": before, "limit": limit},
    )
    return [
        GivenMemories(seq, id_, project, event, at, [GivenMemory(*one) for one in json.loads(memories)])
        for seq, id_, project, event, at, memories in rows
    ]


def given_counts(tx: Read, ids: Collection[str]) -> dict[str, int]:
    """How many memories each of these conversations was given."""
    rows = tx.all(
        """
        SELECT conversation, count(*) FROM given_memories
        WHERE conversation IN (SELECT value FROM json_each(:ids)) GROUP BY 1
        """,
        {"ids": json.dumps(list(ids))},
    )
    return dict(rows)


def delete_before(tx: Write, moment: str) -> None:
    """Delete what was given before a moment, and conversations that ended before it."""
    tx.all("DELETE FROM given_memories WHERE at < :moment", {"moment": moment})
    tx.all("DELETE FROM conversations WHERE last_at < :moment", {"moment": moment})
