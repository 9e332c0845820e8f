"""What a query may do. Everything it must not is tried at both walls, and at each of them alone."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.engines.isolation import landlock
from memory_mcp.engines.portal_engine import EngineError
from memory_mcp.errors import AppError, Invalid
from tests.engines.chdb.escapes import ALL, BENIGN, FILES, NETWORK, PROGRAMS
from tests.engines.chdb.outside import SECRET, Outside
from tests.exhaustive import rounds
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import CALLER, put, query_operation

PORTAL, OTHER = "mem://walled/mine", "mem://walled/other"
LIMITS = {"max_execution_time": 5, "limit": 1001, "max_memory_usage": 500_000_000}
LOCKED = pytest.mark.skipif(landlock.version() == 0, reason="the kernel has no Landlock")


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """With so much time that no query is refused for it, however busy the machine is."""
    return {"families": "portals", "portal_seconds": 120}


@pytest.fixture(scope="module", autouse=True)
def portals(app: App) -> None:
    _fill(app)
    put(app, "secrets", [{"id": 1, "content": SECRET}], OTHER)


def _fill(app: App) -> None:
    rows = [
        {
            "n": n,
            "word": f"w{n}",
            "tags": ["a", f"b{n}"],
            "object": {"a": n, "b": {"c": "x"}},
            "at": f"2026-01-0{n}T10:00:00Z",
        }
        for n in (1, 2, 3)
    ]
    put(app, "mine", rows, PORTAL)
    put(app, "mine2", [{"n": 2}], PORTAL)


@pytest.mark.parametrize("statement", ALL)
def test_nothing_but_a_select_over_this_portal_is_possible(app: App, outside: Outside, statement: str) -> None:
    parameters = {"p": f"{outside.folder}/secret.csv", "t": "system.one", "c": "n"}
    with pytest.raises(Invalid) as caught:
        app.portals.query(CALLER, PORTAL, outside.statement(statement), parameters)

    assert caught.value.code in ("read_only_query", "invalid", "unknown_table", "unknown_column", "unknown_function")
    assert SECRET not in caught.value.message.replace(statement, "") or SECRET in statement
    assert outside.traces() == []
    assert query_operation(app, "SELECT count() AS c FROM mine", portal=PORTAL) == [{"c": 3}]


@pytest.mark.parametrize("statement", [*FILES, *NETWORK, *PROGRAMS])
def test_nor_in_an_export(app: App, outside: Outside, statement: str) -> None:
    with pytest.raises(AppError):
        app.portals.exports.export_file(
            CALLER, PORTAL, "out.csv", "csv", None, outside.statement(statement), lambda *progress: None
        )
    assert outside.traces() == []


def test_queries_of_analysts_pass(app: App) -> None:
    given = {"n": 1, "words": ["w2"]}
    for statement in BENIGN:
        result = app.portals.query(CALLER, PORTAL, statement.format(), given if "{{" in statement else {})
        assert result.columns, statement


def test_a_harmless_payload_passes_where_a_harmful_one_does_not(app: App) -> None:
    for place in (
        *("SELECT {}", "SELECT * FROM (SELECT {})", "WITH {} AS x SELECT x", "SELECT if(1, {}, '')", "SELECT [{}]"),
        *("SELECT 1 WHERE {} != ''", "SELECT 1 ORDER BY {}", "SELECT n FROM mine GROUP BY n HAVING {} != ''"),
        *("SELECT arrayMap(x -> {}, [1])", "SELECT '' IN (SELECT {})", "SELECT tuple({}).1", "SELECT map('a', {})"),
        *("SELECT max({}) OVER ()", "SELECT 1 UNION ALL SELECT length({})", "SELECT CASE WHEN 1 THEN {} END"),
        *(
            "SELECT n FROM mine ARRAY JOIN [{}] AS z",
            "SELECT a.n FROM mine AS a JOIN mine AS b ON a.word = concat(b.word, {})",
        ),
        *(
            "SELECT * REPLACE({} AS word) FROM mine",
            "SELECT CAST({} AS String)",
            "SELECT anyIf({}, 1)",
            "SELECT {}::String",
        ),
    ):
        query_operation(app, place.format("upper('a')"), portal=PORTAL)
        for harmful in ("file('/etc/passwd')", "hostName()", "getSetting('readonly')", "dictGet('d', 'a', 1)"):
            with pytest.raises(Invalid) as caught:
                query_operation(app, place.format(harmful), portal=PORTAL)
            assert caught.value.code == "read_only_query", place


@pytest.mark.anyio
async def test_an_error_names_the_refused_part_of_a_query(client: Client) -> None:
    for sql, word in {
        "DROP TABLE mine": "SELECT",
        "SELECT * FROM file('/etc/passwd')": "'file'",
        "SELECT hostName()": "'hostName'",
        "SELECT 1 SETTINGS readonly = 0": "SETTINGS",
        "SELECT 1; SELECT 2": "one SELECT",
    }.items():
        refused = await refusal(client, "portal_query", portalUri=PORTAL, sql=sql)
        assert (refused["error"], refused["data"]) == ("read_only_query", {"field": "sql"})
        assert word in refused["message"]
    answer = await call(client, "portal_query", portalUri=PORTAL, sql="SELECT n FROM mine WHERE n = 1")
    assert answer["rows"] == [{"n": 1}]


def test_a_query_as_long_as_allowed_is_still_looked_at_whole(app: App) -> None:
    long = "SELECT 1" + " + 1" * 150
    assert query_operation(app, long, portal=PORTAL)
    with pytest.raises(Invalid):
        query_operation(app, long + " + length(file('/etc/passwd'))", portal=PORTAL)
    with pytest.raises(Invalid):
        query_operation(app, "SELECT " + "(" * 5000 + "1" + ")" * 5000, portal=PORTAL)
    with pytest.raises(Invalid):
        query_operation(app, "SELECT 1" + " " * 70_000, portal=PORTAL)


# The sandbox without the SQL policy

_BEHIND_THE_FIRST = """
import json, os, sys
from pathlib import Path
from memory_mcp.engines.chdb import engine as chdb_engine, sandbox

