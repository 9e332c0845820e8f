"""Conversion of values, so that storages get from PostgreSQL what they get from SQLite."""

import struct
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8Dumper

from memory_mcp.engines.transactions import Packed


class _IntegerDumper(Int8Dumper):
    """Every whole number is a bigint, True and False among them, so that each statement is prepared once."""

    def dump(self, obj: Any) -> Buffer | None:
        return super().dump(int(obj))

    def quote(self, obj: Any) -> Buffer:
        return super().quote(int(obj))


class _TextDumper(Dumper):
    """Without a type, so that PostgreSQL deduces it; and without NUL, which its texts cannot contain."""

    format = Format.TEXT

    def dump(self, obj: Any) -> bytes:
        return str(obj).replace("\0", "\N{REPLACEMENT CHARACTER}").encode()


class _ListDumper(Dumper):
    """An array literal, of numbers or texts. psycopg's own dumper of lists takes ten times as long."""

    format = Format.TEXT

    def dump(self, obj: Any) -> bytes:
        if set(map(type, obj)) == {int}:
            return f"{{{str(obj)[1:-1]}}}".encode()
        return f"{{{','.join(map(_element, obj))}}}".encode()


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return repr(value)
    if not isinstance(value, str):
        return str(int(value))  # True and False among them
    escaped = value.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        import numpy as np

        return struct.pack(">HH", len(obj) // 4, 0) + np.frombuffer(obj, "<f4").astype(">f4").tobytes()


class _VectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Packed:
        import numpy as np

        return Packed(np.frombuffer(data, ">f4", offset=4).astype("<f4").tobytes())


def register(connection: psycopg.Connection[Any]) -> None:
    """Register these conversions for a connection."""
    adapters = connection.adapters
    adapters.register_dumper(int, _IntegerDumper)
    adapters.register_dumper(bool, _IntegerDumper)
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(list, _ListDumper)
    row = connection.execute("SELECT to_regtype('vector')::oid::bigint").fetchone()
    if row and row[0] is not None:  # the first migration creates the extension
        adapters.register_dumper(Packed, type("_Vector", (_VectorDumper,), {"oid": int(row[0])}))
        adapters.register_loader(int(row[0]), _VectorLoader)
