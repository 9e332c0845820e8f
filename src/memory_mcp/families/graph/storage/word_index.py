"""The full-text index as search/word_search.py queries it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.engines.transactions import Read
from memory_mcp.families.graph.storage.expressions import to_json
from memory_mcp.families.graph.storage.index import COLUMNS
from memory_mcp.search import fts_query
from memory_mcp.search.word_search import SingleTermIndex


@dataclass(frozen=True)
class GraphWordIndex(SingleTermIndex):
    """The indexes of a project as search/word_search.py queries them. What is found are entities, by the number under
    which each is indexed; an observation's words find its entity."""

    tx: Read

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, COLUMNS)

    def documents(self) -> int:
        return self.tx.number("SELECT count(*) FROM indexed WHERE observation_id IS NULL")

    def count(self, term: str, limit: int) -> int:
        return self.tx.number(
            f"SELECT count(*) FROM (SELECT DISTINCT entity.number FROM ({_ROWS}) AS found {_ITS_ENTITY} LIMIT :limit)",
            {"expression": term, "limit": limit},
        )

    def holding(self, term: str, among: Collection[int]) -> dict[int, float]:
        rows = self.tx.all(
            f"""
            SELECT DISTINCT entity.number, 1.0 FROM ({_ROWS}) AS found {_ITS_ENTITY}
            WHERE +entity.number IN (SELECT value FROM json_each(:among))
            """,
            {"expression": term, "among": to_json(list(among))},
        )
        return dict(rows)

    def matching(self, expression: str, limit: int) -> dict[int, float]:
        rows = self.tx.all(
            f"""
            SELECT entity.number, -min(found.rank) FROM ({_ROWS}) AS found {_ITS_ENTITY}
            GROUP BY entity.number ORDER BY min(found.rank) LIMIT :limit
            """,
            {"expression": expression, "limit": limit},
        )
        return dict(rows)

    def matching_syntax(self, expression: str, limit: int) -> dict[int, float]:
        """In the spec's own indexes, if those can find the words at all."""
        if fts_query.has_cjk(expression):
            return self.matching(expression, limit)
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
                GROUP BY entity.number ORDER BY 2 DESC LIMIT :limit
                """,
                {"expression": expression, "limit": limit},
            )
            found |= {number: max(bm25, found.get(number, 0.0)) for number, bm25 in rows}
        return found

    def containing(self, text: str, limit: int) -> dict[int, float]:
        rows = self.tx.all(
            """
            SELECT entity.number, 1.0 FROM indexed AS entity WHERE entity.observation_id IS NULL AND (
                EXISTS (SELECT 1 FROM entities WHERE id = entity.entity_id AND instr(name, :text) > 0)
                OR EXISTS (
                    SELECT 1 FROM observations
                    WHERE entity_id = entity.entity_id AND deleted_at IS NULL AND instr(content, :text) > 0
                )
            ) LIMIT :limit
            """,
            {"text": text, "limit": limit},
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
        WHERE number IN (SELECT CAST(value AS BIGINT) FROM json_each(:numbers))
        """,
        {"numbers": to_json(list(numbers))},
    )
    return dict(rows)
