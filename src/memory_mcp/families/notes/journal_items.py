"""Notes and links in the journal of writes: how they are shown and undone."""

from collections.abc import Collection, Sequence
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes import former_versions, transactions
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.storage import links, notes, writes
from memory_mcp.families.notes.storage.writes import WRITES, LinkItem, link_item, link_write, note_write
from memory_mcp.families.writes import ItemShown, LastWriters
from memory_mcp.services.write_journal import Action, ItemWrite, WriteRecord

LINKED = "linked"


class NoteItems(LastWriters):
    def __init__(self, within: str | None = None) -> None:
        """`within` is the namespace that the caller is confined to: other notes, and links to them, are left out."""
        self.table = WRITES if within is None else writes.writes_within(within)
        self._within = within

    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        ends = {item: link for item in items if (link := link_item(item))}
        ids = {id_ for link in ends.values() for id_ in link[1:]} | {item for item in items if item not in ends}
        titles = writes.titles(tx, list(ids))
        shown = {item: ItemShown(note_uri(item), titles[item]) for item in items if item in titles}
        for item, link in ends.items():
            source, target = (titles.get(id_, id_) for id_ in link[1:])
            shown[item] = ItemShown(note_uri(link.source_id), f"{source} → {target} ({link.kind})")
        return shown

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        start = note_uri("")
        return {ref: [ref.removeprefix(start)] for ref in refs if ref.startswith(start)}

    def digests(self, tx: Read, items: Sequence[str]) -> dict[str, str]:
        found = {id_: str(version) for id_, version in writes.versions(tx, items).items()}
        linked = {item: LINKED for item in items if (link := link_item(item)) and writes.is_linked(tx, link)}
        return found | linked

    def has_before(self, tx: Read, record: WriteRecord) -> bool:
        return self.before(tx, record) is not None

    def before(self, tx: Read, record: WriteRecord) -> Any:
        """A former version, or whether notes were linked."""
        if link_item(record.item):
            return LINKED
        stored = notes.get(tx, record.item)
        if stored is None or record.after is None:
            return None
        version = int(record.after) - 1
        return version if notes.former(tx, stored, version, self._within) else None

    def refusal(self, tx: Read, item: str, undone: Collection[str], *, deletes: bool) -> str | None:
        if not deletes and (link := link_item(item)):
            known = writes.versions(tx, link[1:])
            return None if len(known) == len(set(link[1:])) else "one of the two notes is deleted for good"
        return None

    def restore(self, tx: Write, caller: Caller, item: str, before: Any) -> ItemWrite:
        if link := link_item(item):
            return _restore_link(tx, link, is_linked=before is not None)
        stored = transactions.existing(tx, item, self._within)
        if before is None and not stored.note.archived:
            transactions.archive_unrecorded(tx, stored)
        elif before is not None:
            former_versions.restore(tx, stored, before)
        action: Action = "deleted" if before is None else "updated"
        return note_write(item, action, transactions.existing(tx, item, None).note.version)


def _restore_link(tx: Write, link: LinkItem, *, is_linked: bool) -> ItemWrite:
    source, target = (transactions.existing(tx, id_, None).seq for id_ in link[1:])
    if is_linked:
        links.link(tx, source, target, link.kind)
    else:
        links.unlink_kind(tx, source, target, link.kind)
    if link.kind == "supersedes":
        links.refresh_superseded(tx, target)
    return link_write(link.source_id, link.target_id, link.kind, "created" if is_linked else "deleted")
