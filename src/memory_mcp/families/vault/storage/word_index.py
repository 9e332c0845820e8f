"""The full-text index as search/word_search.py queries it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_mcp.engines.transactions import Read
from memory_mcp.families.vault.model import MemoryScope
from memory_mcp.families.vault.storage.expressions import OWN_ROWS, own_rows, tag_values, tagged, to_json
from memory_mcp.families.vault.storage.memories import count
from memory_mcp.search import fts_query
from memory_mcp.search.word_search import SingleTermIndex

COLUMNS = ("key", "content", "tags")
Index = Literal["words", "fts"]
MAX_ROWS_FETCHED = 10_000  # memories with a term; if there are more, SQLite only counts them


@dataclass(frozen=True)
class VaultWordIndex(SingleTermIndex):
    """The indexes of one scope as search/word_search.py queries them: the caller's own memories with all of some tags.

    It lives for one search, and caches which memories hold a term once it has counted them.
    """

    tx: Read
    scope: MemoryScope
    session_id: str
    tags: Sequence[str]
    _holders: dict[str, set[int]] = field(default_factory=dict, init=False)

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, COLUMNS)

    def documents(self) -> int:
        return count(self.tx, self.scope, self.session_id, ())

    def count(self, term: str, limit: int) -> int:
        table = f"{self.scope}_words"
        holders = f"SELECT rowid FROM {table} WHERE {table} MATCH :term {own_rows(table, self.scope, ())} LIMIT :limit"
        values = {"session_id": self.session_id, "term": term, "limit": limit}
        if limit > MAX_ROWS_FETCHED:
            return self.tx.number(f"SELECT count(*) FROM ({holders})", values)
        found = {id_ for (id_,) in self.tx.all(holders, values)}
        if len(found) < limit:  # all of them
            self._holders[term] = found
        return len(found)

    def holding(self, term: str, among: Collection[int]) -> dict[int, float]:
        if term in self._holders:
            return dict.fromkeys(self._holders[term].intersection(among), 1.0)
        table = f"{self.scope}_words"
        rows = self.tx.all(
            f"""
            SELECT rowid, 1.0 FROM {table}
            WHERE {table} MATCH :term AND +rowid IN (SELECT value FROM json_each(:among))
            """,
            {"term": term, "among": to_json(list(among))},
        )
        return dict(rows)

    def matching(self, expression: str, limit: int) -> dict[int, float]:
        return self._matching("words", expression, limit)

    def matching_syntax(self, expression: str, limit: int) -> dict[int, float]:
        """In the spec's own index, if that can find the words at all."""
        return self._matching("words" if fts_query.has_cjk(expression) else "fts", expression, limit)

    def _matching(self, index: Index, expression: str, limit: int) -> dict[int, float]:
        table = f"{self.scope}_{index}"
        # By the score and not by the rank: FTS5's own sorter, which is slower than SQLite's, stays out.
        rows = self.tx.all(
            f"""
            SELECT rowid, -rank AS score FROM {table}
            WHERE {table} MATCH :expression {own_rows(table, self.scope, self.tags)} ORDER BY score DESC LIMIT :limit
            """,
            self._values() | {"expression": expression, "limit": limit},
        )
        return dict(rows)

    def containing(self, text: str, limit: int) -> dict[int, float]:
        """The newest memories that contain the text."""
        rows = self.tx.all(
            f"""
            SELECT id, 1.0 FROM {self.scope}_memories
            WHERE {OWN_ROWS[self.scope]} AND {tagged(self.scope, self.tags)}
                AND (instr(key, :text) > 0 OR instr(content, :text) > 0)
            ORDER BY id DESC LIMIT :limit
            """,
            self._values() | {"text": text, "limit": limit},
        )
        return dict(rows)

    def _values(self) -> dict[str, Any]:
        return {"session_id": self.session_id, **tag_values(self.tags)}
