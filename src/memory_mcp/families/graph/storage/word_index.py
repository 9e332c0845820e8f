"""The full-text indexes as search/word_search.py queries them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory_mcp.engines.texts import BestMatches, Owners, Texts, WordColumn, WordTable
from memory_mcp.engines.transactions import Read
from memory_mcp.families.graph.storage.expressions import to_json
from memory_mcp.services.search import fts_query

COLUMNS = ("name", "entity_type", "content")

# What is found are entities, by the number under which each is indexed; an observation's words find its entity.
# CROSS: the words come first. Left to itself SQLite starts at `indexed` and searches once for each entity.
_ENTITY_OF_WORDS = """
    CROSS JOIN indexed AS row ON row.number = found.number
    CROSS JOIN indexed AS entity ON entity.entity_id = row.entity_id AND entity.observation_id IS NULL
"""
_ENTITY_ITSELF = """
    CROSS JOIN entities AS row ON row.rowid = found.number AND row.deleted_at IS NULL
    CROSS JOIN indexed AS entity ON entity.entity_id = row.id AND entity.observation_id IS NULL
"""
_ENTITY_OF_OBSERVATION = """
    CROSS JOIN observations AS row ON row.rowid = found.number AND row.deleted_at IS NULL
    CROSS JOIN indexed AS entity ON entity.entity_id = row.entity_id AND entity.observation_id IS NULL
"""
WORDS = WordTable(
    "graph_words",
    (
        WordColumn("name", "A", weight=2.0),
        WordColumn("entity_type", "B"),
        WordColumn("content", "C"),
        WordColumn("parts", "D", 0.5),
    ),
    owners=Owners(_ENTITY_OF_WORDS, "entity.number"),
)
ENTITY_TEXTS = WordTable(
    "entities_fts",
    (WordColumn("name", "A"), WordColumn("entity_type", "B")),
    is_stemmed=False,
    has_triggers=True,
    owners=Owners(_ENTITY_ITSELF, "entity.number"),
)
OBSERVATION_TEXTS = WordTable(
    "observations_fts",
    (WordColumn("content", "A"),),
    is_stemmed=False,
    has_triggers=True,
    owners=Owners(_ENTITY_OF_OBSERVATION, "entity.number"),
)
# The indexes of the specification; a word in a name or type counts twice.
_SPEC_INDEXES = ((ENTITY_TEXTS, 2.0), (OBSERVATION_TEXTS, 1.0))


@dataclass(frozen=True)
class GraphWordIndex:
    """The indexes of a project."""

    tx: Read

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, COLUMNS)

    def documents(self) -> int:
        return self.tx.number("SELECT count(*) FROM indexed WHERE observation_id IS NULL")

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        return self._words.counts(terms, limit)

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        return self._words.best(rare, terms, limit)

    def matching_syntax(self, expression: str, limit: int) -> dict[int, float]:
        """In the spec's own indexes, if those can find the words at all."""
        if fts_query.has_cjk(expression):
            return self._words.matching(expression, limit)
        found: dict[int, float] = {}
        for table, weight in _SPEC_INDEXES:
            if fts_query.syntax(expression, [column.name for column in table.columns]) is None:
                continue  # it filters by a column of the other one
            for number, bm25 in self.tx.texts(table).matching(expression, limit).items():
                found[number] = max(bm25 * weight, found.get(number, 0.0))
        return found

    def containing(self, text: str, limit: int) -> dict[int, float]:
        rows = self.tx.all(
            """
            SELECT entity.number FROM indexed AS entity WHERE entity.observation_id IS NULL AND (
                EXISTS (SELECT 1 FROM entities WHERE id = entity.entity_id AND instr(name, :text) > 0)
                OR EXISTS (
                    SELECT 1 FROM observations
                    WHERE entity_id = entity.entity_id AND deleted_at IS NULL AND instr(content, :text) > 0
                )
            ) LIMIT :limit
            """,
            {"text": text, "limit": limit},
        )
        return {number: 1.0 for (number,) in rows}

    @cached_property
    def _words(self) -> Texts:
        return self.tx.texts(WORDS)


def ids_by_number(tx: Read, numbers: Sequence[int]) -> Mapping[int, str]:
    rows = tx.all(
        """
        SELECT number, entity_id FROM indexed JOIN entities ON entities.id = entity_id AND deleted_at IS NULL
        WHERE number IN (SELECT CAST(value AS BIGINT) FROM json_each(:numbers))
        """,
        {"numbers": to_json(list(numbers))},
    )
    return dict(rows)
