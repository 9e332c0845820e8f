"""SQL of the storages, translated for PostgreSQL.

Storages write SQL that both engines understand. Functions that PostgreSQL lacks (json_each, instr, ->> on texts) are in
base/0001_base.sql. This module translates parameters, lists and json_each (to arrays), the bytes of a text and the
target of ON CONFLICT (the tenant leads every key), and removes hints to SQLite's planner.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_LIST = re.compile(r"(NOT )?IN \(SELECT (CAST\(value AS BIGINT\)|value) FROM json_each\(:([a-z_0-9]+)\)\)")
_CHANGE = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)")
_RULES = (
    (re.compile(r"ON CONFLICT \("), "ON CONFLICT (tenant, "),
    (re.compile(r"CROSS JOIN ((?:\w+|json_each\([^)]*\))(?: AS \w+)?\s+ON)"), r"JOIN \1"),
    (re.compile(r"(?<=[\s(])\+(?=[a-z])"), ""),  # +column: without an index
    (re.compile(r"INDEXED BY \w+"), ""),
    (re.compile(r"CAST\(([\w.]+) AS BLOB\)"), r"convert_to(\1, 'UTF8')"),
    # The planner knows how long an array is. For json_each it would read all rows of the tenant to join twenty.
    (
        re.compile(r"json_each\(:([a-z_0-9]+)\)"),
        r"(SELECT position - 1 AS key, value FROM unnest(:\1__texts::text[]) WITH ORDINALITY AS one(value, position))",
    ),
)
_AS_NUMBERS, _AS_LIST, _AS_TEXTS = "__numbers", "__list", "__texts"  # at the end of a parameter's name


@lru_cache(4096)
def returns_rows(sql: str) -> bool:
    return _CHANGE.match(sql) is None or "RETURNING" in sql


def translate(sql: str, values: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
    """The statement with numbered parameters, and their values."""
    text, names = _translate(sql)
    return text, [_value(name, values) for name in names]


def _value(name: str, values: Mapping[str, Any]) -> Any:
    if name.endswith(_AS_NUMBERS):  # a JSON list of numbers is an array literal in other brackets
        return f"{{{values[name.removesuffix(_AS_NUMBERS)][1:-1]}}}"
    if name.endswith(_AS_LIST):
        return json.loads(values[name.removesuffix(_AS_LIST)])
    if name.endswith(_AS_TEXTS):
        return [_text(one) for one in json.loads(values[name.removesuffix(_AS_TEXTS)])]
    return values[name]


def _text(value: Any) -> str | None:
    """As json_each gives it."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@lru_cache(4096)
def _translate(sql: str) -> tuple[bytes, tuple[str, ...]]:
    sql = _LIST.sub(_as_array, sql)
    for pattern, replacement in _RULES:
        sql = pattern.sub(replacement, sql)
    numbers: dict[str, int] = {}
    sql = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", sql)
    return sql.encode(), tuple(numbers)


def _as_array(found: re.Match[str]) -> str:
    """The planner looks up each element of an array; for a subquery it would read the whole table."""
    kind, type_ = (_AS_LIST, "text") if found[2] == "value" else (_AS_NUMBERS, "bigint")
    return f"{'<> ALL' if found[1] else '= ANY'} (:{found[3]}{kind}::{type_}[])"
