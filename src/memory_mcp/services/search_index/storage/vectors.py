"""SQL for the vectors of texts, and for their space."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_mcp.engines.texts import Query
from memory_mcp.engines.transactions import Packed, Read, Write
from memory_mcp.services.embedding import Space
from memory_mcp.services.search_index.storage.queue import EmbedQueue
from memory_mcp.services.search_index.tables import Tables

if TYPE_CHECKING:
    from memory_mcp.services.search.cosines import Cosines
    from memory_mcp.services.search.vectors import Floats, Numbers

MAX_CHUNKS = 1 << 16  # of a text
CHANGES_PER_PAGE = 1000


@dataclass(frozen=True)
class VectorTable:
    tables: Tables

    def save(self, tx: Write, seq: int, vectors: Sequence[Packed]) -> None:
        """Replace a text's vectors, one for each chunk, and those with its context: its own, and that of the text
        after it."""
        tx.all(f"DELETE FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq", {"seq": seq})
        for chunk, vector in enumerate(vectors):
            self._insert(tx, seq, chunk, vector)
        if self.tables.has_context:
            self._save_contexts(tx, "later", seq)
            self._save_contexts(tx, "earlier", seq)

    def save_context(self, tx: Write, seq: int) -> None:
        """Replace the vector of a text together with the one before it, or delete it if there is none any more."""
        tx.all(f"DELETE FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq AND part = -1", {"seq": seq})
        self._save_contexts(tx, "later", seq)

    def _save_contexts(self, tx: Write, which: str, seq: int) -> None:
        """From the vectors of the two texts, as far as both have one: the first chunk of the later text, and the last
        chunk of the earlier one."""
        from memory_mcp.services.search.vectors import pack, unit, unpack

        table, owner, texts = self.tables.vectors, self.tables.owner, self.tables.texts
        rows = tx.all(
            f"""
            SELECT later.seq, own.vector, other.vector
            FROM {texts} AS later JOIN {texts} AS earlier ON {self.tables.before}
            JOIN {table} AS own ON own.{owner} = later.seq AND own.part = 0
            JOIN {table} AS other ON other.{owner} = earlier.seq
                AND other.part = (SELECT max(part) FROM {table} WHERE {owner} = earlier.seq AND part >= 0)
            WHERE {which}.seq = :seq
            """,
            {"seq": seq},
        )
        for later, own, other in rows:
            tx.all(f"DELETE FROM {table} WHERE {owner} = :seq AND part = -1", {"seq": later})
            self._insert(tx, later, -1, pack(unit(unpack(own) + unpack(other))))

    def _insert(self, tx: Write, seq: int, chunk: int, vector: Packed) -> None:
        tx.all(
            f"INSERT INTO {self.tables.vectors} ({self.tables.owner}, part, vector) VALUES (:seq, :chunk, :vector)",
            {"seq": seq, "chunk": chunk, "vector": vector},
        )

    def delete(self, tx: Write, seq: int) -> None:
        """Delete the vectors of a text, and remove it from the queue."""
        EmbedQueue(self.tables).remove(tx, seq)
        tx.all(f"DELETE FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq", {"seq": seq})

    def delete_all(self, tx: Write) -> None:
        """Delete all vectors, and queue every text."""
        tx.all("DELETE FROM embedding_space")
        tx.all(f"DELETE FROM {self.tables.vectors}")
        EmbedQueue(self.tables).refill(tx)

    def renew(self, tx: Write) -> None:
        """Queue every text to be embedded again, by an embedder that is chosen again. Old vectors stay until new ones
        replace them."""
        tx.all("UPDATE embedding_space SET chosen_at = ''")
        EmbedQueue(self.tables).refill(tx)

    def first(self, tx: Read, seq: int) -> Packed | None:
        """The vector of a text's first chunk, which is the whole of most texts."""
        row = tx.one(*self.first_query(seq))
        return Packed(row[0]) if row else None

    def first_query(self, seq: int) -> Query:
        return f"SELECT vector FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq AND part = 0", {"seq": seq}

    def context_cosines(self, tx: Read, seqs: Sequence[int], query: Packed) -> dict[int, float]:
        """The cosine of each of these texts together with the one before it."""
        numbers, cosines = tx.cosines(
            f"""
            SELECT {self.tables.owner}, vector FROM {self.tables.vectors}
            WHERE {self.tables.owner} IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs)) AND part = -1
            """,
            {"seqs": json.dumps(list(seqs))},
            query,
        )
        return dict(zip(numbers.tolist(), cosines.tolist(), strict=True))

    def all_cosines(self, tx: Read, query: Packed) -> "Cosines":
        """Of every chunk of every text, computed by the database."""
        from memory_mcp.services.search.cosines import KnownCosines

        numbers, cosines = tx.cosines(
            f"SELECT {self.tables.owner} * {MAX_CHUNKS} + part, vector FROM {self.tables.vectors} WHERE part >= 0",
            {},
            query,
        )
        order = numbers.argsort()
        return KnownCosines.sorted(numbers[order] // MAX_CHUNKS, cosines[order])

    def vectors_at(self, tx: Read, cosines: "Cosines", dimensions: int, rows: "Numbers") -> "Floats":
        """The vectors of these rows of what `all_cosines` has returned."""
        import numpy as np

        owners = cosines.owners[rows]
        chunks = rows - cosines.owners.searchsorted(owners)
        numbers = (owners * MAX_CHUNKS + chunks).tolist()
        found = tx.all(
            f"""
            SELECT {self.tables.owner} * {MAX_CHUNKS} + part, vector FROM {self.tables.vectors}
            WHERE {self.tables.owner} IN (SELECT CAST(value AS BIGINT) FROM json_each(:owners))
                AND {self.tables.owner} * {MAX_CHUNKS} + part IN (SELECT CAST(value AS BIGINT) FROM json_each(:numbers))
            """,
            {"owners": json.dumps(sorted(set(owners.tolist()))), "numbers": json.dumps(numbers)},
        )
        vectors: dict[int, bytes] = dict(found)
        packed = b"".join(vectors[number] for number in numbers)
        return np.frombuffer(packed, dtype="<f4").reshape(len(numbers), dimensions)

    def chunks(self, tx: Read, seq: int) -> list[Packed]:
        rows = tx.all(
            f"SELECT vector FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq AND part >= 0 ORDER BY part",
            {"seq": seq},
        )
        return [Packed(vector) for (vector,) in rows]

    def longer_than(self, tx: Read, max_bytes: int, seqs: Sequence[int]) -> list[int]:
        """Which of these texts have more bytes."""
        rows = tx.all(
            f"""
            SELECT seq FROM {self.tables.texts}
            WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs)) AND octet_length(content) > :max_bytes
            """,
            {"seqs": json.dumps(list(seqs)), "max_bytes": max_bytes},
        )
        return [seq for (seq,) in rows]

    def changed(self, tx: Read, after: int) -> Iterator[tuple[int, int, bytes | None]]:
        """(change, text, vector) of changes after `after`, a row for each chunk; no vector for a text without any."""
        while page := tx.all(*self.changes_query(after)):
            yield from page
            after = page[-1][0]
            if len(page) < CHANGES_PER_PAGE:
                return

    def changes_query(self, after: int) -> Query:
        owner = self.tables.owner
        sql = f"""
            SELECT change.seq, change.{owner}, own.vector
            FROM (
                SELECT seq, {owner} FROM vector_changes WHERE seq > :after ORDER BY seq LIMIT {CHANGES_PER_PAGE}
            ) AS change
            LEFT JOIN {self.tables.vectors} AS own ON own.{owner} = change.{owner} AND own.part >= 0
            ORDER BY change.seq, own.part
        """
        return sql, {"after": after}


# The space


def space(tx: Read) -> Space | None:
    """The space of the vectors."""
    row = tx.one("SELECT name FROM embedding_space")
    return Space.parse(row[0]) if row else None


def background(tx: Read, space: Space) -> bytes | None:
    """The background of the vectors. None if they are of another space."""
    row = tx.one(*background_query(space))
    return bytes(row[0]) if row else None


def background_query(space: Space) -> Query:
    return "SELECT background FROM embedding_space WHERE name = :name", {"name": space.name}


def set_space(tx: Write, space: Space, background: bytes) -> None:
    """Record the space of the stored and of all new vectors."""
    tx.all(
        """
        INSERT INTO embedding_space (only_one, name, dimensions, background, chosen_at)
        VALUES (1, :name, :dimensions, :background, :now)
        ON CONFLICT (only_one) DO UPDATE SET
            name = excluded.name, dimensions = excluded.dimensions, background = excluded.background,
            chosen_at = excluded.chosen_at
        """,
        {
            "name": space.name,
            "dimensions": space.dimensions,
            "background": background,
            "now": tx.precise_stamp,
        },
    )


def is_choice_due(tx: Read) -> bool:
    """Whether the embedder is to be chosen again."""
    return tx.one("SELECT 1 FROM embedding_space WHERE chosen_at = ''") is not None
