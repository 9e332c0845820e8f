"""SQL for conversations and what was given to them."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from memory_mcp.conversations.model import Conversation, GivenMemory, HookCall
from memory_mcp.engines.transactions import Read, Write

_CONVERSATION = """
    id, client, project, transcript, read_bytes, last_note, messages, title, started_at, last_at, is_unfinished,
    is_deleted
"""


def get(tx: Read, id_: str) -> Conversation | None:
    row = tx.one(f"SELECT {_CONVERSATION} FROM conversations WHERE id = :id", {"id": id_})
    return _conversation(row) if row else None


def begin_capture(tx: Write, call: HookCall, project: str) -> Conversation:
    """Record that a capture begins. A transcript with another path is read from its start."""
    path = str(call.transcript)
    tx.all(
        """
        INSERT INTO conversations (id, client, project, transcript, started_at, last_at, is_unfinished)
        VALUES (:id, :client, :project, :path, :now, :now, 1)
        ON CONFLICT (id) DO UPDATE SET
            read_bytes = iif(transcript IS :path, read_bytes, 0), transcript = :path, is_unfinished = 1
        """,
        {"id": call.conversation, "client": call.client, "project": project, "path": path, "now": tx.precise_stamp},
    )
    row = tx.one(f"SELECT {_CONVERSATION} FROM conversations WHERE id = :id", {"id": call.conversation})
    return _conversation(row or ())


def advance(
    tx: Write, id_: str, read_bytes: int, last_note: str | None, times: Sequence[str], added: int, title: str
) -> None:
    """Record messages of these times that were stored; `added` of them are new."""
    tx.all(
        """
        UPDATE conversations SET
            read_bytes = :read_bytes, last_note = :last_note, messages = messages + :added,
            title = iif(title = '', :title, title), last_at = iif(messages = 0, :last_at, max(last_at, :last_at)),
            started_at = min(started_at, :first_at)
        WHERE id = :id
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


def end_capture(tx: Write, id_: str) -> None:
    tx.all("UPDATE conversations SET is_unfinished = 0 WHERE id = :id", {"id": id_})


def unfinished(tx: Read, limit: int) -> list[Conversation]:
    return _all(tx, "is_unfinished = 1 AND is_deleted = 0", {"limit": limit})


def latest(tx: Read, project: str | None, limit: int) -> list[Conversation]:
    """Those with stored messages, the last first; of a project, or of all."""
    where = "messages > 0 AND is_deleted = 0 AND (:project IS NULL OR project = :project)"
    return _all(tx, where, {"project": project, "limit": limit})


def _all(tx: Read, where: str, values: dict[str, Any]) -> list[Conversation]:
    rows = tx.all(
        f"SELECT {_CONVERSATION} FROM conversations WHERE {where} ORDER BY last_at DESC, id LIMIT :limit", values
    )
    return [_conversation(row) for row in rows]


def mark_deleted(tx: Write, ids: Collection[str], *, is_deleted: bool) -> None:
    tx.all(
        "UPDATE conversations SET is_deleted = :deleted WHERE id IN (SELECT value FROM json_each(:ids))",
        {"ids": json.dumps(list(ids)), "deleted": is_deleted},
    )


def _conversation(row: Sequence[Any]) -> Conversation:
    *fields, is_unfinished, is_deleted = row
    (id_, client, project, transcript, read_bytes, last_note, messages, title, started_at, last_at) = fields
    return Conversation(
        *(id_, client, project, transcript, read_bytes, last_note, messages, title, started_at, last_at),
        is_unfinished=bool(is_unfinished),
        is_deleted=bool(is_deleted),
    )


# What was given


def given(tx: Read, conversation: str) -> set[str]:
    """The references that a conversation was given."""
    rows = tx.all("SELECT ref FROM given_memories WHERE conversation = :id", {"id": conversation})
    return {ref for (ref,) in rows}


def add_given(tx: Write, conversation: str, event: str, refs: Sequence[str]) -> None:
    tx.all(
        """
        INSERT INTO given_memories (conversation, event, ref, at) SELECT :id, :event, value, :now FROM json_each(:refs)
        """,
        {"id": conversation, "event": event, "refs": json.dumps(list(refs)), "now": tx.precise_stamp},
    )


def given_memories(tx: Read, limit: int) -> list[GivenMemory]:
    """The last first."""
    rows = tx.all(
        "SELECT conversation, event, ref, at FROM given_memories ORDER BY seq DESC LIMIT :limit", {"limit": limit}
    )
    return [GivenMemory(*row) for row in rows]


def delete_before(tx: Write, moment: str) -> None:
    """Delete what was given before a moment, and conversations that ended before it."""
    tx.all("DELETE FROM given_memories WHERE at < :moment", {"moment": moment})
    tx.all("DELETE FROM conversations WHERE last_at < :moment", {"moment": moment})
