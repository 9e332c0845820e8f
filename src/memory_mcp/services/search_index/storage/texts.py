"""SQL for the texts of a `SearchIndex` and their groups."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from memory_mcp.engines.texts import Allowed, WordTable
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.search.text_facts import TextFacts
from memory_mcp.services.search_index.model import EmbedText, IndexText
from memory_mcp.services.search_index.storage import words
from memory_mcp.services.search_index.storage.queue import EmbedQueue
from memory_mcp.services.search_index.tables import OWN_COLUMNS, Tables
from memory_mcp.text.time_spans import Span

TABLES = Tables(
    texts="texts",
    words=WordTable("text_words", OWN_COLUMNS),
    vectors="text_vectors",
    owner="text_seq",
    queue_owner="text_seq",
)
_QUEUE = EmbedQueue(TABLES)
LAST_CHARACTER = chr(0x10FFFF)
_WRITTEN = "coalesce(created_at, updated_at)"  # a file may say only when it was changed

Contents = tuple[str, str, str, str, tuple[str, ...]]
"""Reference, label, title, content and sorted tags: everything of a text but its id."""


# Groups


def group_names(tx: Read) -> set[str]:
    return {name for (name,) in tx.all("SELECT name FROM text_groups")}


def group_version(tx: Read, group: str) -> str | None:
    row = tx.one("SELECT version FROM text_groups WHERE name = :name", {"name": group})
    return row[0] if row else None


def set_group_version(tx: Write, group: str, version: str | None) -> None:
    tx.all(
        """
        INSERT INTO text_groups (name, version) VALUES (:name, :version)
        ON CONFLICT (name) DO UPDATE SET version = excluded.version
        """,
        {"name": group, "version": version},
    )


def delete_group(tx: Write, group: str) -> None:
    tx.all("DELETE FROM text_groups WHERE name = :name", {"name": group})


def _group_id(tx: Write, group: str) -> int:
    return tx.number(
        "INSERT INTO text_groups (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET name = excluded.name "
        "RETURNING id",
        {"name": group},
    )


# Texts


def ids_in(tx: Read, group: str) -> dict[str, bool]:
    """The ids of a group's texts, and whether the facts of each are known."""
    rows = tx.all(
        "SELECT texts.id, has_facts FROM text_groups JOIN texts ON group_id = text_groups.id WHERE name = :name",
        {"name": group},
    )
    return {id_: bool(has_facts) for id_, has_facts in rows}


def insert_all(tx: Write, group: str, texts: Sequence[IndexText], former_ids: Collection[str] = ()) -> None:
    """Insert texts with their words and tags; their vectors follow. Of a text whose id exists, only the facts change.
    One that equals a former version, given by its id, takes over its row and keeps its vectors; other former versions
    of these texts are deleted."""
    group_id = _group_id(tx, group)
    former = _former_versions(tx, former_ids, texts) if former_ids else {}
    for text in texts:
        if (former_id := former.pop(_contents(text), None)) and _set_version(tx, former_id, text):
            continue
        row = tx.one(
            """
            INSERT INTO texts (
                id, group_id, ref, label, title, content, has_facts,
                created_at, updated_at, namespace, source, session_id, written_at
            )
            VALUES (
                :id, :group_id, :ref, :label, :title, :content, TRUE,
                :created_at, :updated_at, :namespace, :source, :session_id, :written_at
            )
            ON CONFLICT (id) DO NOTHING RETURNING seq
            """,
            {
                "id": text.id,
                "group_id": group_id,
                "ref": text.ref,
                "label": text.label,
                "title": text.title,
                "content": text.content,
            }
            | vars(text.facts),
        )
        if row is not None:
            _index(tx, row[0], text)
        else:
            _set_version(tx, text.id, text)
    if former:
        delete_all(tx, list(former.values()))


def _former_versions(tx: Read, ids: Collection[str], texts: Sequence[IndexText]) -> dict[Contents, str]:
    """By contents, the ids among these whose texts have the same references as `texts`."""
    rows = tx.all(
        """
        SELECT id, ref, label, title, content,
            (SELECT json_group_array(tag_key ORDER BY tag_key) FROM text_tags WHERE text_seq = seq)
        FROM texts
        WHERE id IN (SELECT value FROM json_each(:ids)) AND ref IN (SELECT value FROM json_each(:refs))
        """,
        {"ids": json.dumps(list(ids)), "refs": json.dumps([text.ref for text in texts])},
    )
    return {
        (ref, label, title, content, tuple(json.loads(tags))): id_ for id_, ref, label, title, content, tags in rows
    }


def _contents(text: IndexText) -> Contents:
    return text.ref, text.label, text.title, text.content, tuple(sorted({_tag_key(tag) for tag in text.tags}))


