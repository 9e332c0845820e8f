"""SQL of the graph: the registry of projects, and the tables of one project's file."""

import json
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw

from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.engines.sqlite.connections import sqlite_name
from memory_mcp.families.graph.model import (
    Entity,
    Facts,
    NamedRelation,
    NewEntity,
    Observation,
    Project,
    Relation,
    Status,
)
from memory_mcp.search import fts_query

COLUMNS = ("name", "entity_type", "content")


def _utc(column: str) -> str:
    """A time as answers show it. Other programs write it as SQLite's datetime('now') does, or with an offset."""
    form = "'%Y-%m-%dT%H:%M:%SZ'"
    other = f"coalesce(strftime({form}, {column}), strftime({form}, substr({column}, 1, 19)), {column})"
    return f"CASE WHEN {column} GLOB '*T*Z' THEN {column} ELSE {other} END"


_PROJECT = f"id, name, coalesce(description, ''), status, {_utc('created_at')} AS created, {_utc('updated_at')}"


# The registry


def projects(tx: Read, status: Status | None) -> list[Project]:
    rows = tx.all(
        f"SELECT {_PROJECT} FROM projects WHERE :status IS NULL OR status = :status ORDER BY created, name",
        {"status": status},
    )
    return [Project(*row) for row in rows]


def project(tx: Read, name: str) -> Project | None:
    row = tx.one(f"SELECT {_PROJECT} FROM projects WHERE name = :name", {"name": name})
    return Project(*row) if row else None


def add_project(tx: Write, id_: str, name: str, description: str, path: str) -> Project:
    tx.all(
        """
        INSERT INTO projects (id, name, description, db_path, status, created_at, updated_at)
        VALUES (:id, :name, :description, :path, 'active', :now, :now)
        """,
        {"id": id_, "name": name, "description": description, "path": path, "now": tx.stamp},
    )
    return Project(id_, name, description, "active", tx.stamp, tx.stamp)


def set_status(tx: Write, id_: str, status: Status, path: str) -> None:
    tx.all(
        "UPDATE projects SET status = :status, db_path = :path, updated_at = :now WHERE id = :id",
        {"id": id_, "status": status, "path": path, "now": tx.stamp},
    )


def recorded_paths(tx: Read) -> dict[str, str]:
    """Where the registry says that each project's file is, by its id."""
    return dict(tx.all("SELECT id, db_path FROM projects"))


def set_file(tx: Write, id_: str, new_id: str, path: str) -> None:
    """Give a project that another program made an id and a path as ours are."""
    tx.all("UPDATE projects SET id = :new, db_path = :path WHERE id = :id", {"id": id_, "new": new_id, "path": path})


def remove_project(tx: Write, id_: str) -> None:
    tx.all("DELETE FROM projects WHERE id = :id", {"id": id_})


def set_active(tx: Write, session_id: str, project_id: str) -> None:
    tx.all(
        """
        INSERT INTO active_projects (session_id, project_id) VALUES (:session, :project)
        ON CONFLICT (session_id) DO UPDATE SET project_id = excluded.project_id
        """,
        {"session": session_id, "project": project_id},
    )


def active(tx: Read, session_id: str) -> Project | None:
    row = tx.one(
        f"""
        SELECT {_PROJECT} FROM projects
        WHERE id = (SELECT project_id FROM active_projects WHERE session_id = :session)
        """,
        {"session": session_id},
    )
    return Project(*row) if row else None


def clear_active_project(tx: Write, project_id: str) -> None:
    """It is nobody's active project any more."""
    tx.all("DELETE FROM active_projects WHERE project_id = :project", {"project": project_id})


def clear_active_sessions(tx: Write, session_ids: Sequence[str]) -> None:
    tx.all(
        "DELETE FROM active_projects WHERE session_id IN (SELECT value FROM json_each(:sessions))",
        {"sessions": _json(list(session_ids))},
    )


# One project: writing


