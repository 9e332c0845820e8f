"""Copies rows between two databases of the same tables, on either engine, and compares them row by row."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memory_mcp.engines.transactions import Packed, Read, Row
from memory_mcp.errors import Unusable

ROWS_PER_STEP = 500  # between two reports of progress


@dataclass(frozen=True)
class CopiedTable:
    """A table that both engines have. What they number by themselves, such as a queue's tickets, is not copied."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]  # unique: both engines have the rows in its order
    vectors: frozenset[str] = frozenset()  # columns with vectors
    is_numbered: bool = False  # the first column of its key counts up, and no number is used twice

    @property
    def insert(self) -> str:
        values = ", ".join(f":value{index}" for index in range(len(self.columns)))
        return f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({values})"

    def values(self, row: Row) -> dict[str, Any]:
        """The values of `insert`."""
        return {
            f"value{index}": Packed(value) if column in self.vectors and value is not None else value
            for index, (column, value) in enumerate(zip(self.columns, row, strict=True))
        }


class NumberStore(Protocol):
    """Where an engine has the last number of each table whose numbers are used once."""

    def last_number(self, tx: Read, table: str) -> int: ...

    def set_last_number(self, tx: Read, table: str, number: int) -> None: ...


@dataclass(frozen=True)
class RowSet:
    """The rows of some tables in one transaction, those of one owner alone if a column names it."""

    tx: Read
    tables: Sequence[CopiedTable]  # those that others refer to come first
    numbers: NumberStore
    owner_column: str | None = None
    owner: str = ""

    def count(self) -> int:
        return sum(
            self.tx.number(f"SELECT count(*) FROM {one.name} WHERE {self._own}", self._values) for one in self.tables
        )

    def rows(self, table: CopiedTable) -> Iterator[Row]:
        """In the order of the key, a page at a time."""
        key = ", ".join(table.key)
        key_indexes = [table.columns.index(column) for column in table.key]
        after, values = "", dict(self._values)
        while True:
            page = self.tx.all(
                f"""
                SELECT {", ".join(table.columns)} FROM {table.name} WHERE {self._own} {after}
                ORDER BY {key} LIMIT {ROWS_PER_STEP}
                """,
                values,
            )
            yield from (tuple(map(_neutral, row)) for row in page)
            if len(page) < ROWS_PER_STEP:
                return
            values |= {f"after{index}": page[-1][column] for index, column in enumerate(key_indexes)}
            after = f"AND ({key}) > ({', '.join(f':after{index}' for index in range(len(key_indexes)))})"

    def delete(self) -> None:
        for table in reversed(self.tables):
            self.tx.all(f"DELETE FROM {table.name} WHERE {self._own}", self._values)

    @property
    def _own(self) -> str:
        return f"{self.owner_column} = :owner" if self.owner_column else "TRUE"

    @property
    def _values(self) -> Mapping[str, Any]:
        return {"owner": self.owner} if self.owner_column else {}


def copy(source: RowSet, target: RowSet, report_rows: Callable[[int], object]) -> int:
    """Replace the rows of the target, whose transaction writes, by those of the source. Returns how many they are.
    Full-text indexes are not filled."""
    target.delete()
    copied = 0
    for table in target.tables:
        for row in source.rows(table):
            target.tx.all(table.insert, table.values(row))
            copied += 1
            if copied % ROWS_PER_STEP == 0:
                target.tx.all("SELECT 1")  # waits for those that were sent
                report_rows(ROWS_PER_STEP)
        if table.is_numbered:
            target.numbers.set_last_number(target.tx, table.name, source.numbers.last_number(source.tx, table.name))
    report_rows(copied % ROWS_PER_STEP)
    return copied


def find_difference(source: RowSet, target: RowSet) -> str | None:
    """Where two sets of rows differ first, in words; None if each row of one is in the other, with equal values."""
    for table in target.tables:
        pairs = itertools.zip_longest(source.rows(table), target.rows(table))
        for number, (one, other) in enumerate(pairs, start=1):
            if one != other:
                return f"row {number} of {table.name}"
    return None


def require_equal(source: RowSet, target: RowSet, name: str) -> None:
    """Raises Unusable if a row is not the same in both."""
    if difference := find_difference(source, target):
        raise Unusable(f"{name} is not the same after it was copied ({difference}). Nothing of it was kept.")


def _neutral(value: Any) -> Any:
    """A value as PostgreSQL has it: a text cannot contain NUL there."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) and "\0" in value else value
