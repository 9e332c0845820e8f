"""What a file of texts may hold, before and after the engine reads it: levels, missing keys, NFC, numbers."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.families.portals import text_files
from memory_mcp.families.portals.model import FileFormat
from tests.families.portals.calls import CALLER, PORTAL, put, query_operation


@pytest.fixture(scope="module")
def imports(data_dir: Path) -> Path:
    (data_dir / "imports").mkdir(exist_ok=True)
    return data_dir / "imports"


def bring_in(app: App, table: str, content: str | bytes, format_: FileFormat) -> int:
    path = app.settings.data_dir / "imports" / f"{table}.{format_}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = app.portals.imports.import_file(CALLER, PORTAL, path.name, format_, table, lambda *progress: None)
    return found.imported


def types(app: App, table: str) -> dict[str, str]:
    tables = app.portals.view(CALLER, f"{PORTAL}/{table}").tables
    return {column.name: column.type for column in tables[0].columns}


def objects(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def lists(levels: int) -> str:
    return '[{"a":' + "[" * (levels - 1) + "1" + "]" * (levels - 1) + "}]"


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize("nested", [objects, lists])
def test_a_file_is_nested_as_deep_as_records_are_and_no_deeper(app: App, table: str, nested: Any) -> None:
    assert bring_in(app, table, nested(text_files.MAX_LEVELS), "json") == 1
    assert len(query_operation(app, f"SELECT * FROM {table}")) == 1
    with pytest.raises(Invalid, match="nested more than 99 deep"):
        bring_in(app, f"{table}_deeper", nested(text_files.MAX_LEVELS + 1), "json")


def test_brackets_in_texts_are_no_levels(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"a": '[{"\\' * 200, "b": "]" * 200}] * 2))
    text_files.normalise(path, is_json=True)
    assert len(next(text_files.batches(path))) == 2


@pytest.mark.usefixtures("imports")
def test_an_engine_ends_if_it_does_not_stop_after_its_client_left(app: App, data_dir: Path) -> None:
    """chDB cannot be stopped while it infers the columns of a file."""
    put(app, "stuck", [{"n": 1}])
    folder = data_dir / "portals" / "tests" / "shared"
    path = folder / "staging" / "deep.json"
    path.write_text(objects(30))
    engine, cancelled = EngineConnections(folder, {"max_execution_time": 5}), threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    setting = "input_format_json_try_infer_named_tuples_from_objects = 1"
    sql = f"DESCRIBE TABLE file('{path}', 'JSONEachRow') SETTINGS {setting}"
    with pytest.raises(Unavailable):
        engine.cancellable(cancelled).run(sql)
    put(app, "stuck", [{"n": 2}])  # waits for its turn in the engine
    assert query_operation(app, "SELECT sum(n) AS s FROM stuck") == [{"s": 3}]
    engine.close()


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize(("content", "format_"), [("id,v\n1,a\n,b\n", "csv"), ('[{"id":1,"v":"a"},{"v":"b"}]', "json")])
def test_a_missing_id_is_null_or_refused_and_never_zero(
    app: App, table: str, content: str, format_: FileFormat
) -> None:
    assert bring_in(app, table, content, format_) == 2
    assert types(app, table) == {"id": "Nullable(Int64)", "v": "Nullable(String)"}
    assert [row["id"] for row in query_operation(app, f"SELECT id FROM {table} ORDER BY v")] == [1, None]

    put(app, f"{table}_keyed", [{"id": 7, "v": "x"}])
    with pytest.raises(Invalid, match="needs an 'id'"):
        bring_in(app, f"{table}_keyed", content, format_)
    assert query_operation(app, f"SELECT id FROM {table}_keyed") == [{"id": 7}]


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
@pytest.mark.parametrize("key", [7, "x"], ids=["number", "text"])
def test_a_file_without_ids_is_refused_by_a_table_that_is_sorted_by_them(
    app: App, table: str, format_: FileFormat, key: int | str
) -> None:
    exports = app.settings.data_dir / "exports"
    put(app, f"{table}_source", [{"v": "a"}, {"v": "b"}])
    app.portals.exports.export_file(
        *(CALLER, PORTAL, f"{table}.{format_}", format_, f"{table}_source", None, lambda *progress: None)
    )
    content = (exports / f"{table}.{format_}").read_bytes()
    put(app, table, [{"id": key, "v": "x"}])
    with pytest.raises(Invalid, match="and those in the file have none") as caught:
        bring_in(app, table, content, format_)
    assert caught.value.data == {"field": "source"}
    assert query_operation(app, f"SELECT id FROM {table}") == [{"id": key}]

    portal = f"mem://tests/{table}"  # ids of messages are filled in
    put(app, "messages", [{"role": "user", "content": "hi"}], portal)
    app.portals.imports.import_file(
        CALLER, portal, f"{table}.{format_}", format_, "messages", lambda *progress: None, on_conflict="append"
    )
    assert query_operation(app, "SELECT uniqExact(id) AS ids FROM messages", portal=portal) == [{"ids": 3}]


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2\n3,4\n", b"abc", b"PAR1" + b"x" * 40 + b"PAR1", b"PAR1" + b"\xff" * 30 + b"\x10\0\0\0PAR1"],
    ids=["csv", "short", "wrong size", "no metadata"],
)
def test_what_is_no_parquet_file_is_refused_in_plain_words(app: App, table: str, content: bytes) -> None:
    put(app, table, [{"n": 1}])
    with pytest.raises(Invalid) as caught:
        bring_in(app, table, content, "parquet")
    expected = "source: this cannot be read as parquet. It is not a Parquet file, or it is damaged."
    assert caught.value.message == expected


@pytest.mark.usefixtures("imports")
def test_a_csv_file_has_up_to_4000_columns(app: App, table: str) -> None:
    content = ",".join(f"column_{number}" for number in range(4000)) + "\n" + ",".join(["1"] * 4000) + "\n"
    assert bring_in(app, table, content, "csv") == 1
    assert set(types(app, table).values()) == {"Nullable(Int64)"}
    with pytest.raises(Invalid, match="more than 4000 columns") as caught:
        bring_in(app, f"{table}_wider", f"one_more,{content}", "csv")
    assert caught.value.code == "too_large"


@pytest.mark.usefixtures("imports")
def test_missing_fields_of_messages_are_filled_in_from_files_too(app: App) -> None:
    content = "role,content,timestamp\nuser,a,\nuser,b,2026-01-31T10:00:00Z\n"
    bring_in(app, "messages", content, "csv")
    found = query_operation(app, "SELECT id, timestamp FROM messages ORDER BY content")
    assert len({row["id"] for row in found}) == 2
    assert found[0]["timestamp"] > "2026" < found[1]["timestamp"] == "2026-01-31T10:00:00.000Z"


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize(
    ("content", "format_"),
    [
        ("cafe\u0301\ne\u0301\n", "csv"),
        ('{"cafe\u0301": "e\u0301"}', "json"),
        ('{"cafe\\u0301": "\\u0065\\u0301"}', "json"),
    ],
)
def test_texts_and_names_of_columns_are_in_nfc(app: App, table: str, content: str, format_: FileFormat) -> None:
    bring_in(app, table, content, format_)
    assert query_operation(app, f"SELECT * FROM {table} WHERE `caf\u00e9` = {{t:String}}", t="\u00e9") == [
        {"caf\u00e9": "\u00e9"}
    ]


@pytest.mark.usefixtures("imports")
def test_texts_in_a_parquet_file_and_inside_of_objects_are_in_nfc(app: App, data_dir: Path, table: str) -> None:
    put(app, table, [{"n": 1}])
    query = "SELECT 'e\u0301' AS s, ['e\u0301'] AS l, [NULL, 'e\u0301'] AS m, [1, NULL] AS n"
    app.portals.exports.export_file(CALLER, PORTAL, f"{table}.parquet", "parquet", None, query, lambda *progress: None)
    bring_in(app, f"{table}_p", (data_dir / "exports" / f"{table}.parquet").read_bytes(), "parquet")
    assert query_operation(app, f"SELECT * FROM {table}_p") == [
        {"s": "\u00e9", "l": ["\u00e9"], "m": [None, "\u00e9"], "n": [1, None]}
    ]
    bring_in(app, f"{table}_j", '{"o": {"e\u0301": ["e\\u0301"]}}', "json")
    assert query_operation(app, f"SELECT * FROM {table}_j") == [{"o": {"\u00e9": ["\u00e9"]}}]


def test_a_long_text_is_put_into_nfc_where_it_is_parted_too(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "e\u0301, " * 700_000, encoding="utf-8")
    text_files.normalise(path, is_json=False)
    assert path.read_text(encoding="utf-8") == "a\n" + "\u00e9, " * 700_000


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize(
    ("content", "format_", "message"),
    [
        ("a\n18446744073709551616\n", "csv", "'a' holds a number wider than 64 bits"),
        (f'{{"a": {2**127}}}', "json", "'a' holds a number wider than 128 bits"),
        ("a\n9007199254740993\n1.5\n", "csv", "would round"),
        ('[{"a": 9007199254740993}, {"a": 1.5}]', "json", "would be rounded"),
        ("a\n1.5\nnan\n", "csv", "NaN or infinity"),
        ("a\n1.5\n-inf\n", "csv", "NaN or infinity"),
        ('[{"a": 1.5}, {"a": NaN}]', "json", "Record 2: NaN is not a number"),
        ('[{"a": {"b": [1e999]}}]', "json", "Record 1: 1e999 is too large"),
        ('{"a": 1, "a": 2}', "json", "'a' twice"),
        ('{"e\u0301": 1, "\u00e9": 2}', "json", "'\u00e9' twice"),
        ('[{"a": 1}, {"a": "x"}]', "json", "different types (text, whole)"),
        ('[{"a": 1}, 5]', "json", "record 2 is not an object"),
    ],
)
def test_a_value_that_the_engine_would_change_is_refused(
    app: App, table: str, content: str, format_: FileFormat, message: str
) -> None:
    with pytest.raises(Invalid, match=r"^source: ") as refused:
        bring_in(app, table, content, format_)
    assert message in refused.value.message


@pytest.mark.usefixtures("imports")
@pytest.mark.parametrize(
    ("content", "format_"),
    [
        ("f\n1\n9007199254740993\n", "csv"),
        ("f\n1\nnan\n", "csv"),
        ('[{"f": 1}, {"f": 9007199254740993}]', "json"),
        ('[{"f": 1}, {"f": "nan"}]', "json"),
        ("n\n1\nx\n", "csv"),
        (f"n\n1\n{2**127}\n", "csv"),
        (json.dumps([{"n": 1}, {"n": 2**127}]), "json"),
        ('[{"n": 1}, {"n": true}]', "json"),
        ('[{"s": "1"}, {"s": 2}]', "json"),
    ],
)
def test_a_value_that_does_not_fit_an_existing_column_is_named(app: App, content: str, format_: FileFormat) -> None:
    put(app, "there", [{"n": 1, "f": 1.5, "s": "x"}])
    name = content.strip('[{"')[0]
    with pytest.raises(Invalid, match=f"'{name}' (of record 2 (is .*, which )?does not fit|holds)"):
        bring_in(app, "there", content, format_)
    assert query_operation(app, "SELECT count() AS c FROM there WHERE n <> 1") == [{"c": 0}]


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity", 2**53 + 1, str(2**53 + 1)])
def test_a_column_of_fractions_takes_no_number_that_it_would_change(app: App, table: str, value: Any) -> None:
    put(app, table, [{"f": 1.5}, {"f": 2**60}])
    with pytest.raises(Invalid, match=r"'f' of record 1 is .*, which does not fit Float64"):
        put(app, table, [{"f": 1}, {"f": value}])
    assert len(query_operation(app, f"SELECT f FROM {table}")) == 2