def add_entity(tx: Write, new: NewEntity) -> Entity | None:
    """None if an active entity has this name."""
    id_ = str(uuid4())
    rows = tx.all(
        """
        INSERT INTO entities (id, name, entity_type, created_at, updated_at)
        VALUES (:id, :name, :type, :now, :now) ON CONFLICT DO NOTHING RETURNING 1
        """,
        {"id": id_, "name": new.name, "type": new.entity_type, "now": tx.stamp},
    )
    if not rows:
        return None
    _index(tx, id_, None, name=new.name, entity_type=new.entity_type)
    added = [content for content in new.observations if add_observation(tx, id_, new.name, content)]
    return Entity(id_, new.name, new.entity_type, added, tx.stamp, tx.stamp)


def add_observation(tx: Write, entity_id: str, entity_name: str, content: str) -> Observation | None:
    """None if the entity has this observation."""
    id_ = str(uuid4())
    rows = tx.all(
        """
        INSERT INTO observations (id, entity_id, content, created_at)
        VALUES (:id, :entity, :content, :now) ON CONFLICT DO NOTHING RETURNING 1
        """,
        {"id": id_, "entity": entity_id, "content": content, "now": tx.stamp},
    )
    if not rows:
        return None
    _index(tx, entity_id, id_, content=content)
    return Observation(id_, entity_name, content, tx.stamp)


def lacking(tx: Read, entity_id: str, contents: Iterable[str]) -> list[str]:
    """Which of these observations an entity does not have, each once."""
    rows = tx.all(
        """
        SELECT DISTINCT value FROM json_each(:contents) WHERE value NOT IN (
            SELECT content FROM observations WHERE entity_id = :entity AND deleted_at IS NULL
        )
        """,
        {"entity": entity_id, "contents": _json(list(contents))},
    )
    return [content for (content,) in rows]


def touch(tx: Write, entity_ids: Iterable[str]) -> None:
    """Something about these entities has changed."""
    tx.all(
        "UPDATE entities SET updated_at = :now WHERE id IN (SELECT value FROM json_each(:ids)) AND updated_at <> :now",
        {"ids": _json(list(entity_ids)), "now": tx.stamp},
    )


def add_relation(tx: Write, source_id: str, target_id: str, tie: NamedRelation) -> Relation | None:
    """None if it is there."""
    id_ = str(uuid4())
    rows = tx.all(
        """
        INSERT INTO relations (id, from_entity, to_entity, relation_type, created_at)
        VALUES (:id, :source, :target, :type, :now) ON CONFLICT DO NOTHING RETURNING 1
        """,
        {"id": id_, "source": source_id, "target": target_id, "type": tie.relation_type, "now": tx.stamp},
    )
    return Relation(id_, tie.source, tie.target, tie.relation_type, tx.stamp) if rows else None


def ids_of(tx: Read, names: Iterable[str]) -> dict[str, str]:
    """The ids of the active entities with these names, by name."""
    rows = tx.all(
        """
        SELECT entity.name, entity.id FROM json_each(:names) AS wanted
        JOIN entities AS entity ON entity.name = wanted.value AND entity.deleted_at IS NULL
        """,
        {"names": _json(list(names))},
    )
    return dict(rows)


def delete_entities(tx: Write, ids: Iterable[str]) -> None:
    """Softly, with their observations and relations."""
    values = {"ids": _json(list(ids)), "now": tx.stamp}
    chosen = "(SELECT value FROM json_each(:ids))"
    tx.all(f"UPDATE entities SET deleted_at = :now, updated_at = :now WHERE id IN {chosen}", values)
    tx.all(f"UPDATE observations SET deleted_at = :now WHERE deleted_at IS NULL AND entity_id IN {chosen}", values)
    tx.all(f"UPDATE relations SET deleted_at = :now WHERE deleted_at IS NULL AND from_entity IN {chosen}", values)
    tx.all(f"UPDATE relations SET deleted_at = :now WHERE deleted_at IS NULL AND to_entity IN {chosen}", values)


def delete_observations(tx: Write, entity_id: str, facts: Facts) -> int:
    rows = tx.all(
        """
        UPDATE observations SET deleted_at = :now
        WHERE deleted_at IS NULL AND entity_id = :entity AND content IN (SELECT value FROM json_each(:contents))
        RETURNING 1
        """,
        {"entity": entity_id, "contents": _json(list(facts.contents)), "now": tx.stamp},
    )
    return len(rows)