folder = Path(sys.argv[1])
for name in ("tmp", "staging"):
    (folder / name).mkdir(parents=True, exist_ok=True)
statements = json.load(sys.stdin)
os.chdir(chdb_engine.HERE)
sandbox.enter(folder, readable=[chdb_engine.HERE])
engine = chdb_engine.Engine(folder)
engine.run("CREATE TABLE mine (n Int64) ENGINE = MergeTree ORDER BY n", {}, b"")
engine.run("INSERT INTO mine VALUES (1)", {}, b"")
engine.run("CREATE DATABASE other", {}, b"")
engine.run("CREATE TABLE other.secrets (content String) ENGINE = MergeTree ORDER BY tuple()", {}, b"")
engine.run("INSERT INTO other.secrets VALUES ('TOP' || 'SECRET')", {}, b"")
reader = engine.reader({"max_execution_time": 5, "limit": 1001, "max_memory_usage": 500000000})
answers = []
for statement in statements:
    try:
        found = reader._connection.run(statement, {"p": sys.argv[2]} if "{p:" in statement else {})
        answers.append(found.decode("utf-8", "replace"))
    except Exception as exc:
        answers.append("refused: " + str(exc))
count = engine.run("SELECT count() FROM mine", {}, b"").decode().strip()
print("\\n" + json.dumps({"answers": answers, "rows": count}))
sys.stdout.flush()
os._exit(0)
"""


def _run_behind_the_first(outside: Outside, folder: Path, script: str, statements: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", script, folder, outside.folder / "secret.csv"],
        input=json.dumps(statements),
        env={**os.environ, "A_SECRET": SECRET, "TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    output: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return output


def _leaking(statements: list[str], answers: list[str]) -> list[str]:
    return [
        statement
        for statement, answer in zip(statements, answers, strict=True)
        if SECRET in answer and SECRET not in statement  # in what the engine says is wrong, too
    ]


@LOCKED
def test_the_role_and_the_sandbox_alone_let_nothing_out(outside: Outside, tmp_path: Path) -> None:
    statements = [outside.statement(text) for text in ALL if text and "\0" not in text and "sleep" not in text]
    output = _run_behind_the_first(outside, tmp_path / "portal", _BEHIND_THE_FIRST, statements)
    assert _leaking(statements, output["answers"]) == []
    assert output["rows"] == "1"
    assert outside.traces() == []


def test_the_role_alone_stops_all_but_the_documented_functions(outside: Outside, tmp_path: Path) -> None:
    """Without the SQL policy and the sandbox: SET ROLE, INTO OUTFILE and the scalar file() are not its to stop."""
    texts = [text for text in ALL if text and not re.search(r"\0|sleep|SET ROLE|OUTFILE", text)]
    statements = [outside.statement(text) for text in texts]
    script = _BEHIND_THE_FIRST.replace("sandbox.enter(folder, readable=[chdb_engine.HERE])", "")
    assert script != _BEHIND_THE_FIRST
    output = _run_behind_the_first(outside, tmp_path / "portal", script, statements)
    leaking = _leaking(statements, output["answers"])
    assert outside.statement("SELECT file('{out}/secret.csv')") in leaking  # else the docs say too little of the role
    assert [
        one for one in leaking if not re.search("file", one, re.I) or re.search(r"(from|join) file", one, re.I)
    ] == []
    assert output["rows"] == "1"
    assert outside.traces() == []


@LOCKED
def test_the_kernel_alone_keeps_an_engine_in_wherever_its_server_was_started(
    outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(outside.folder)
    monkeypatch.setenv("A_SECRET", SECRET)
    engine = EngineConnections(tmp_path / "portal", LIMITS)
    for text in (
        *("SELECT file('{out}/secret.csv')", "SELECT * FROM file('{out}/secret.csv', 'LineAsString')"),
        *("SELECT * FROM default.`{out}/secret.csv`", "SELECT * FROM sqlite('{out}/secret.sqlite', 't')"),
        *("SELECT file('/proc/self/environ')", "SELECT * FROM file('{other}/portal.json', 'LineAsString')"),
        *("SELECT * FROM file('{other}/engine.log', 'LineAsString')", "SELECT 1 INTO OUTFILE '{out}/written'"),
        "SELECT * FROM url('http://{host}:{port}/', 'LineAsString') SETTINGS http_max_tries = 1",
    ):
        with pytest.raises(EngineError):
            engine.run(outside.statement(text))
    assert "root:" not in _output(engine, "SELECT file('/etc/passwd')")
    assert outside.traces() == []
    assert engine.run("SELECT 1") == b"1\n"
    engine.close()


def _output(engine: EngineConnections, sql: str) -> str:
    try:
        return engine.run(sql).decode()
    except EngineError as exc:
        return str(exc)


# States of aggregate functions, and operators that take a table

_SMUGGLING = """
import json, os, sys
from pathlib import Path
from memory_mcp.engines.chdb import engine as chdb_engine, sandbox, sql_policy

