"""The tables of a SQLite file, for copying their rows."""

from memory_mcp.engines.transactions import Read


class FileNumbers:
    """Last numbers in a file: those of AUTOINCREMENT; other tables number by their rows."""

    def last_number(self, tx: Read, table: str) -> int:
        [(highest,)] = tx.all(f"SELECT coalesce(max(rowid), 0) FROM {table}")
        counted = tx.all("SELECT seq FROM sqlite_sequence WHERE name = :name", {"name": table}) if _counts(tx) else []
        return max(int(highest), *(int(number) for (number,) in counted), 0)

    def set_last_number(self, tx: Read, table: str, number: int) -> None:
        [(sql,)] = tx.all("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name", {"name": table})
        if "AUTOINCREMENT" in sql.upper():
            tx.all("DELETE FROM sqlite_sequence WHERE name = :name", {"name": table})
            tx.all("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)", {"name": table, "seq": number})


def _counts(tx: Read) -> bool:
    return bool(tx.all("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"))


def owners(tx: Read, column: str) -> list[str]:
    """The users whom this column names in any table."""
    tables = [name for (name,) in tx.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = (tx.all(f"SELECT DISTINCT {column} FROM {name}") for name in tables if column in columns(tx, name))
    return sorted({user for rows in found for (user,) in rows})


def defer_references(tx: Read) -> None:
    """Check references between rows at the end of the transaction."""
    tx.all("PRAGMA defer_foreign_keys = ON")


def columns(tx: Read, table: str) -> list[str]:
    """The columns that can be written, with the hidden rowid; none if there is no such table."""
    rows = tx.all("SELECT name FROM pragma_table_xinfo(:table) WHERE hidden = 0", {"table": table})
    return [*(name for (name,) in rows), "rowid"] if rows else []
