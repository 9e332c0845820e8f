"""Declares the tables of a kind of data in PostgreSQL, without the driver, which is an extra."""

from dataclasses import dataclass
from pathlib import Path

BASE_SCHEMA = "memory"  # for what all kinds of data use; each kind has a schema of its own, too


@dataclass(frozen=True)
class TableSet:
    """The tables of one kind of data, created by the files 0001_*.sql, 0002_*.sql, ... of a folder."""

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
