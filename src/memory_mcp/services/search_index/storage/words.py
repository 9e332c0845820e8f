"""The full-text index of the texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from memory_mcp.engines.texts import Allowed, BestMatches, Texts
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.search import fts_query
from memory_mcp.services.search_index.tables import OWN_COLUMNS, Tables

_OWN_COLUMNS = "{" + " ".join(column.name for column in OWN_COLUMNS) + "}"


def insert(tx: Write, tables: Tables, seq: int, *, title: str, content: str, tags: str, context: str = "") -> None:
    """Index the words of a text whose seq is not in the index."""
    texts = {
        "title": fts_query.spaced(title),
        "content": fts_query.spaced(content),
        "tags": fts_query.spaced(tags),
        "parts": fts_query.word_parts(f"{title} {content}"),
    }
    if tables.has_context:
        texts["context"] = fts_query.spaced(context)
    tx.texts(tables.words).insert(seq, texts)


@dataclass(frozen=True)
class TextWordIndex:
    """A full-text index as search/word_search.py uses it."""

    tx: Read
    tables: Tables
    allowed: Allowed | None
    is_confined: bool = False  # scores must not depend on texts that are not allowed

    @cached_property
    def _texts(self) -> Texts:
        return self.tx.texts(self.tables.words, self.allowed, is_confined=self.is_confined)

    def expression(self, query: str) -> str | None:
        """Phrases, prefixes and operators, but no columns: "Context: …" and "Do NOT deploy" are plain text."""
        return None if fts_query.reads_like_a_sentence(query) else fts_query.syntax(query, ("nothing",))

    def documents(self) -> int:
        return self._texts.documents()

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        return self._texts.counts(terms, limit)

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        return self._texts.best(rare, terms, limit)

    def matching_syntax(self, expression: str, limit: int) -> dict[int, float]:
        """An expression matches a text, not the one before it."""
        return self._texts.matching(f"{_OWN_COLUMNS} : ({expression})", limit)

    def containing(self, text: str, limit: int) -> dict[int, float]:
        """The newest texts that contain a text without words, such as an emoji, which is not in the index."""
        rows = self.tx.each(
            f"""
            SELECT seq FROM {self.tables.texts}
            WHERE {self.tables.live} AND (instr(title, :text) > 0 OR instr(content, :text) > 0) ORDER BY seq DESC
            """,
            {"text": text},
        )
        flags = self.allowed.flags if self.allowed else None
        found: dict[int, float] = {}
        for (seq,) in rows:
            if len(found) == limit:
                break
            if flags is None or flags[seq] == 1:
                found[seq] = 1.0
        return found