def _set_version(tx: Write, id_: str, text: IndexText) -> bool:
    """Set the id of this version and its facts. False if there is another text with the new id already."""
    row = tx.one(
        """
        UPDATE texts SET id = :new, has_facts = TRUE, created_at = :created_at, updated_at = :updated_at,
            namespace = :namespace, source = :source, session_id = :session_id, written_at = :written_at
        WHERE id = :id AND NOT EXISTS (SELECT 1 FROM texts WHERE id = :new AND id <> :id) RETURNING seq
        """,
        {"id": id_, "new": text.id} | vars(text.facts),
    )
    return row is not None


def _index(tx: Write, seq: int, text: IndexText) -> None:
    tags = {_tag_key(tag): tag for tag in reversed(text.tags)}
    if tags:
        tx.all(
            "INSERT INTO text_tags (text_seq, tag_key) SELECT :seq, value FROM json_each(:keys)",
            {"seq": seq, "keys": json.dumps(list(tags), ensure_ascii=False)},
        )
    words.insert(tx, TABLES, seq, title=text.title, content=text.content, tags=" ".join(reversed(tags.values())))
    _QUEUE.add(tx, seq)


def delete_all(tx: Write, ids: Sequence[str]) -> None:
    """Delete texts with their tags, words and vectors."""
    tx.all("DELETE FROM texts WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(list(ids))})


def by_seq(tx: Read, seqs: Sequence[int]) -> list[tuple[str, str, str, str, TextFacts]]:
    """(ref, label, title, content, facts) in the order given."""
    rows = tx.all(
        """
        SELECT ref, label, title, content, created_at, updated_at, namespace, source, session_id, written_at
        FROM json_each(:seqs) AS wanted CROSS JOIN texts ON texts.seq = CAST(wanted.value AS BIGINT) ORDER BY wanted.key
        """,
        {"seqs": json.dumps(list(seqs))},
    )
    return [(ref, label, title, content, TextFacts(*facts)) for ref, label, title, content, *facts in rows]


def texts_to_embed(tx: Read, seqs: Sequence[int]) -> dict[int, EmbedText]:
    rows = tx.all(
        "SELECT seq, title, content FROM texts WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))",
        {"seqs": json.dumps(list(seqs))},
    )
    return {seq: EmbedText(title, content) for seq, title, content in rows}


def allowed(tx: Read, group_prefix: str, tags: Sequence[str], created: Span) -> Allowed:
    """The texts of this span with all of these tags, in groups whose names have this prefix."""
    matching, values = _matching(group_prefix, tags, created)
    rows = tx.all(f"SELECT seq {matching}", values)
    return Allowed.only((seq for (seq,) in rows), tx.number("SELECT coalesce(max(seq), 0) FROM texts"))


def newest(tx: Read, group_prefix: str, tags: Sequence[str], created: Span, limit: int) -> list[int]:
    """The same, the newest first."""
    matching, values = _matching(group_prefix, tags, created)
    rows = tx.all(f"SELECT seq {matching} ORDER BY {_WRITTEN} DESC, seq DESC LIMIT :limit", values | {"limit": limit})
    return [seq for (seq,) in rows]


def _matching(group_prefix: str, tags: Sequence[str], created: Span) -> tuple[str, dict[str, Any]]:
    """The part of a statement that chooses texts, and its values."""
    keys = {f"tag{number}": _tag_key(tag) for number, tag in enumerate(tags)}
    tagged = "".join(f" AND seq IN (SELECT text_seq FROM text_tags WHERE tag_key = :{key})" for key in keys)
    spanned = f" AND {_WRITTEN} >= :after" if created.after else ""
    spanned += f" AND {_WRITTEN} < :before" if created.before else ""
    values: dict[str, Any] = {
        "prefix": group_prefix,
        "beyond": group_prefix + LAST_CHARACTER,
        "after": created.after,
        "before": created.before,
        **keys,
    }
    matching = f"""
        FROM text_groups JOIN texts ON group_id = text_groups.id
        WHERE name >= :prefix AND name < :beyond{tagged}{spanned}
        """
    return matching, values


def has_undated(tx: Read, group_prefix: str) -> bool:
    """Whether a text in these groups has no time."""
    row = tx.one(
        f"""
        SELECT 1 FROM text_groups JOIN texts ON group_id = text_groups.id
        WHERE name >= :prefix AND name < :beyond AND {_WRITTEN} IS NULL LIMIT 1
        """,
        {"prefix": group_prefix, "beyond": group_prefix + LAST_CHARACTER},
    )
    return row is not None


def _tag_key(tag: str) -> str:
    return tag.casefold()
