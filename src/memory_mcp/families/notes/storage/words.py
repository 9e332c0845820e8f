"""SQL of the index of words."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.families.notes.storage.lists import Allowed
from memory_mcp.search import fts_query, term_frequency

WEIGHTS = "1.0, 1.0, 1.0, 0.5, 0.5"  # of the columns, as the index has them for bm25
OWN_COLUMNS = "{title content tags parts}"
CONTEXT_SHARE = 0.6  # what a word of the note before counts next to one of the note itself
MAX_CONTEXT_CHARS = 2000  # characters of the note before that are looked at


def index(tx: Write, seq: int) -> None:
    """Make a note findable by its words; an archived one no longer is."""
    tx.all("DELETE FROM notes_words WHERE rowid = :seq", {"seq": seq})
    row = tx.one(
        """
        SELECT CASE note.has_own_title WHEN 1 THEN note.title ELSE '' END, note.content,
            (SELECT group_concat(tag, ' ') FROM note_tags WHERE note_seq = note.seq AND origin = 'user'),
            coalesce(substr(before.content, -:most), '')
        FROM notes AS note LEFT JOIN notes AS before ON before.seq = note.previous AND before.expires_at IS NULL
        WHERE note.seq = :seq AND note.archived = 0
        """,
        {"seq": seq, "most": MAX_CONTEXT_CHARS},
    )
    if row is None:
        return
    title, content, tags, context = row
    tx.all(
        """
        INSERT INTO notes_words (rowid, title, content, tags, parts, context)
        VALUES (:seq, :title, :content, :tags, :parts, :context)
        """,
        {
            "seq": seq,
            "title": fts_query.spaced(title),
            "content": fts_query.spaced(content),
            "tags": fts_query.spaced(tags or ""),
            "parts": fts_query.parts(f"{title} {content}"),
            "context": fts_query.spaced(context),
        },
    )


def optimize(tx: Write) -> None:
    """Rewrite the whole index: it keeps the words of deleted notes until then."""
    tx.all("INSERT INTO notes_words (notes_words) VALUES ('optimize')")


def is_indexed(tx: Read) -> bool:
    live = "SELECT seq FROM notes WHERE archived = 0"
    indexed = tx.number("SELECT count(*) FROM notes_words_docsize")
    return (
        indexed
        == tx.number(f"SELECT count(*) FROM notes_words_docsize WHERE id IN ({live})")
        == tx.number("SELECT count(*) FROM notes WHERE archived = 0")
    )


def index_all(tx: Write) -> None:
    for (seq,) in tx.all("SELECT seq FROM notes WHERE archived = 0 ORDER BY seq"):
        index(tx, seq)


@dataclass(frozen=True)
class WordIndex:
    """The index of words as search/word_search.py asks it."""

    tx: Read
    allowed: Allowed | None
    is_confined: bool = False  # nothing of the notes that are not allowed may show, not even in the digits of a score

    def expression(self, query: str) -> str | None:
        """Phrases, prefixes and operators, but no columns: "Context: …" is a text, and so is "Do NOT deploy"."""
        return None if fts_query.reads_like_a_sentence(query) else fts_query.syntax(query, ("nothing",))

    def documents(self) -> int:
        return self.allowed.count if self.allowed else self.tx.number("SELECT count(*) FROM notes_words_docsize")

    def count(self, term: str, most: int) -> int:
        return self.tx.number(
            f"""
            SELECT count(*) FROM (
                SELECT 1 FROM notes_words WHERE notes_words MATCH :term {self._only("rowid")} LIMIT :most
            )
            """,
            self._values() | {"term": term, "most": most},
        )

    def holding(self, term: str, among: Collection[int]) -> dict[int, float]:
        """Those whose context alone holds it do so less."""
        context = self._matches(f"{{context}} : {term}", among)
        own = self._matches(f"{OWN_COLUMNS} : {term}", among)
        return dict.fromkeys(context, CONTEXT_SHARE) | dict.fromkeys(own, 1.0)

    def _matches(self, expression: str, among: Collection[int]) -> list[int]:
        # The plus keeps SQLite from running MATCH once for each of them.
        rows = self.tx.all(
            """
            SELECT rowid FROM notes_words
            WHERE notes_words MATCH :expression AND +rowid IN (SELECT value FROM json_each(:among))
            """,
            {"expression": expression, "among": json.dumps(list(among))},
        )
        return [seq for (seq,) in rows]

    def matching(self, expression: str, most: int) -> dict[int, float]:
        """The bm25 of the best matches, higher for better."""
        # The plus keeps FTS5's own sorter out, which is slower than SQLite's.
        rows = self.tx.all(
            f"""
            SELECT rowid, -rank FROM notes_words
            WHERE notes_words MATCH :expression {self._only("rowid")} ORDER BY +rank LIMIT :most
            """,
            self._values() | {"expression": expression, "most": most},
        )
        return self._by_frequency(expression, [seq for seq, _ in rows]) if self.is_confined else dict(rows)

    def _by_frequency(self, expression: str, among: Collection[int]) -> dict[int, float]:
        """A rank of these that no other note has a part in."""
        term_frequency.register(self.tx.connection)
        rows = self.tx.all(
            f"""
            SELECT rowid, term_frequency(notes_words, {WEIGHTS}) FROM notes_words
            WHERE notes_words MATCH :expression AND +rowid IN (SELECT value FROM json_each(:among))
            """,
            {"expression": expression, "among": json.dumps(list(among))},
        )
        return dict(rows)

    def matching_syntax(self, expression: str, most: int) -> dict[int, float]:
        """An expression is about a note, and not about the one before it."""
        return self.matching(f"{OWN_COLUMNS} : ({expression})", most)

    def containing(self, text: str, most: int) -> dict[int, float]:
        """The newest notes that hold a text without any word in it, such as an emoji: no index knows it."""
        rows = self.tx.all(
            f"""
            SELECT seq, 1.0 FROM notes
            WHERE archived = 0 AND (instr(title, :text) OR instr(content, :text)) {self._only("seq")}
            ORDER BY seq DESC LIMIT :most
            """,
            self._values() | {"text": text, "most": most},
        )
        return dict(rows)

    def _only(self, seq: str) -> str:
        """A further condition that a note may be found: a look at its byte, 40 times as fast as one at its row."""
        return f"AND substr(:flags, {seq} + 1, 1) = x'01'" if self.allowed else ""

    def _values(self) -> dict[str, Any]:
        return {"flags": self.allowed.flags} if self.allowed else {}
