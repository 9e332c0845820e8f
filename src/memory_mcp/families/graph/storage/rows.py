"""Rows of a graph by their ids, for the journal of writes. Deleted rows are kept, so they can be restored."""

from collections.abc import Iterable, Sequence

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.graph.storage.expressions import to_json
from memory_mcp.families.graph.storage.index import add_words
from memory_mcp.services.write_journal import Action, ItemWrite, WriteTable

WRITES = WriteTable("graph_writes")
ACTIVE = "active"
TABLES = {"entity": "entities", "observation": "observations", "relation": "relations"}


def row_write(kind: str, id_: str, action: Action) -> ItemWrite:
    return ItemWrite(f"{kind}/{id_}", action, after=None if action == "deleted" else ACTIVE)


def row_writes(kind: str, ids: Iterable[str], action: Action) -> list[ItemWrite]:
    return [row_write(kind, id_, action) for id_ in ids]


def split_item(item: str) -> tuple[str, str]:
    """Its kind and its id."""
    kind, _, id_ = item.partition("/")
    return kind, id_


def active_rows(tx: Read, kind: str, ids: Sequence[str]) -> set[str]:
    rows = tx.all(
        f"SELECT id FROM {TABLES[kind]} WHERE deleted_at IS NULL AND id IN (SELECT value FROM json_each(:ids))",
        {"ids": to_json(list(ids))},
    )
    return {id_ for (id_,) in rows}


def entities_of(tx: Read, kind: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """By the id of a row, deleted or not: the name of its entity, and its text."""
    columns = {
        "entity": "name, entity_type FROM entities AS row",
        "observation": "entities.name, content FROM observations AS row JOIN entities ON entities.id = entity_id",
        "relation": """source.name, relation_type || ' ' || target.name FROM relations AS row
            JOIN entities AS source ON source.id = from_entity JOIN entities AS target ON target.id = to_entity""",
    }
    rows = tx.all(
        f"SELECT row.id, {columns[kind]} WHERE row.id IN (SELECT value FROM json_each(:ids))",
        {"ids": to_json(list(ids))},
    )
    return {id_: (name, text) for id_, name, text in rows}


def active_below(tx: Read, entity_ids: Iterable[str]) -> list[tuple[str, str, str]]:
    """(kind, id, entity id) of the active observations and relations of entities."""
    return tx.all(
        """
        SELECT 'observation', id, entity_id FROM observations
        WHERE deleted_at IS NULL AND entity_id IN (SELECT value FROM json_each(:ids))
        UNION ALL
        SELECT 'relation', id, from_entity FROM relations
        WHERE deleted_at IS NULL AND from_entity IN (SELECT value FROM json_each(:ids))
        UNION ALL
        SELECT 'relation', id, to_entity FROM relations
        WHERE deleted_at IS NULL AND to_entity IN (SELECT value FROM json_each(:ids))
            AND NOT from_entity IN (SELECT value FROM json_each(:ids))
        """,
        {"ids": to_json(list(entity_ids))},
    )


def active_observations(tx: Read, entity_ids: Iterable[str]) -> list[tuple[str, str]]:
    """(id, entity id) of the active observations of entities."""
    return tx.all(
        """
        SELECT id, entity_id FROM observations
        WHERE deleted_at IS NULL AND entity_id IN (SELECT value FROM json_each(:ids))
        """,
        {"ids": to_json(list(entity_ids))},
    )


def missing_ends(tx: Read, kind: str, id_: str) -> list[str]:
    """The entities that a row needs and that are deleted."""
    ends = {"entity": (), "observation": ("entity_id",), "relation": ("from_entity", "to_entity")}[kind]
    found = [
        tx.all(
            f"""
            SELECT entities.id FROM {TABLES[kind]} AS row JOIN entities ON entities.id = row.{end}
            WHERE row.id = :id AND entities.deleted_at IS NOT NULL
            """,
            {"id": id_},
        )
        for end in ends
    ]
    return [entity_id for rows in found for (entity_id,) in rows]


def has_equal(tx: Read, kind: str, id_: str) -> bool:
    """Whether another active row equals this one: there is one for each name, text or relation."""
    equal = {
        "entity": ("name",),
        "observation": ("entity_id", "content"),
        "relation": ("from_entity", "to_entity", "relation_type"),
    }
    same = " AND ".join(f"other.{column} = row.{column}" for column in equal[kind])
    found = tx.one(
        f"""
        SELECT 1 FROM {TABLES[kind]} AS row JOIN {TABLES[kind]} AS other ON {same}
        WHERE row.id = :id AND other.id <> row.id AND other.deleted_at IS NULL
        """,
        {"id": id_},
    )
    return found is not None


def delete_row(tx: Write, kind: str, id_: str) -> None:
    tx.all(f"UPDATE {TABLES[kind]} SET deleted_at = :now WHERE id = :id", {"id": id_, "now": tx.stamp})
    _touch(tx, kind, id_)


def restore_row(tx: Write, kind: str, id_: str) -> None:
    tx.all(f"UPDATE {TABLES[kind]} SET deleted_at = NULL WHERE id = :id", {"id": id_})
    _touch(tx, kind, id_)
    if not tx.is_file and kind != "relation":  # in a file, triggers record what is to be indexed
        _index(tx, kind, id_)


def _index(tx: Write, kind: str, id_: str) -> None:
    if kind == "entity":
        [(name, type_)] = tx.all("SELECT name, entity_type FROM entities WHERE id = :id", {"id": id_})
        add_words(tx, id_, None, name=name, entity_type=type_)
    else:
        [(entity_id, content)] = tx.all("SELECT entity_id, content FROM observations WHERE id = :id", {"id": id_})
        add_words(tx, entity_id, id_, content=content)


def _touch(tx: Write, kind: str, id_: str) -> None:
    """Set the time of change of the row's entity."""
    owner = {"entity": ":id", "observation": "(SELECT entity_id FROM observations WHERE id = :id)"}.get(kind)
    if owner:
        tx.all(f"UPDATE entities SET updated_at = :now WHERE id = {owner}", {"id": id_, "now": tx.stamp})
