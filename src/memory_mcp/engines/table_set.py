"""The tables that a kind of data has in PostgreSQL: declared without the driver, which is an extra."""

from dataclasses import dataclass
from pathlib import Path

BASE_SCHEMA = "memory"  # of what all tables use; each kind of data has a schema of its own beside it


@dataclass(frozen=True)
class TableSet:
    """The tables of one kind of data, made by the files 0001_*.sql, 0002_*.sql, ... of a folder."""

    name: str
    folder: Path

    @property
    def schema(self) -> str:
        return BASE_SCHEMA if self.name == "base" else f"{BASE_SCHEMA}_{self.name}"

    @property
    def search_path(self) -> str:
        return f"{self.schema}, {BASE_SCHEMA}, public"

    def steps(self) -> list[tuple[int, str]]:
        files = sorted(self.folder.glob("[0-9]*.sql"))
        return [(int(file.name.split("_")[0]), file.read_text(encoding="utf-8")) for file in files]
