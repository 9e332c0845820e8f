"""A rank by words that depends only on the memory itself.

SQLite's bm25 depends on how many memories of the file contain a word, and on their average length. A caller who may see
only some of them could learn from its digits which words the others contain.
"""

from typing import Any

import apsw

K1, B = 1.2, 0.75  # as in SQLite's bm25
TYPICAL_LENGTH = 100  # words of a memory, instead of the average


def register(connection: apsw.Connection) -> None:
    """Offer `term_frequency(table, weight of each column …)` to queries with MATCH on an FTS5 table."""
    connection.register_fts5_function("term_frequency", _term_frequency)


def _term_frequency(api: apsw.FTS5ExtensionApi, /, *weights: Any) -> float:
    length = K1 * (1 - B + B * api.column_size(-1) / TYPICAL_LENGTH)
    rank = 0.0
    for phrase in range(api.phrase_count):
        found = zip(api.phrase_locations(phrase), weights, strict=True)
        count = sum(len(places) * weight for places, weight in found)
        rank += count * (K1 + 1) / (count + length)
    return rank