def delete_relation(tx: Write, source_id: str, target_id: str, relation_type: str) -> int:
    rows = tx.all(
        """
        UPDATE relations SET deleted_at = :now
        WHERE deleted_at IS NULL AND from_entity = :source AND to_entity = :target AND relation_type = :type
        RETURNING 1
        """,
        {"source": source_id, "target": target_id, "type": relation_type, "now": tx.stamp},
    )
    return len(rows)


# One project: reading


SMALL = 20_000  # characters of observations that are read at once
FEW = 50  # relations
_ENTITY = f"entity.id, name, entity_type, {_utc('created_at')}, {_utc('updated_at')}"


def entities(tx: Read, ids: Sequence[str]) -> Iterator[Entity]:
    """These active entities without their observations, in the order given."""
    rows = tx.each(
        f"""
        SELECT {_ENTITY} FROM json_each(:ids) AS wanted CROSS JOIN entities AS entity ON entity.id = wanted.value
        WHERE deleted_at IS NULL ORDER BY wanted.key
        """,
        {"ids": _json(list(ids))},
    )
    return map(_bare, rows)


def last_written(tx: Read, limit: int) -> list[tuple[str, str]]:
    """(name, when) of the active entities last written."""
    return tx.all(
        f"""
        SELECT name, {_utc("updated_at")} AS updated FROM entities WHERE deleted_at IS NULL
        ORDER BY updated DESC, rowid DESC LIMIT :limit
        """,
        {"limit": limit},
    )


def best_connected(tx: Read, most: int) -> list[tuple[str, str, str]]:
    """(id, name, type) of the active entities with most relations."""
    return tx.all(
        """
        SELECT id, name, entity_type FROM entities AS entity WHERE deleted_at IS NULL
        ORDER BY (SELECT count(*) FROM relations WHERE deleted_at IS NULL AND from_entity = entity.id)
            + (SELECT count(*) FROM relations WHERE deleted_at IS NULL AND to_entity = entity.id) DESC, rowid
        LIMIT :most
        """,
        {"most": most},
    )


def relations_among(tx: Read, ids: Sequence[str], most: int) -> list[tuple[str, str, str]]:
    """(from, to, type) of active relations between these entities."""
    return tx.all(
        """
        SELECT source.name, target.name, relation_type FROM json_each(:ids) AS wanted
        CROSS JOIN relations AS relation ON relation.from_entity = wanted.value AND relation.deleted_at IS NULL
        JOIN entities AS source ON source.id = relation.from_entity
        JOIN entities AS target ON target.id = relation.to_entity
        WHERE relation.to_entity IN (SELECT value FROM json_each(:ids)) LIMIT :most
        """,
        {"ids": _json(list(ids)), "most": most},
    )


def entity_count(tx: Read) -> int:
    """How many active entities there are."""
    return tx.number("SELECT count(*) FROM entities WHERE deleted_at IS NULL")


def versions(tx: Read) -> dict[str, str]:
    """By the name of each active entity, something that changes whenever it or its observations do."""
    rows = tx.all(
        """
        SELECT name, entity.id || ' ' || entity_type || ' ' || count(own.rowid) || ' ' || total(own.rowid)
            || ' ' || total(length(own.content))
        FROM entities AS entity
        LEFT JOIN observations AS own ON own.entity_id = entity.id AND own.deleted_at IS NULL
        WHERE entity.deleted_at IS NULL GROUP BY entity.rowid
        """
    )
    return dict(rows)


def entities_after(tx: Read, position: int) -> Iterator[tuple[int, Entity]]:
    """Active entities without their observations, each with its position, in the order they were created."""
    rows = tx.each(
        f"""
        SELECT rowid, {_ENTITY} FROM entities AS entity
        WHERE rowid > :position AND deleted_at IS NULL ORDER BY rowid
        """,
        {"position": position},
    )
    return ((position, _bare(row)) for position, *row in rows)


@dataclass(frozen=True)
class PagedEntity:
    """An entity, where it stands among all, and the relations that start at it."""

    position: int
    entity: Entity
    relations: list[Relation]
    size: int  # about how many bytes of JSON it all makes


