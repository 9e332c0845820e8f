"""mcp.checksum of a db file: it depends on all rows and columns, and on nothing else."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from memory_mcp.app import App
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.model import Record
from tests.families.portals.calls import CALLER, put

SOME_UUID = "01234567-89ab-cdef-0123-456789abcdef"
ROW: Record = {
    **{"id": 1, "text": "a", "truth": True, "number": 1.5, "wide": 2**100, "uuid": SOME_UUID, "nothing": None},
    **{"day": "2026-01-31", "old": "1850-01-01", "moment": "2026-01-31T10:00:00.123Z", "texts": ["a", "bc"]},
    **{"wholes": [1, None], "several": [1, "x", [2.5]], "object": {"a.b": 1, "c": [1, {"d": 2.0}]}, "objects": [{}]},
}
CHANGED: Record = {
    **{"id": 2, "text": "", "truth": False, "number": 1.25, "wide": 2**99, "uuid": None, "nothing": "x"},
    **{"day": None, "old": "1850-01-02", "moment": "2026-01-31T10:00:00.124Z", "texts": ["ab", "c"]},
    **{"wholes": [None, 1], "several": [1, "y", [2.5]], "object": {"a": {"b": 1}, "c": []}, "objects": [{"a": 1}]},
}


def new_portal() -> str:
    return f"mem://tests/p-{uuid4().hex[:8]}"


def export(app: App, portal: str) -> Path:
    name = f"{uuid4().hex}.db"
    app.portals.exports.export_file(CALLER, portal, name, "db", None, None, lambda *progress: None)
    return app.settings.data_dir / "exports" / name


def checksum(file: Path) -> str:
    return str(archive.manifest(file)["metadata"]["mcp.checksum"])


def checksum_of(app: App, *writes: Sequence[Record]) -> str:
    """Of a new portal with these writes to one table."""
    portal = new_portal()
    for records in writes:
        put(app, "things", records, portal)
    return checksum(export(app, portal))


def test_a_checksum_depends_on_rows_alone(app: App) -> None:
    rows: list[Record] = [{"n": 1, "text": None}, {"n": 2, "text": "b"}, {"n": 3, "text": "b"}]
    whole = checksum_of(app, rows)
    assert whole == checksum_of(app, rows[:1], rows[1:]) == checksum_of(app, rows[:2], rows[2:])
    assert whole == checksum_of(app, rows[:1], rows[:0:-1])
    others = [
        checksum_of(app, some)
        for some in (
            rows[1:],
            [*rows, rows[0]],
            [*rows, rows[1], rows[1]],
            [{"n": None, "text": "1"}, *rows[1:]],
            [{"n": 0, "text": None}, *rows[1:]],
            [{"m": row["n"], "text": row["text"]} for row in rows],
        )
    ]
    assert len({whole, *others}) == 1 + len(others)


def test_a_change_of_any_value_changes_the_checksum(app: App) -> None:
    """Each in a second row, which has the types of the first."""
    whole = checksum_of(app, [ROW, ROW])
    others = {name: checksum_of(app, [ROW, {**ROW, name: value}]) for name, value in CHANGED.items()}
    assert len({whole, *others.values()}) == 1 + len(others), others


def test_a_checksum_stays_in_an_import(app: App) -> None:
    portal, into = new_portal(), new_portal()
    put(app, "things", [ROW, CHANGED], portal)
    put(app, "things", [ROW], portal)
    put(app, "others", [{"x": 1}], portal)
    file = export(app, portal)
    (app.settings.data_dir / "imports").mkdir(exist_ok=True)
    shutil.copy(file, app.settings.data_dir / "imports" / file.name)
    app.portals.imports.import_file(CALLER, into, file.name, "db", None, lambda *progress: None)
    assert checksum(export(app, into)) == checksum(file)
    put(app, "others", [{"x": 1}], into)
    assert checksum(export(app, into)) != checksum(file)


TYPES = {  # that other programs may have given to columns: two values of each
    "Decimal(38, 5)": ("1.5", "1.25"),
    "Int256": ("1", "2"),
    "LowCardinality(Nullable(String))": ("''", "NULL"),
    "Map(String, String)": ("map('a', 'b')", "map('b', 'a')"),
    "Tuple(a Int64, b Nullable(String))": ("(1, '')", "(1, NULL)"),
    "Array(Array(Nullable(Int64)))": ("[[1], [2, NULL]]", "[[1, 2], [NULL]]"),
    "Enum8('x' = 1, 'y' = 2)": ("'x'", "'y'"),
    "IPv4": ("'127.0.0.1'", "'127.0.0.2'"),
    "IPv6": ("'::1'", "'::2'"),
    "FixedString(2)": ("'a'", "'ab'"),
    "DateTime64(6)": ("'2026-01-31 10:00:00.123456'", "'2026-01-31 10:00:00.123457'"),
    "Nullable(Int128)": ("0", "NULL"),
    "Variant(Int64, String)": ("1::Int64", "'x'"),
    "JSON(max_dynamic_paths = 1)": ("""'{"a": 1, "b": 2, "c": 3}'""", """'{"a": 1, "b": 2, "c": 4}'"""),
    "Nullable(Float64)": ("0", "-0.0"),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineConnections]:
    opened = EngineConnections(tmp_path_factory.mktemp("engine") / "portal", {"max_execution_time": 5})
    yield opened
    opened.end_engine()


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_any_type_have_a_checksum(engine: EngineConnections, kind: str) -> None:
    found = []
    for value in TYPES[kind]:
        engine.run(f"CREATE TABLE things (x {kind}) ENGINE = MergeTree ORDER BY tuple()")
        for _ in range(2):
            engine.run(f"INSERT INTO things SELECT {value}")
        found.append(storage.checksum(engine, storage.tables(engine)))
        engine.run("OPTIMIZE TABLE things FINAL")
        assert storage.checksum(engine, storage.tables(engine)) == found[-1]
        engine.run("DROP TABLE things SYNC")
    assert found[0] != found[1]