folder = Path(sys.argv[1])
for name in ("tmp", "staging"):
    (folder / name).mkdir(parents=True, exist_ok=True)
os.chdir(chdb_engine.HERE)
sandbox.enter(folder, readable=[chdb_engine.HERE])
engine = chdb_engine.Engine(folder)
connection = engine._connect()
listed = engine._checks.functions
read = engine._inspector.read
names = [
    name
    for name in read("SELECT name FROM system.functions WHERE NOT is_aggregate AND alias_to = ''").split()
    if listed.allow(name)
]
names = [name for number, name in enumerate(names) if number % int(sys.argv[2]) == 0 or name in sys.argv[3:]]
state, simple = "AggregateFunction(sum, UInt64)", "SimpleAggregateFunction(sum, UInt64)"
# Every place for the name of a type or of a function, in a call that has no state yet. {} is that name.
places = {
    "(unhex('0100000000000000'), {})": state,
    "({})": state,
    "('[1]', {})": simple,
    "('[1]', 1, {})": simple,
    "(CAST(1, 'Dynamic'), {})": state,
    "({}, [toUInt64(1)])": "sumState",
    "({}, [(1, 1)], [1])": "sumState",
}
pattern = "(?i)^(.*(not|null|global))?in(IgnoreSet)?$"
sets = read(f"SELECT lower(name) FROM system.functions WHERE match(name, '{pattern}') ORDER BY 1").split()
found, passed = set(), []
for name in names:
    for place, value in places.items():
        call = name + place.replace("{}", repr(value))
        try:
            type_ = connection.query(f"SELECT toTypeName({call})", "TSVRaw").bytes()
        except Exception:
            continue
        if b"AggregateFunction" not in type_:
            continue
        written = f"SELECT {call}"
        found.add(name)
        computed = written.replace(repr(value), f"concat({value[:5]!r}, {value[5:]!r})")
        named = f"WITH {value!r} AS v " + written.replace(repr(value), "v")
        for sql in (written, computed, named):
            try:
                engine._checks.check(sql, {})
                passed.append(sql)
            except sql_policy.QueryRefused:
                pass
