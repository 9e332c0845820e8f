"""The rows of a graph in the journal of writes. An item is an entity, an observation or a relation."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import Conflict
from memory_mcp.families.graph.model import Nodes, ref_of, split_ref
from memory_mcp.families.graph.storage import ids_of, rows
from memory_mcp.families.writes import ItemShown, LastWriters, origins_of, shorten_origin
from memory_mcp.services.write_journal import ItemWrite, WriteRecord

OTHERS_WROTE = "others have added observations or relations to it"
ENTITY_DELETED = "its entity is deleted"
WRITTEN_AGAIN = "it was written again since"


class GraphItems(LastWriters):
    table = rows.WRITES

    def __init__(self, project: str) -> None:
        self._project = project

    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        found = {}
        for kind, ids in _by_kind(items).items():
            for id_, (name, text) in rows.entities_of(tx, kind, ids).items():
                title = {"entity": f"{name} ({text})", "observation": f"{name}: {text}"}.get(kind, f"{name} {text}")
                found[f"{kind}/{id_}"] = ItemShown(ref_of(self._project, name), title)
        return found

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        """An entity and its observations."""
        names = {ref: name for ref in refs for project, name in [split_ref(ref)] if project == self._project and name}
        ids = ids_of(tx, set(names.values()))
        found = _with_observations(tx, ids.values())
        return {ref: found[ids[name]] for ref, name in names.items() if name in ids}

    def last_sessions(self, tx: Read, entity_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """(session, time) of the last write of each entity or of one of its observations, as far as its session is
        known."""
        items = _with_observations(tx, entity_ids)
        found = self.table.last_sessions(tx, [item for own in items.values() for item in own])
        known = {id_: [found[item] for item in own if item in found] for id_, own in items.items()}
        return {id_: max(several, key=lambda one: one[1]) for id_, several in known.items() if several}

    def digests(self, tx: Read, items: Sequence[str]) -> dict[str, str]:
        return {
            f"{kind}/{id_}": rows.ACTIVE
            for kind, ids in _by_kind(items).items()
            for id_ in rows.active_rows(tx, kind, ids)
        }

    def has_before(self, tx: Read, record: WriteRecord) -> bool:
        return True

    def before(self, tx: Read, record: WriteRecord) -> Any:
        return rows.ACTIVE

    def refusal(self, tx: Read, item: str, undone: Collection[str], *, deletes: bool) -> str | None:
        kind, id_ = rows.split_item(item)
        if deletes:
            below = rows.active_below(tx, [id_]) if kind == "entity" else []
            return OTHERS_WROTE if any(f"{other}/{one}" not in undone for other, one, _ in below) else None
        if any(f"entity/{end}" not in undone for end in rows.missing_ends(tx, kind, id_)):
            return ENTITY_DELETED
        return WRITTEN_AGAIN if rows.has_equal(tx, kind, id_) else None

    def restore(self, tx: Write, caller: Caller, item: str, before: Any) -> ItemWrite:
        kind, id_ = rows.split_item(item)
        if refused := self.refusal(tx, item, (), deletes=before is None):
            raise Conflict(refused)
        if before is None:
            rows.delete_row(tx, kind, id_)
            return rows.row_write(kind, id_, "deleted")
        rows.restore_row(tx, kind, id_)
        return rows.row_write(kind, id_, "created")


def _with_observations(tx: Read, entity_ids: Iterable[str]) -> dict[str, list[str]]:
    """By entity, its item and those of its observations."""
    found = {id_: [f"entity/{id_}"] for id_ in entity_ids}
    for id_, entity_id in rows.active_observations(tx, list(found)):
        found[entity_id].append(f"observation/{id_}")
    return found


def with_origins(tx: Read, nodes: Nodes) -> Nodes:
    """Entities with the names of those who wrote them and their observations."""
    known = _origins(tx, [entity.id for entity in nodes.entities])
    entities = [replace(entity, origin=known[entity.id]) if entity.id in known else entity for entity in nodes.entities]
    return replace(nodes, entities=entities)


def short_origins(tx: Read, entity_ids: Sequence[str]) -> dict[str, str]:
    """By entity, the names of those who wrote it and its observations, for lists."""
    return {id_: shorten_origin(text) for id_, text in _origins(tx, entity_ids).items()}


def _origins(tx: Read, entity_ids: Sequence[str]) -> dict[str, str]:
    return origins_of(tx, GraphItems(""), _with_observations(tx, entity_ids))


def _by_kind(items: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind, id_ in map(rows.split_item, items):
        found.setdefault(kind, []).append(id_)
    return found
