"""SQL for the file of packed vectors beside a database."""

from collections.abc import Iterator
from dataclasses import dataclass

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.services.search_index.tables import Tables


@dataclass(frozen=True)
class PackedTable:
    """The vectors as the file has them: of each chunk, without those of a text with its context."""

    tables: Tables

    def has_at_least(self, tx: Read, count: int) -> bool:
        sql = f"SELECT 1 FROM {self.tables.vectors} WHERE part >= 0 LIMIT 1 OFFSET :before"
        return tx.one(sql, {"before": count - 1}) is not None

    def count(self, tx: Read) -> int:
        return tx.number(f"SELECT count(*) FROM {self.tables.vectors} WHERE part >= 0")

    def each(self, tx: Read) -> Iterator[tuple[int, bytes]]:
        """(text, vector), in the order of texts and chunks."""
        owner = self.tables.owner
        yield from tx.each(f"SELECT {owner}, vector FROM {self.tables.vectors} WHERE part >= 0 ORDER BY {owner}, part")

    def deleted(self, tx: Read, after: int) -> list[int]:
        """The texts that lost their vectors after a change."""
        owner = self.tables.owner
        rows = tx.all(
            f"""
            SELECT change.{owner} FROM vector_changes AS change
            LEFT JOIN {self.tables.vectors} AS own ON own.{owner} = change.{owner} AND own.part = 0
            WHERE change.seq > :after AND own.part IS NULL
            """,
            {"after": after},
        )
        return [seq for (seq,) in rows]


def last_change(tx: Read) -> int:
    return tx.number("SELECT coalesce(max(seq), 0) FROM vector_changes")


def token(tx: Read) -> str | None:
    """The token of the file that belongs to the database."""
    row = tx.one("SELECT token FROM vector_file")
    return row[0] if row else None


def set_token(tx: Write, token: str) -> None:
    tx.all("INSERT OR REPLACE INTO vector_file (only_one, token) VALUES (1, :token)", {"token": token})
