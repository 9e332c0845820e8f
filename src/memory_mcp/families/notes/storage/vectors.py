"""SQL of the notes' vectors and the space they are of."""

import json
from collections.abc import Iterator, Mapping, Sequence

from memory_mcp.embedding import Space
from memory_mcp.engines.sqlite import Read, Write
from memory_mcp.families.notes.storage import queue


def keep(tx: Write, seq: int, vectors: Mapping[int, bytes]) -> None:
    """Vectors by part; -1 is the note with the one before it."""
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq", {"seq": seq})
    for part, vector in vectors.items():
        tx.all(
            "INSERT INTO note_vectors (note_seq, part, vector) VALUES (:seq, :part, :vector)",
            {"seq": seq, "part": part, "vector": vector},
        )


def forget(tx: Write, seq: int) -> None:
    """Forget the vectors of a note, and that it waits for new ones."""
    queue.remove(tx, seq)
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq", {"seq": seq})


def forget_context(tx: Write, seq: int) -> None:
    """Forget the vector that a note has together with the one before it."""
    tx.all("DELETE FROM note_vectors WHERE note_seq = :seq AND part = -1", {"seq": seq})


def first(tx: Read, seq: int) -> bytes | None:
    """The vector of a note's first part, which is the whole of most notes."""
    row = tx.one("SELECT vector FROM note_vectors WHERE note_seq = :seq AND part = 0", {"seq": seq})
    return row[0] if row else None


def contexts(tx: Read, seqs: Sequence[int], length: int) -> dict[int, bytes]:
    """Of these notes taken together with the ones before them, those vectors that are `length` bytes long."""
    rows = tx.all(
        """
        SELECT note_seq, vector FROM note_vectors
        WHERE note_seq IN (SELECT value FROM json_each(:seqs)) AND part = -1 AND length(vector) = :length
        """,
        {"seqs": json.dumps(list(seqs)), "length": length},
    )
    return dict(rows)


def changed(tx: Read, after: int) -> Iterator[tuple[int, int, bytes | None]]:
    """(change, note, vector) of what changed after `after`, a row for each part; no vector for a note without any."""
    return tx.each(
        """
        SELECT change.seq, change.note_seq, own.vector FROM vector_changes AS change
        LEFT JOIN note_vectors AS own ON own.note_seq = change.note_seq AND own.part >= 0
        WHERE change.seq > :after ORDER BY change.seq, own.part
        """,
        {"after": after},
    )


def embedded(tx: Read, within: str | None = None) -> int:
    if within is None:
        return tx.number("SELECT embedded FROM vector_counts")
    return tx.number(
        """
        SELECT count(*) FROM notes JOIN note_vectors ON note_seq = seq AND part = 0
        WHERE archived = 0 AND namespace = :within
        """,
        {"within": within},
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


def forget_all(tx: Write) -> None:
    """Forget all vectors: every note waits."""
    tx.all("DELETE FROM embedding_space")
    tx.all("DELETE FROM note_vectors")
    queue.refill(tx)


def renew(tx: Write) -> None:
    """Have every note embedded again by an embedder that is chosen again. Until new vectors are there, the old ones
    stay."""
    tx.all("UPDATE embedding_space SET chosen_at = ''")
    queue.refill(tx)


def is_to_choose(tx: Read) -> bool:
    """Whether the embedder is to be chosen again."""
    return tx.one("SELECT 1 FROM embedding_space WHERE chosen_at = ''") is not None
