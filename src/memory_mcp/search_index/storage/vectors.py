"""SQL of the vectors of texts, and of the space they are of."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.embedding import Space
from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.search_index.storage.queue import EmbedQueue
from memory_mcp.search_index.tables import Tables


@dataclass(frozen=True)
class VectorTable:
    tables: Tables

    def keep(self, tx: Write, seq: int, vectors: Mapping[int, bytes]) -> None:
        """Vectors by part; -1 is the text with what was written just before it."""
        table, owner = self.tables.vectors, self.tables.owner
        tx.all(f"DELETE FROM {table} WHERE {owner} = :seq", {"seq": seq})
        for part, vector in vectors.items():
            tx.all(
                f"INSERT INTO {table} ({owner}, part, vector) VALUES (:seq, :part, :vector)",
                {"seq": seq, "part": part, "vector": vector},
            )

    def forget(self, tx: Write, seq: int) -> None:
        """Forget the vectors of a text, and that it waits for new ones."""
        EmbedQueue(self.tables).remove(tx, seq)
        tx.all(f"DELETE FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq", {"seq": seq})

    def forget_context(self, tx: Write, seq: int) -> None:
        """Forget the vector that a text has together with what was written just before it."""
        tx.all(f"DELETE FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq AND part = -1", {"seq": seq})

    def forget_all(self, tx: Write) -> None:
        """Forget all vectors: every text waits."""
        tx.all("DELETE FROM embedding_space")
        tx.all(f"DELETE FROM {self.tables.vectors}")
        EmbedQueue(self.tables).refill(tx)

    def renew(self, tx: Write) -> None:
        """Have every text embedded again by an embedder that is chosen again. Until new vectors are there, the old
        ones stay."""
        tx.all("UPDATE embedding_space SET chosen_at = ''")
        EmbedQueue(self.tables).refill(tx)

    def first(self, tx: Read, seq: int) -> bytes | None:
        """The vector of a text's first part, which is the whole of most texts."""
        row = tx.one(
            f"SELECT vector FROM {self.tables.vectors} WHERE {self.tables.owner} = :seq AND part = 0", {"seq": seq}
        )
        return row[0] if row else None

    def contexts(self, tx: Read, seqs: Sequence[int], length: int) -> dict[int, bytes]:
        """Of these texts, each taken together with what was written just before it: those vectors that are `length`
        bytes long."""
        rows = tx.all(
            f"""
            SELECT {self.tables.owner}, vector FROM {self.tables.vectors}
            WHERE {self.tables.owner} IN (SELECT value FROM json_each(:seqs)) AND part = -1
                AND length(vector) = :length
            """,
            {"seqs": json.dumps(list(seqs)), "length": length},
        )
        return dict(rows)

    def changed(self, tx: Read, after: int) -> Iterator[tuple[int, int, bytes | None]]:
        """(change, text, vector) of what changed after `after`, a row for each part; no vector for a text without
        any."""
        owner = self.tables.owner
        return tx.each(
            f"""
            SELECT change.seq, change.{owner}, own.vector FROM vector_changes AS change
            LEFT JOIN {self.tables.vectors} AS own ON own.{owner} = change.{owner} AND own.part >= 0
            WHERE change.seq > :after ORDER BY change.seq, own.part
            """,
            {"after": after},
        )


# The space


def space(tx: Read) -> Space | None:
    """The space the vectors are of."""
    row = tx.one("SELECT name FROM embedding_space")
    return Space.parse(row[0]) if row else None


def background(tx: Read) -> bytes:
    rows = tx.all("SELECT background FROM embedding_space")
    return bytes(rows[0][0])


def set_space(tx: Write, space: Space, background: bytes) -> None:
    """From now on vectors are of this space, as those are that there are."""
    tx.all(
        """
        INSERT OR REPLACE INTO embedding_space (only_one, name, dimensions, background, chosen_at)
        VALUES (1, :name, :dimensions, :background, :now)
        """,
        {
            "name": space.name,
            "dimensions": space.dimensions,
            "background": background,
            "now": tx.precise_stamp,
        },
    )


def is_to_choose(tx: Read) -> bool:
    """Whether the embedder is to be chosen again."""
    return tx.one("SELECT 1 FROM embedding_space WHERE chosen_at = ''") is not None
