"""The full-text index: kept up to date, also when other programs write to the file."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.graph.storage.word_index import COLUMNS, ENTITY_TEXTS, OBSERVATION_TEXTS, WORDS
from memory_mcp.services.search import fts_query

Execute = Callable[[str, Mapping[str, Any]], list[Any]]


def add_words(tx: Write, entity_id: str, observation_id: str | None, **texts: str) -> None:
    """Make an entity or an observation findable by its words."""
    number = tx.number(
        "INSERT INTO indexed (entity_id, observation_id) VALUES (:entity, :observation) RETURNING number",
        {"entity": entity_id, "observation": observation_id},
    )
    spaced = {column: fts_query.spaced(texts.get(column, "")) for column in COLUMNS}
    tx.texts(WORDS).insert(number, {**spaced, "parts": fts_query.word_parts(" ".join(texts.values()))})


def has_changes(tx: Read) -> bool:
    """Whether entities or observations were written and the words index does not show it yet."""
    return tx.is_file and bool(tx.all("SELECT 1 FROM unindexed UNION ALL SELECT 1 FROM unindexed_numbers LIMIT 1"))


def clear_changes(tx: Write) -> None:
    """Delete the triggers' records, in a transaction that began with index_changes and indexed all that it added."""
    if tx.is_file:
        tx.all("DELETE FROM unindexed")


def index_changes(tx: Write) -> None:
    """Bring the words index up to date with the changes that the triggers have recorded."""
    if not has_changes(tx):
        return
    # With an entity its observations come and go. The plus keeps SQLite from looking through every entity.
    tx.all(
        """
        INSERT INTO unindexed SELECT observation_id FROM indexed
        WHERE observation_id IS NOT NULL AND entity_id IN (SELECT id FROM unindexed);
        INSERT INTO unindexed SELECT id FROM observations
        WHERE deleted_at IS NULL AND entity_id IN (SELECT id FROM unindexed);
        DELETE FROM indexed WHERE observation_id IN (SELECT id FROM unindexed);
        DELETE FROM indexed WHERE +observation_id IS NULL AND entity_id IN (SELECT id FROM unindexed);
        DELETE FROM graph_words WHERE rowid IN (SELECT number FROM unindexed_numbers);
        DELETE FROM unindexed_numbers;
        """
    )
    _index_changed(tx)
    tx.all("DELETE FROM unindexed")


def _index_changed(tx: Write) -> None:
    """Correct and index the changed entities and observations that are active."""
    changed = "id IN (SELECT id FROM unindexed)"
    correct_texts(tx.all, "entities", ("name", "entity_type"), changed)
    correct_texts(tx.all, "observations", ("content",), changed)
    for id_, name, kind in tx.all(
        """
        SELECT id, name, entity_type FROM entities
        WHERE deleted_at IS NULL AND id IN (SELECT id FROM unindexed) ORDER BY rowid
        """
    ):
        add_words(tx, id_, None, name=name, entity_type=kind)
    for id_, entity_id, content in tx.all(
        """
        SELECT observations.id, entity_id, content FROM observations JOIN entities ON entities.id = entity_id
        WHERE observations.deleted_at IS NULL AND entities.deleted_at IS NULL
            AND observations.id IN (SELECT id FROM unindexed) ORDER BY observations.rowid
        """
    ):
        add_words(tx, entity_id, id_, content=content)


def correct_texts(execute: Execute, table: str, columns: Iterable[str], where: str = "TRUE") -> None:
    """Bring texts that another program wrote into UTF-8 and NFC, as the tools write them. A row that would then equal
    another one stays as it is."""
    for column in columns:
        rows = execute(f"SELECT rowid, CAST({column} AS BLOB), typeof({column}) FROM {table} WHERE {where}", {})
        for rowid, raw, type_ in rows:
            if type_ != "text" or not is_correct(raw):
                execute(
                    f"UPDATE OR IGNORE {table} SET {column} = :text WHERE rowid = :rowid",
                    {"text": corrected(raw), "rowid": rowid},
                )


def is_correct(raw: bytes) -> bool:
    return raw.isascii() or corrected(raw).encode() == raw


def corrected(raw: bytes) -> str:
    return unicodedata.normalize("NFC", raw.decode(errors="replace"))


def repair_index(tx: Write) -> None:
    """Compare the indexes with entities and observations, and index what differs."""
    for table in ("entities", "observations"):
        if tx.number(f"SELECT count(*) FROM {table}_fts_docsize") != tx.number(f"SELECT count(*) FROM {table}"):
            tx.all(f"INSERT INTO {table}_fts ({table}_fts) VALUES ('rebuild')")
    tx.all(f"DELETE FROM indexed WHERE number NOT IN (SELECT indexed.number {_RIGHTLY_INDEXED})")
    tx.all(
        """
        INSERT INTO unindexed
        SELECT id FROM entities
        WHERE deleted_at IS NULL AND id NOT IN (SELECT entity_id FROM indexed WHERE observation_id IS NULL)
        UNION ALL
        SELECT observations.id FROM observations JOIN entities ON entities.id = entity_id
        WHERE observations.deleted_at IS NULL AND entities.deleted_at IS NULL
            AND observations.id NOT IN (SELECT observation_id FROM indexed WHERE observation_id IS NOT NULL)
        """
    )
    index_changes(tx)


def index_all(tx: Write) -> None:
    """Index everything in PostgreSQL, where all indexes are empty."""
    for rowid, id_, name, kind, is_active in tx.all(
        "SELECT rowid, id, name, entity_type, deleted_at IS NULL FROM entities ORDER BY rowid"
    ):
        tx.texts(ENTITY_TEXTS).insert(rowid, {"name": name, "entity_type": kind})
        if is_active:
            add_words(tx, id_, None, name=name, entity_type=kind)
    for rowid, id_, entity_id, content, is_active in tx.all(
        """
        SELECT observations.rowid, observations.id, entity_id, content,
            observations.deleted_at IS NULL AND entities.deleted_at IS NULL
        FROM observations JOIN entities ON entities.id = entity_id ORDER BY observations.rowid
        """
    ):
        tx.texts(OBSERVATION_TEXTS).insert(rowid, {"content": content})
        if is_active:
            add_words(tx, entity_id, id_, content=content)


def is_indexed(tx: Read) -> bool:
    """Whether every active entity and observation is in the full-text index, and nothing else."""
    indexed = tx.number("SELECT count(*) FROM indexed")
    active = tx.number(
        """
        SELECT (SELECT count(*) FROM entities WHERE deleted_at IS NULL)
            + (SELECT count(*) FROM observations JOIN entities ON entities.id = entity_id
               WHERE observations.deleted_at IS NULL AND entities.deleted_at IS NULL)
        """
    )
    return (
        not has_changes(tx)
        and indexed == active
        and indexed == tx.number(f"SELECT count(*) {_RIGHTLY_INDEXED}")
        and tx.texts(WORDS).documents() == indexed
        and all(
            tx.texts(texts).documents() == tx.number(f"SELECT count(*) FROM {table}")
            for table, texts in (("entities", ENTITY_TEXTS), ("observations", OBSERVATION_TEXTS))
        )
    )


def clear_index(tx: Write) -> None:
    """Mark every row as not indexed."""
    tx.all("DELETE FROM indexed")


_RIGHTLY_INDEXED = """
    FROM indexed JOIN entities ON entities.id = indexed.entity_id AND entities.deleted_at IS NULL
    LEFT JOIN observations ON observations.id = observation_id AND observations.deleted_at IS NULL
    WHERE observation_id IS NOT DISTINCT FROM observations.id
"""