def placed_after(tx: Read, position: int) -> Iterator[PagedEntity | None]:
    """Active entities with all that is said about them, in the order they were created. None for one of which much is
    said: that is read piece by piece."""
    rows = tx.each(
        f"""
        SELECT rowid, {_ENTITY},
            CASE WHEN (
                SELECT coalesce(sum(length(content)), 0) FROM observations
                WHERE entity_id = entity.id AND deleted_at IS NULL
            ) <= {SMALL} THEN (
                SELECT json_group_array(content ORDER BY {_utc("created_at")}, rowid) FROM observations
                WHERE entity_id = entity.id AND deleted_at IS NULL
            ) END,
            CASE WHEN (
                SELECT count(*) FROM relations WHERE from_entity = entity.id AND deleted_at IS NULL
            ) <= {FEW} THEN (
                SELECT json_group_array(
                    json_array(relation.id, target.name, relation.relation_type, {_utc("relation.created_at")})
                    ORDER BY relation.rowid
                ) FROM relations AS relation JOIN entities AS target ON target.id = relation.to_entity
                WHERE relation.from_entity = entity.id AND relation.deleted_at IS NULL
            ) END
        FROM entities AS entity WHERE rowid > :position AND deleted_at IS NULL ORDER BY rowid
        """,
        {"position": position},
    )
    return map(_placed, rows)


def _placed(row: Sequence[Any]) -> PagedEntity | None:
    position, id_, name, kind, created, updated, said, related = row
    if said is None or related is None:
        return None
    relations = [Relation(number, name, target, type_, at) for number, target, type_, at in json.loads(related)]
    entity = Entity(id_, name, kind, json.loads(said), created, updated)
    length = len(name.encode())
    size = 200 + length + len(kind) + len(said.encode()) + len(related.encode()) + len(relations) * (60 + length)
    return PagedEntity(position, entity, relations, size)


def _bare(row: Sequence[Any]) -> Entity:
    id_, name, kind, created, updated = row
    return Entity(id_, name, kind, [], created, updated)


def observations(tx: Read, entity_id: str, skip: int = 0) -> Iterator[str]:
    """What is said about an entity, the oldest first, after the first `skip`."""
    rows = tx.each(
        f"""
        SELECT content FROM observations WHERE entity_id = :entity AND deleted_at IS NULL
        ORDER BY {_utc("created_at")}, rowid LIMIT -1 OFFSET :skip
        """,
        {"entity": entity_id, "skip": skip},
    )
    return (content for (content,) in rows)


def relations(tx: Read) -> Iterator[Relation]:
    """All active relations, the oldest first."""
    return _relations(tx.each(f"SELECT {_RELATION} WHERE relation.deleted_at IS NULL ORDER BY relation.rowid"))


def relations_from(tx: Read, entity_id: str) -> Iterator[Relation]:
    """Active relations that start at an entity, the oldest first."""
    rows = tx.each(
        f"""
        SELECT {_RELATION} WHERE relation.deleted_at IS NULL AND relation.from_entity = :entity ORDER BY relation.rowid
        """,
        {"entity": entity_id},
    )
    return _relations(rows)


def relations_touching(tx: Read, ids: Sequence[str], skip: int, limit: int) -> Iterator[Relation]:
    """Active relations that start at one of these entities, the oldest first, then those that end at one."""
    rows = tx.each(
        f"""
        SELECT {_RELATION} WHERE relation.rowid IN (
            SELECT rowid FROM relations WHERE deleted_at IS NULL AND from_entity IN (SELECT value FROM json_each(:ids))
            UNION
            SELECT rowid FROM relations WHERE deleted_at IS NULL AND to_entity IN (SELECT value FROM json_each(:ids))
        ) ORDER BY relation.from_entity NOT IN (SELECT value FROM json_each(:ids)), relation.rowid
        LIMIT :limit OFFSET :skip
        """,
        {"ids": _json(list(ids)), "skip": skip, "limit": limit},
    )
    return _relations(rows)


def _relations(rows: Iterator[Any]) -> Iterator[Relation]:
    return (Relation(*row) for row in rows)


_RELATION = f"""
    relation.id, source.name, target.name, relation.relation_type, {_utc("relation.created_at")}
    FROM relations AS relation
    JOIN entities AS source ON source.id = relation.from_entity
    JOIN entities AS target ON target.id = relation.to_entity
"""


# Files of which nobody knows


