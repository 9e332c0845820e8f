"""The journal of writes to notes. An item is the id of a note, or a link between two."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from memory_mcp.engines.transactions import Read
from memory_mcp.services.write_journal import Action, ItemWrite, WriteTable

WRITES = WriteTable("note_writes")
_LINK = "link"
_WITHIN = """
    (
        item IN (SELECT id FROM notes WHERE namespace = :within)
        OR substr(item, 1, 5) = 'link/'
            AND substr(item, length(item) - 72, 36) IN (SELECT id FROM notes WHERE namespace = :within)
            AND substr(item, length(item) - 35) IN (SELECT id FROM notes WHERE namespace = :within)
    )
"""


def writes_within(namespace: str) -> WriteTable:
    """The writes to notes that are in a namespace now, and to links between them."""
    return replace(WRITES, visible=_WITHIN, within=namespace)


class LinkItem(NamedTuple):
    kind: str
    source_id: str
    target_id: str

    def __str__(self) -> str:
        return "/".join((_LINK, *self))


def link_item(item: str) -> LinkItem | None:
    """The link that an item of the journal stands for; None if the item is a note."""
    return LinkItem(*item.split("/")[1:]) if item.startswith(f"{_LINK}/") else None


def note_write(id_: str, action: Action, version: int | None) -> ItemWrite:
    """The write of a note. `version` is the one after the write; None if the note was deleted for good."""
    return ItemWrite(id_, action, after=None if version is None else str(version))


def link_write(source_id: str, target_id: str, kind: str, action: Action) -> ItemWrite:
    return ItemWrite(str(LinkItem(kind, source_id, target_id)), action, after="linked" if action == "created" else None)


def versions(tx: Read, ids: Sequence[str]) -> dict[str, int]:
    """The version of each of these notes that exists, by id."""
    rows = tx.all(
        "SELECT id, version FROM notes WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(list(ids))}
    )
    return dict(rows)


def titles(tx: Read, ids: Sequence[str]) -> dict[str, str]:
    rows = tx.all(
        "SELECT id, title FROM notes WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(list(ids))}
    )
    return dict(rows)


def is_linked(tx: Read, link: LinkItem) -> bool:
    found = tx.one(
        """
        SELECT 1 FROM note_links AS link
        JOIN notes AS source ON source.seq = link.source_seq JOIN notes AS target ON target.seq = link.target_seq
        WHERE source.id = :source_id AND target.id = :target_id AND link.kind = :kind
        """,
        link._asdict(),
    )
    return found is not None
