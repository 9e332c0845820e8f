"""SQL of the index of words."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.search import fts_query, term_frequency
from memory_mcp.search_index.tables import Tables

OWN_COLUMNS = "{title content tags parts}"
CONTEXT_SHARE = 0.6  # the weight of a word of the text before, relative to one of the text itself


@dataclass(frozen=True)
class Allowed:
    """Which texts a search may find: a byte for each, by its seq, and how many they are."""

    flags: bytes
    count: int

    @classmethod
    def only(cls, seqs: Iterable[int], top: int) -> "Allowed":
        return cls._flagged(seqs, top, listed=1)

    @classmethod
    def all_but(cls, seqs: Iterable[int], top: int) -> "Allowed":
        """The texts up to `top` without these. Texts that came later are not allowed."""
        return cls._flagged(seqs, top, listed=0)

    @classmethod
    def _flagged(cls, seqs: Iterable[int], top: int, *, listed: int) -> "Allowed":
        flags = bytearray([1 - listed]) * (top + 1)
        for seq in seqs:
            flags[seq] = listed
        return cls(bytes(flags) + b"\0", sum(flags))


def insert(tx: Write, tables: Tables, seq: int, *, title: str, content: str, tags: str, context: str = "") -> None:
    """Index the words of a text whose seq is not in the index."""
    column, value = (", context", ", :context") if tables.has_context else ("", "")
    tx.all(
        f"""
        INSERT INTO {tables.words} (rowid, title, content, tags, parts{column})
        VALUES (:seq, :title, :content, :tags, :parts{value})
        """,
        {
            "seq": seq,
            "title": fts_query.spaced(title),
            "content": fts_query.spaced(content),
            "tags": fts_query.spaced(tags),
            "parts": fts_query.parts(f"{title} {content}"),
            "context": fts_query.spaced(context),
        },
    )


def optimize(tx: Write, tables: Tables) -> None:
    """Rewrite the whole index: it keeps the words of deleted texts until then."""
    tx.all(f"INSERT INTO {tables.words} ({tables.words}) VALUES ('optimize')")


@dataclass(frozen=True)
class WordIndex:
    """An index of words as search/word_search.py uses it."""

    tx: Read
    tables: Tables
    allowed: Allowed | None
    is_confined: bool = False  # scores must not depend on texts that are not allowed

    def expression(self, query: str) -> str | None:
        """Phrases, prefixes and operators, but no columns: "Context: …" and "Do NOT deploy" are plain text."""
        return None if fts_query.reads_like_a_sentence(query) else fts_query.syntax(query, ("nothing",))

    def documents(self) -> int:
        if self.allowed:
            return self.allowed.count
        return self.tx.number(f"SELECT count(*) FROM {self.tables.words}_docsize")

    def count(self, term: str, limit: int) -> int:
        words = self.tables.words
        return self.tx.number(
            f"""
            SELECT count(*) FROM (
                SELECT 1 FROM {words} WHERE {words} MATCH :term {self._only("rowid")} LIMIT :limit
            )
            """,
            self._values() | {"term": term, "limit": limit},
        )

    def holding(self, term: str, among: Collection[int]) -> dict[int, float]:
        """Texts with the term only in their context have a lower degree."""
        own = dict.fromkeys(self._matches(f"{OWN_COLUMNS} : {term}", among), 1.0)
        if not self.tables.has_context:
            return own
        return dict.fromkeys(self._matches(f"{{context}} : {term}", among), CONTEXT_SHARE) | own

    def _matches(self, expression: str, among: Collection[int]) -> list[int]:
        # The plus prevents SQLite from running MATCH once for each of them.
        rows = self.tx.all(
            f"""
            SELECT rowid FROM {self.tables.words}
            WHERE {self.tables.words} MATCH :expression AND +rowid IN (SELECT value FROM json_each(:among))
            """,
            {"expression": expression, "among": json.dumps(list(among))},
        )
        return [seq for (seq,) in rows]

    def matching(self, expression: str, limit: int) -> dict[int, float]:
        """The bm25 of the best matches, higher for better."""
        # The plus avoids FTS5's own sorter, which is slower than SQLite's.
        rows = self.tx.all(
            f"""
            SELECT rowid, -rank FROM {self.tables.words}
            WHERE {self.tables.words} MATCH :expression {self._only("rowid")} ORDER BY +rank LIMIT :limit
            """,
            self._values() | {"expression": expression, "limit": limit},
        )
        return self._by_frequency(expression, [seq for seq, _ in rows]) if self.is_confined else dict(rows)

    def _by_frequency(self, expression: str, among: Collection[int]) -> dict[int, float]:
        """A rank of these texts that does not depend on any other text."""
        term_frequency.register(self.tx.connection)
        words = self.tables.words
        rows = self.tx.all(
            f"""
            SELECT rowid, term_frequency({words}, {self.tables.weights}) FROM {words}
            WHERE {words} MATCH :expression AND +rowid IN (SELECT value FROM json_each(:among))
            """,
            {"expression": expression, "among": json.dumps(list(among))},
        )
        return dict(rows)

    def matching_syntax(self, expression: str, limit: int) -> dict[int, float]:
        """An expression matches a text, not the one before it."""
        return self.matching(f"{OWN_COLUMNS} : ({expression})", limit)

    def containing(self, text: str, limit: int) -> dict[int, float]:
        """The newest texts that contain a text without words, such as an emoji, which is not in the index."""
        rows = self.tx.all(
            f"""
            SELECT seq, 1.0 FROM {self.tables.texts}
            WHERE {self.tables.live} AND (instr(title, :text) OR instr(content, :text)) {self._only("seq")}
            ORDER BY seq DESC LIMIT :limit
            """,
            self._values() | {"text": text, "limit": limit},
        )
        return dict(rows)

    def _only(self, seq: str) -> str:
        """A condition that a text is allowed, by its byte: 40 times as fast as by its row."""
        return f"AND substr(:flags, {seq} + 1, 1) = x'01'" if self.allowed else ""

    def _values(self) -> dict[str, Any]:
        return {"flags": self.allowed.flags} if self.allowed else {}
