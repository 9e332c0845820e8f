"""Ways out of a query, made from the engine's own lists of functions, table functions, settings and formats.

`{out}` is a folder with secrets, `{host}` and `{port}` a listening server's. The same seed makes the same statements.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

_TARGETS = (
    "'{out}/secret.csv'",
    "'{out}/*'",
    "'{out}/secret.sqlite', 't'",
    "'http://{host}:{port}/x', 'CSV', 'a String, b Int64'",
    "'http://{host}:{port}/x'",
    "'{host}:{port}', 'system', 'one'",
    "'{host}:{port}', 'db', 't', 'u', 'p'",
    "'../../../../../../..{out}/secret.csv', 'LineAsString'",
    "'/proc/self/environ', 'LineAsString'",
    "'script.sh', 'TSV', 'a String'",
    "system.users",
    "'system', 'settings'",
    "mine",
    "'n', 'word'",
    "1",
    "",
)
_PLACES = (
    "SELECT {call}",
    "SELECT * FROM {call}",
    "SELECT * FROM mine WHERE {call} IS NOT NULL",
    "SELECT * FROM mine JOIN {call} AS j ON 1 = 1",
    "WITH x AS (SELECT {call}) SELECT * FROM x",
    "WITH x AS (SELECT * FROM {call}) SELECT * FROM x",
    "SELECT (SELECT * FROM {call})",
    "SELECT arrayMap(v -> {call}, [1])",
    "SELECT * APPLY(v -> {call}) FROM mine",
    "SELECT n FROM mine ORDER BY {call}",
    "SELECT count() OVER (PARTITION BY {call}) FROM mine",
    "SELECT 1 UNION ALL SELECT * FROM {call}",
    "SELECT * FROM view(SELECT * FROM {call})",
    "SELECT 1 IN (SELECT * FROM {call})",
    "INSERT INTO FUNCTION {call} SELECT 'x'",
    "DESCRIBE TABLE {call}",
    "EXPLAIN SELECT * FROM {call}",
    "CREATE TABLE t2 AS {call}",
)
_SPELLINGS = (
    str,
    str.upper,
    str.lower,
    lambda name: f"`{name}`",
    lambda name: f'"{name}"',
    lambda name: f"/**/{name} /**/",
)
_SETTING_VALUES = ("1", "0", "'{out}'", "'http://{host}:{port}'", "'a'", "1000000000")
_WRITES = ("INTO OUTFILE '{out}/made' ", "INTO OUTFILE '{out}/made' TRUNCATE ", "")


@dataclass(frozen=True)
class EngineLists:
    functions: Sequence[str]
    table_functions: Sequence[str]
    settings: Sequence[str]
    formats: Sequence[str]


def statements(lists: EngineLists, count: int, seed: int) -> Iterator[str]:
    """Every name at least once, if so many are wanted, then at random."""
    return islice(_endless(lists, random.Random(seed)), count)


def _endless(lists: EngineLists, chance: random.Random) -> Iterator[str]:
    kinds = (
        [("call", name) for name in (*lists.table_functions, *lists.functions)]
        + [("setting", name) for name in lists.settings]
        + [("format", name) for name in lists.formats]
    )
    while True:
        chance.shuffle(kinds)
        for kind, name in kinds:
            yield _statement(kind, name, chance)


def _statement(kind: str, name: str, chance: random.Random) -> str:
    if kind == "setting":
        value = chance.choice(_SETTING_VALUES)
        return chance.choice((f"SELECT * FROM mine SETTINGS {name} = {value}", f"SET {name} = {value}"))
    if kind == "format":
        return f"SELECT * FROM mine {chance.choice(_WRITES)}FORMAT {name}"
    call = f"{chance.choice(_SPELLINGS)(name)}({chance.choice(_TARGETS)})"
    if chance.random() < 0.2:
        call = f"{name}({call})"
    return (
        chance.choice(_PLACES)
        .format(call=call.replace("{", "{{").replace("}", "}}"))
        .replace("{{", "{")
        .replace("}}", "}")
    )
