"""How many texts of a full-text index contain a word, without looking at them.

The triggers of the index (base/0006_word_counts.sql) keep these numbers, for all texts of the tenant. They are exact.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_mcp.engines.postgres.words import Phrase
from memory_mcp.engines.texts import Query

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.transactions import PostgresRead

MAX_UNMERGED = 500  # changes that a search adds up; a large write may leave more for the next one

_STORED = """
    SELECT
        coalesce((SELECT texts FROM word_counts WHERE name = :name AND word = one.word), 0)
        + coalesce((SELECT sum(texts) FROM word_changes WHERE name = :name AND words @@ one.query), 0)::bigint
    FROM unnest(:words::text[], :queries::tsquery[]) WITH ORDINALITY AS one(word, query, index) ORDER BY one.index
"""


def is_stored(phrase: Phrase) -> bool:
    """Whether the phrase is one word, wherever it stands in a text."""
    return phrase.is_word and not phrase.letters


def query(table: str, phrases: Sequence[Phrase]) -> Query:
    """The statement that reads how many texts contain each of these words."""
    words = [phrase.words[0] for phrase in phrases]
    return _STORED, {"name": table, "words": words, "queries": [phrase.query for phrase in phrases]}


def read(tx: "PostgresRead", table: str, phrases: Sequence[Phrase]) -> dict[Phrase, int]:
    if not phrases:
        return {}
    return {phrase: count for phrase, (count,) in zip(phrases, tx.all(*query(table, phrases)), strict=True)}