def is_blank(path: Path, application_id: int) -> bool:
    """Whether a file is a project's, and never held anything. One that cannot be read may be anything."""
    try:
        with closing(apsw.Connection(sqlite_name(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                return connection.pragma("application_id") in (0, application_id)
            is_ours = connection.pragma("application_id") == application_id
            return is_ours and not connection.execute("SELECT 1 FROM entities LIMIT 1").fetchall()
    except apsw.Error:
        return False


def is_of_kind(path: Path, application_id: int) -> bool:
    """Whether a file was made or migrated by this program. One that cannot be read may be anything."""
    try:
        with closing(apsw.Connection(sqlite_name(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            return bool(connection.pragma("application_id") == application_id)
    except apsw.Error:
        return False


# Words


def _index(tx: Write, entity_id: str, observation_id: str | None, **texts: str) -> None:
    """Make an entity or an observation findable by its words."""
    number = tx.number(
        "INSERT INTO indexed (entity_id, observation_id) VALUES (:entity, :observation) RETURNING number",
        {"entity": entity_id, "observation": observation_id},
    )
    tx.all(
        """
        INSERT INTO graph_words (rowid, name, entity_type, content, parts)
        VALUES (:number, :name, :entity_type, :content, :parts)
        """,
        {
            "number": number,
            **{column: fts_query.spaced(texts.get(column, "")) for column in COLUMNS},
            "parts": fts_query.parts(" ".join(texts.values())),
        },
    )


def has_changes(tx: Read) -> bool:
    """Whether entities or observations were written and the words index does not show it yet."""
    return bool(tx.all("SELECT 1 FROM unindexed UNION ALL SELECT 1 FROM unindexed_numbers LIMIT 1"))


def forget_changes(tx: Write) -> None:
    """For a transaction that began with index_changes and has indexed all that it added: nothing is left to do."""
    tx.all("DELETE FROM unindexed")


def index_changes(tx: Write) -> None:
    """Bring the words index up to date with what the triggers have written down."""
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
    correct_texts(tx.connection, "entities", ("name", "entity_type"), changed)
    correct_texts(tx.connection, "observations", ("content",), changed)
    for id_, name, kind in tx.all(
        """
        SELECT id, name, entity_type FROM entities
        WHERE deleted_at IS NULL AND id IN (SELECT id FROM unindexed) ORDER BY rowid
        """
    ):
        _index(tx, id_, None, name=name, entity_type=kind)
    for id_, entity_id, content in tx.all(
        """
        SELECT observations.id, entity_id, content FROM observations JOIN entities ON entities.id = entity_id
        WHERE observations.deleted_at IS NULL AND entities.deleted_at IS NULL
            AND observations.id IN (SELECT id FROM unindexed) ORDER BY observations.rowid
        """
    ):
        _index(tx, entity_id, id_, content=content)


def correct_texts(connection: apsw.Connection, table: str, columns: Iterable[str], where: str = "TRUE") -> None:
    """Bring texts that another program wrote into UTF-8 and NFC, as everything is that a tool writes. A row that would
    equal another one then stays as it is."""
    for column in columns:
        rows: Iterable[Any] = connection.execute(
            f"SELECT rowid, CAST({column} AS BLOB), typeof({column}) FROM {table} WHERE {where}"
        )
        wrong = [(corrected(raw), rowid) for rowid, raw, type_ in rows if type_ != "text" or not is_correct(raw)]
        connection.executemany(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?", wrong)


def is_correct(raw: bytes) -> bool:
    return raw.isascii() or corrected(raw).encode() == raw


def corrected(raw: bytes) -> str:
    return unicodedata.normalize("NFC", raw.decode(errors="replace"))


def index_all(tx: Write) -> None:
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


def is_indexed(tx: Read) -> bool:
    """Whether every active entity and observation is in the index of words, and nothing else."""
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
        and all(
            tx.number(f"SELECT count(*) FROM {table}_fts_docsize") == tx.number(f"SELECT count(*) FROM {table}")
            for table in ("entities", "observations")
        )
    )


def forget_index(tx: Write) -> None:
    """Nothing counts as indexed."""
    tx.all("DELETE FROM indexed")


_RIGHTLY_INDEXED = """
    FROM indexed JOIN entities ON entities.id = indexed.entity_id AND entities.deleted_at IS NULL
    LEFT JOIN observations ON observations.id = observation_id AND observations.deleted_at IS NULL
    WHERE observation_id IS observations.id
"""


@dataclass(frozen=True)
class WordIndex:
    """The indexes of a project as search/word_search.py asks them. What is found are entities, by the number under
    which each is indexed; an observation's words find its entity."""

    tx: Read

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, COLUMNS)

    def documents(self) -> int:
        return self.tx.number("SELECT count(*) FROM indexed WHERE observation_id IS NULL")

    def count(self, term: str, most: int) -> int:
        return self.tx.number(
            f"SELECT count(*) FROM (SELECT DISTINCT entity.number FROM ({_ROWS}) AS found {_ITS_ENTITY} LIMIT :most)",
            {"expression": term, "most": most},
        )

    def holding(self, term: str, among: Collection[int]) -> dict[int, float]:
        rows = self.tx.all(
            f"""
            SELECT DISTINCT entity.number, 1.0 FROM ({_ROWS}) AS found {_ITS_ENTITY}
            WHERE +entity.number IN (SELECT value FROM json_each(:among))
            """,
            {"expression": term, "among": _json(list(among))},
        )
        return dict(rows)

    def matching(self, expression: str, most: int) -> dict[int, float]:
        rows = self.tx.all(
            f"""
            SELECT entity.number, -min(found.rank) FROM ({_ROWS}) AS found {_ITS_ENTITY}
            GROUP BY entity.number ORDER BY min(found.rank) LIMIT :most
            """,
            {"expression": expression, "most": most},
        )
        return dict(rows)

    def matching_syntax(self, expression: str, most: int) -> dict[int, float]:
        """In the spec's own indexes, if those can find the words at all."""
        if fts_query.has_cjk(expression):
            return self.matching(expression, most)
        found: dict[int, float] = {}
        for index, columns, weight in _SPEC_INDEXES:
            if fts_query.syntax(expression, columns) is None:
                continue  # it filters by a column of the other one
            rows = self.tx.all(
                f"""
                SELECT entity.number, -min(found.rank) * {weight} FROM (
                    SELECT rowid AS number, rank FROM {index}_fts WHERE {index}_fts MATCH :expression
                ) AS found
                CROSS JOIN {index} AS row ON row.rowid = found.number AND row.deleted_at IS NULL
                CROSS JOIN indexed AS entity
                    ON entity.entity_id = row.{"id" if index == "entities" else "entity_id"}
                    AND entity.observation_id IS NULL
                GROUP BY entity.number ORDER BY 2 DESC LIMIT :most
                """,
                {"expression": expression, "most": most},
            )
            found |= {number: max(bm25, found.get(number, 0.0)) for number, bm25 in rows}
        return found

    def containing(self, text: str, most: int) -> dict[int, float]:
        rows = self.tx.all(
            """
            SELECT entity.number, 1.0 FROM indexed AS entity WHERE entity.observation_id IS NULL AND (
                EXISTS (SELECT 1 FROM entities WHERE id = entity.entity_id AND instr(name, :text))
                OR EXISTS (
                    SELECT 1 FROM observations
                    WHERE entity_id = entity.entity_id AND deleted_at IS NULL AND instr(content, :text)
                )
            ) LIMIT :most
            """,
            {"text": text, "most": most},
        )
        return dict(rows)


# The spec's tables, each with an index of its own; a word in a name or type counts twice.
_SPEC_INDEXES = (("entities", ("name", "entity_type"), 2.0), ("observations", ("content",), 1.0))
_ROWS = "SELECT rowid AS number, rank FROM graph_words WHERE graph_words MATCH :expression"
# CROSS: the words come first. Left to itself SQLite starts at `indexed` and searches once for each entity.
_ITS_ENTITY = """
    CROSS JOIN indexed AS row ON row.number = found.number
    CROSS JOIN indexed AS entity ON entity.entity_id = row.entity_id AND entity.observation_id IS NULL
"""


def ids_by_number(tx: Read, numbers: Sequence[int]) -> Mapping[int, str]:
    rows = tx.all(
        """
        SELECT number, entity_id FROM indexed JOIN entities ON entities.id = entity_id AND deleted_at IS NULL
        WHERE number IN (SELECT value FROM json_each(:numbers))
        """,
        {"numbers": _json(list(numbers))},
    )
    return dict(rows)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
