"""The full-text indexes as search/word_search.py queries them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from memory_mcp.engines.texts import BestMatches, Selected, Texts, WordTable
from memory_mcp.engines.transactions import Read
from memory_mcp.families.vault.model import MemoryScope
from memory_mcp.families.vault.storage.expressions import (
    COLUMNS,
    OWN_ROWS,
    SPEC_TEXTS,
    WORDS,
    tag_values,
    tagged,
    where,
)
from memory_mcp.families.vault.storage.memories import count
from memory_mcp.services.search import fts_query


@dataclass(frozen=True)
class VaultWordIndex:
    """The indexes of one scope, limited to the caller's own memories with all of some tags. It lives for one search."""

    tx: Read
    scope: MemoryScope
    session_id: str
    tags: Sequence[str]
    tagged_count: int  # how many of the caller's memories have the tags

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, COLUMNS)

    def documents(self) -> int:
        return count(self.tx, self.scope, self.session_id, ()) if self.tags else self.tagged_count

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        return self._own.counts(terms, limit)

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        return self._tagged(self._own).best(rare, terms, limit)

    def matching_syntax(self, expression: str, limit: int) -> dict[int, float]:
        """In the spec's own index, if that can find the words at all."""
        table = (WORDS if fts_query.has_cjk(expression) else SPEC_TEXTS)[self.scope]
        return self._tagged(self._texts(table)).matching(expression, limit)

    def containing(self, text: str, limit: int) -> dict[int, float]:
        """The newest memories that contain the text."""
        rows = self.tx.all(
            f"""
            SELECT id FROM {self.scope}_memories
            WHERE {OWN_ROWS[self.scope]} AND {tagged(self.scope, self.tags)}
                AND (instr(key, :text) > 0 OR instr(content, :text) > 0)
            ORDER BY id DESC LIMIT :limit
            """,
            {"session_id": self.session_id, "text": text, "limit": limit, **tag_values(self.tags)},
        )
        return {id_: 1.0 for (id_,) in rows}

    @cached_property
    def _own(self) -> Texts:
        return self._texts(WORDS[self.scope])

    def _texts(self, table: WordTable) -> Texts:
        return self.tx.texts(table, self._selected(()) if self.scope == "session" else None)

    def _tagged(self, texts: Texts) -> Texts:
        return texts.narrowed(self._selected(self.tags)) if self.tags else texts

    def _selected(self, tags: Sequence[str]) -> Selected:
        statement = f"SELECT id FROM {self.scope}_memories {where(self.scope, tags)}"
        return Selected(statement, {"session_id": self.session_id, **tag_values(tags)})