print("\\n" + json.dumps({
    "tried": len(names),
    "found": sorted(found),
    "passed": passed,
    "in": sorted(listed.in_operators),
    "sets": sets,
}))
sys.stdout.flush()
os._exit(0)
"""


@LOCKED
def test_no_function_of_the_engine_makes_a_state_of_a_text(tmp_path: Path) -> None:
    """Of all it has (a sixth, except in a soak), those that take the name of a type or of an aggregate function."""
    takers = {"CAST", "accurateCast", "dynamicElement", "getSubcolumn", "JSONExtract", "arrayReduce"}
    every = rounds(6, soak=1)
    done = subprocess.run(
        [sys.executable, "-c", _SMUGGLING, tmp_path, str(every), *takers],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    output = json.loads(done.stdout.splitlines()[-1])
    assert output["tried"] > 1000 / every
    assert takers <= set(output["found"])
    assert output["passed"] == []
    assert output["in"] == output["sets"]
    assert "nullinignoreset" in output["in"]


# Limits


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    limits: dict[str, Any] = {"portal_seconds": 1, "portal_rows": 100, "portal_memory": 100_000_000}
    chosen = {"data_dir": tmp_path_factory.mktemp("narrow"), "families": "portals", **limits}
    with open_app(settings.load(chosen, environ={}).settings) as opened:
        _fill(opened)
        yield opened


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT sum(sipHash64(number)) FROM numbers(1000000000000)", "longer"),
        ("SELECT count() FROM numbers(100000000000) AS a JOIN mine AS b ON a.number % 7 = b.n", "longer"),
        ("SELECT groupArray(number) FROM numbers(100000000)", "memory"),
        ("SELECT repeat('x', 1000000) FROM numbers(300)", "memory"),
        ("SELECT arrayJoin(range(100000000))", "memory"),
    ],
)
def test_a_query_that_is_too_much_ends_and_the_next_one_works(narrow: App, sql: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        query_operation(narrow, sql, portal=PORTAL)
    assert caught.value.code == ("timeout" if words == "longer" else "too_large")
    assert words in caught.value.message
    assert query_operation(narrow, "SELECT count() AS c FROM mine", portal=PORTAL) == [{"c": 3}]


def test_a_result_is_cut_at_the_row_limit_and_marked(narrow: App) -> None:
    result = narrow.portals.query(CALLER, PORTAL, "SELECT number FROM numbers(1000)", {})
    assert (result.rowCount, result.truncated) == (100, True)
    assert result.notice
    whole = narrow.portals.query(CALLER, PORTAL, "SELECT number FROM numbers(100)", {})
    assert (whole.rowCount, whole.truncated, whole.notice) == (100, False, None)
    inner = narrow.portals.query(CALLER, PORTAL, "SELECT count() AS c FROM (SELECT number FROM numbers(1000))", {})
    assert inner.rows == [{"c": 1000}]
    limited = narrow.portals.query(CALLER, PORTAL, "SELECT number FROM numbers(1000) LIMIT 5", {})
    assert (limited.rowCount, limited.truncated) == (5, False)


def test_an_export_gives_all_rows(narrow: App) -> None:
    made = narrow.portals.exports.export_file(
        CALLER, PORTAL, "all.csv", "csv", None, "SELECT number FROM numbers(1000)", lambda *progress: None
    )
    assert made.rows == 1000
    assert len((narrow.settings.data_dir / "exports" / made.destination).read_text().splitlines()) == 1001
