"""SQL of journals. Each database has its own table, of the same columns and of its own name."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.clock import precise_stamp
from memory_mcp.engines.texts import Query
from memory_mcp.engines.transactions import Read, Row, Write
from memory_mcp.services.write_journal.model import (
    COPY_LIFETIME,
    MAX_COPY_BYTES,
    MAX_RECORDS,
    ItemWrite,
    WriteGroup,
    WriteQuery,
    Writer,
    WriteRecord,
)

RECORDS_PER_TRIM = 128  # between two searches for expired copies
RECORDS_PER_SIZE_CHECK = 512  # between two sums of the sizes of all copies, which take longer

_COLUMNS = "at, source, client, key_id, key_name, session_id, undo_id, undoes, item, action, before, after"
_COMMON = ":at, :source, :client, :key_id, :key_name, :session_id, :undo_id, :undoes"
_FIELDS = "number, at, source, client, key_id, key_name, session_id, item, action, after, undo_id, undoes"


@dataclass(frozen=True)
class WriteTable:
    """The table of one journal."""

    name: str
    visible: str = "TRUE"  # an SQL condition for the items that the caller may see
    within: str | None = None  # its parameter: the namespace that the caller is confined to
    has_rows: bool = False  # its items are tables

    def record(self, tx: Write, caller: Caller, *writes: ItemWrite, undoes: int | None = None) -> None:
        """Add what a transaction wrote, in this transaction."""
        if not writes:
            return
        common = {
            "at": tx.precise_stamp,
            "source": caller.source,
            "client": caller.client,
            "key_id": caller.key_id,
            "key_name": caller.key_name,
            "session_id": caller.session_id,
            "undo_id": caller.undo_id,
            "undoes": undoes,
        }
        values = [_item_values(one) for one in writes]
        rows = self._add_one(tx, common, values[0]) if len(values) == 1 else self._add_several(tx, common, values)
        last = max(number for (number,) in rows)
        if last % RECORDS_PER_TRIM < len(rows):
            self._trim(tx, last)
        if last % RECORDS_PER_SIZE_CHECK < len(rows):
            self._trim_copies(tx)

    def _add_one(self, tx: Write, common: dict[str, Any], values: dict[str, Any]) -> list[Row]:
        """Faster than JSON, for the usual write."""
        return tx.all(
            f"""
            INSERT INTO {self.name} ({self._columns})
            VALUES ({_COMMON}, :item, :action, :before, :after{", :rows, :mark" if self.has_rows else ""})
            RETURNING number
            """,
            common | values,
        )

    def _add_several(self, tx: Write, common: dict[str, Any], values: Sequence[dict[str, Any]]) -> list[Row]:
        return tx.all(
            f"""
            INSERT INTO {self.name} ({self._columns})
            SELECT {_COMMON}, value ->> 'item', value ->> 'action', value ->> 'before', value ->> 'after'
                {", value ->> 'rows', value ->> 'mark'" if self.has_rows else ""}
            FROM json_each(:items) ORDER BY key RETURNING number
            """,
            common | {"items": _json(values)},
        )

    def _trim(self, tx: Write, last: int) -> None:
        """Erase expired copies, and the records beyond the limit."""
        tx.all(f"DELETE FROM {self.name} WHERE number <= :last", {"last": last - MAX_RECORDS})
        tx.all(
            f"UPDATE {self.name} SET before = NULL WHERE before IS NOT NULL AND at < :expired",
            {"expired": precise_stamp(tx.now - COPY_LIFETIME)},
        )

    def _trim_copies(self, tx: Write) -> None:
        """Erase the oldest copies beyond the limit of bytes: a text that is overwritten again and again must not fill
        the disk."""
        tx.all(
            f"""
            UPDATE {self.name} SET before = NULL WHERE before IS NOT NULL AND number <= (
                SELECT max(number) FROM (
                    SELECT number, sum(octet_length(before)) OVER (ORDER BY at DESC, number DESC) AS bytes
                    FROM {self.name} WHERE before IS NOT NULL
                ) AS copies WHERE bytes > :max_bytes
            )
            """,
            {"max_bytes": MAX_COPY_BYTES},
        )

    def erase_copies(self, tx: Write, items: Iterable[str]) -> None:
        """Erase the former states of items that were deleted for good."""
        tx.all(
            f"""
            UPDATE {self.name} SET before = NULL
            WHERE item IN (SELECT value FROM json_each(:items)) AND before IS NOT NULL
            """,
            {"items": _json(list(items))},
        )

    def items_moved_to(self, tx: Read, item: str) -> list[str]:
        """The items whose copies say that they were moved there."""
        rows = tx.all(
            f"""
            SELECT DISTINCT item FROM {self.name}
            WHERE before IS NOT NULL AND action = 'deleted' AND before ->> 'moved_to' = :item
            """,
            {"item": item},
        )
        return [former for (former,) in rows]

    def find(self, tx: Read, query: WriteQuery, limit: int) -> list[WriteRecord]:
        """The newest first."""
        rows = tx.all(
            f"SELECT {self._fields} FROM {self.name} WHERE {self._where(query)} ORDER BY number DESC LIMIT :limit",
            {**self._values(query), "limit": limit},
        )
        return [_record(row) for row in rows]

    def last_number(self, tx: Read) -> int:
        """The number of the last record; 0 if there is none."""
        return tx.number(f"SELECT coalesce(max(number), 0) FROM {self.name}")

    def chosen(self, tx: Read, query: WriteQuery, last: int, below: int, limit: int) -> dict[str, set[int]]:
        """The numbers of the matching records up to `last`, by item, the item that was written last first. At most
        `limit` items, and only those whose last matching record has a number below `below`."""
        values = {**self._values(query), "last": last, "below": below, "limit": limit}
        rows = tx.all(
            f"""
            SELECT record.item FROM {self.name} AS record
            WHERE {self._where(query)} AND record.number < :below AND record.number <= :last AND NOT EXISTS (
                SELECT 1 FROM {self.name} AS later
                WHERE later.item = record.item AND later.number > record.number AND later.number <= :last
                    AND {_condition(query)}
            )
            ORDER BY record.number DESC LIMIT :limit
            """,
            values,
        )
        found: dict[str, set[int]] = {item: set() for (item,) in rows}
        rows = tx.all(
            f"""
            SELECT number, item FROM {self.name}
            WHERE item IN (SELECT value FROM json_each(:items)) AND number <= :last AND {_condition(query)}
            """,
            values | {"items": _json(list(found))},
        )
        for number, item in rows:
            found[item].add(number)
        return found

    def counts(self, tx: Read, query: WriteQuery) -> dict[str, int]:
        """How many matching records each item has, the item that was written last first."""
        rows = tx.all(
            f"""
            SELECT item, count(*) FROM {self.name} WHERE {self._where(query)}
            GROUP BY item ORDER BY max(number) DESC
            """,
            self._values(query),
        )
        return dict(rows)

    def groups(self, tx: Read, query: WriteQuery) -> list[WriteGroup]:
        """The writes that match, by day and writer, the newest first."""
        rows = tx.all(
            f"""
            SELECT substr(at, 1, 10) AS day, source, client, key_id, key_name, count(*), min(at), max(at)
            FROM {self.name} WHERE {self._where(query)}
            GROUP BY substr(at, 1, 10), source, client, key_id, key_name ORDER BY 8 DESC
            """,
            self._values(query),
        )
        return [WriteGroup(*row) for row in rows]

    def history(self, tx: Read, items: Sequence[str]) -> dict[str, list[WriteRecord]]:
        """All records of each item, the oldest first."""
        if not items:
            return {}
        found: dict[str, list[WriteRecord]] = {item: [] for item in items}
        rows = tx.all(
            f"""
            SELECT {self._fields} FROM {self.name} WHERE item IN (SELECT value FROM json_each(:items)) ORDER BY number
            """,
            {"items": _json(list(items))},
        )
        writers: dict[Writer, Writer] = {}  # an item may have been written a hundred thousand times, by a few
        for row in rows:
            one = _record(row)
            writer = writers.setdefault(one.writer, one.writer)
            found[one.item].append(replace(one, writer=writer))
        return found

    def same_rows(self, tx: Read, numbers: Iterable[int]) -> list[WriteRecord]:
        """These records, and all others about the same rows, the oldest first. Of a journal whose items are tables."""
        rows = tx.all(
            f"""
            WITH wanted(number) AS (SELECT CAST(value AS BIGINT) FROM json_each(:numbers))
            SELECT {self._fields} FROM {self.name} WHERE number IN (
                SELECT number FROM wanted
                UNION
                SELECT number FROM {self.name} WHERE mark IN (
                    SELECT mark FROM {self.name} WHERE number IN (SELECT number FROM wanted) AND mark IS NOT NULL
                )
            )
            ORDER BY number
            """,
            {"numbers": _json(sorted(numbers))},
        )
        return [_record(row) for row in rows]

    def last_records(self, tx: Read, items: Iterable[str]) -> list[WriteRecord]:
        """The last record of each item. Items that were written before there was a journal have none."""
        return [_record(row) for row in tx.all(*self._last_query(self._fields, items))]

    def _last_query(self, fields: str, items: Iterable[str]) -> Query:
        sql = f"""
            SELECT {fields} FROM {self.name} WHERE number IN (
                SELECT (SELECT max(number) FROM {self.name} WHERE item = wanted.value)
                FROM json_each(:items) AS wanted
            )
        """
        return sql, {"items": _json(sorted(items))}

    def last_writers(self, tx: Read, items: Iterable[str]) -> tuple[dict[str, Writer], list[str]]:
        """Who wrote the last record of each item, and the items whose last record undid another."""
        known: dict[tuple[Any, ...], Writer] = {}  # a few programs wrote most of it
        writers: dict[str, Writer] = {}
        undone: list[str] = []
        for row in tx.all(*self.last_writers_query(items)):
            item, parts = row[0], row[2:]
            writer = known.get(parts)
            if writer is None:
                writer = known[parts] = Writer(*parts)
            writers[item] = writer
            if row[1] is not None:  # it undid another
                undone.append(item)
        return writers, undone

    def last_writers_query(self, items: Iterable[str]) -> Query:
        return self._last_query("item, undoes, source, client, key_id, key_name, session_id", items)

    def last_sessions(self, tx: Read, items: Iterable[str]) -> dict[str, tuple[str, str]]:
        """(session, time) of the last write of each item, as far as its session is known."""
        last = self.last_records(tx, items)
        return {one.item: (one.writer.session_id, one.at) for one in last if one.writer.session_id}

    def newest(self, tx: Read, items: Iterable[str], limit: int) -> list[WriteRecord]:
        """The newest records of some items, the newest first."""
        rows = tx.all(
            f"""
            SELECT {self._fields} FROM {self.name} WHERE item IN (SELECT value FROM json_each(:items))
            ORDER BY number DESC LIMIT :limit
            """,
            {"items": _json(list(items)), "limit": limit},
        )
        return [_record(row) for row in rows]

    def before(self, tx: Read, number: int) -> Any:
        """The state before a write; None if no copy is kept."""
        row = tx.one(f"SELECT before FROM {self.name} WHERE number = :number", {"number": number})
        return None if row is None or row[0] is None else json.loads(row[0])

    def has_copy(self, tx: Read, number: int) -> bool:
        """Whether the state before a write is kept."""
        found = tx.one(f"SELECT 1 FROM {self.name} WHERE number = :number AND before IS NOT NULL", {"number": number})
        return found is not None

    @property
    def _columns(self) -> str:
        return f"{_COLUMNS}, row_count, mark" if self.has_rows else _COLUMNS

    @property
    def _fields(self) -> str:
        return f"{_FIELDS}, row_count, mark" if self.has_rows else _FIELDS

    def _where(self, query: WriteQuery) -> str:
        return f"{_condition(query)} AND {self.visible}"

    def _values(self, query: WriteQuery) -> dict[str, Any]:
        return _values(query) | ({} if self.within is None else {"within": self.within})


def _condition(query: WriteQuery) -> str:
    conditions = {
        "lower(client) = lower(:client)": query.client,
        "(key_id = :key OR key_name = :key OR 'mmcp_' || substr(key_id, 1, 8) = :key)": query.key or None,
        "key_id IS NULL": query.key == "" or None,
        "source = :source": query.source,
        "session_id = :session_id": query.session_id,
        "at >= :since": query.since,
        "at < :until": query.until,
        "undo_id = :undo_id": query.undo_id,
        "number IN (SELECT CAST(value AS BIGINT) FROM json_each(:numbers))": query.numbers,
    }
    return " AND ".join(["TRUE", *(text for text, wanted in conditions.items() if wanted is not None)])


def _values(query: WriteQuery) -> dict[str, Any]:
    return {
        "client": query.client,
        "key": query.key,
        "source": query.source,
        "session_id": query.session_id,
        "since": query.since,
        "until": query.until,
        "undo_id": query.undo_id,
        "numbers": _json(sorted(query.numbers or ())),
    }


def _item_values(one: ItemWrite) -> dict[str, Any]:
    before = None if one.before is None else _json(one.before)
    values = {"item": one.item, "action": one.action, "before": before, "after": one.after}
    return values | {"rows": one.rows, "mark": one.mark}


def _record(row: Sequence[Any]) -> WriteRecord:
    number, at, source, client, key_id, key_name, session_id, *rest = row
    return WriteRecord(number, at, Writer(source, client, key_id, key_name, session_id), *rest)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
