"""Connections to chDB: one that runs statements, and one that can only read, within the SQL policy."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from memory_mcp.engines.chdb import sql_policy
from memory_mcp.engines.chdb.parameters import encoded, literal, prepared

CHDB_ERRORS = (RuntimeError, ValueError)  # errors of chDB itself, and of results that are neither text nor JSON
MAX_RESULT_BYTES = 4 * 1024 * 1024  # of the rows of a result, as JSON; answers to callers are far smaller


class EngineConnection(Protocol):
    """Runs statements, on chDB or on a ClickHouse server."""

    def run(self, sql: str, parameters: dict[str, Any], data: bytes = b"") -> bytes:
        """The result as text, or in the FORMAT that the statement names. `data` is what an INSERT is to insert."""

    def close(self) -> None: ...


class ChdbConnection:
    """One connection to the engine. It is opened again after a failure: chDB would put the partial output of the failed
    query before the answer to the next one."""

    def __init__(self, open_: Callable[[], Any]) -> None:
        self._open = open_
        self._opened = open_()

    def run(self, sql: str, parameters: dict[str, Any], data: bytes = b"") -> bytes:
        given = {"params": {name: encoded(value) for name, value in parameters.items()}} if parameters else {}
        try:
            result: bytes = self._opened.query(f"{sql}\n{data.decode()}" if data else sql, "TSVRaw", **given).bytes()
        except Exception:
            failed, self._opened = self._opened, self._open()
            failed.close()
            raise
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()


class Reader:
    """A connection that can only read, and runs only queries that the SQL policy allows."""

    def __init__(
        self, connection: EngineConnection, check: Callable[[str, Mapping[str, str]], sql_policy.CheckedQuery]
    ) -> None:
        self._connection = connection
        self._check = check

    def query(self, sql: str, parameters: dict[str, Any], attached: Mapping[str, str]) -> bytes:
        checked = self._check(sql, attached)
        given = {name: prepared(name, value, checked.parameters.get(name, "")) for name, value in parameters.items()}
        began = time.perf_counter()
        lines = self._connection.run(f"{checked.text}\nFORMAT JSONCompactEachRowWithNamesAndTypes", given)
        return _pack_result(lines, time.perf_counter() - began)

    def export(self, sql: str, format_: str, file: AbstractContextManager[str]) -> None:
        """Write the result to a file, which is opened once the query is allowed."""
        text = self._check(sql, {}).text
        with file as path:
            self._connection.run(f"{text}\nINTO OUTFILE {literal(path)} TRUNCATE FORMAT {format_}", {})

    def close(self) -> None:
        self._connection.close()


def _pack_result(lines: bytes, elapsed_s: float) -> bytes:
    """A result as one JSON object, with the first rows that fit; none if the first alone does not. A server that parses
    all rows would need many times their size in memory."""
    names, types, *rest = lines.split(b"\n", 2)
    rows = rest[0].removesuffix(b"\n") if rest else b""
    is_cut = len(rows) > MAX_RESULT_BYTES
    if is_cut:
        rows = rows[: max(rows.rfind(b"\n", 0, MAX_RESULT_BYTES), 0)]
    meta = [{"name": name, "type": type_} for name, type_ in zip(json.loads(names), json.loads(types), strict=True)]
    header = json.dumps({"meta": meta, "isCut": is_cut, "elapsedSeconds": elapsed_s})
    return header[:-1].encode() + b', "data": [' + rows.replace(b"\n", b",") + b"]}"
