"""portal_export of all tables as a zip, and portal_import of it."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.bombs import zip_bomb
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import PORTAL, put, query

pytestmark = pytest.mark.anyio

TABLES: dict[str, list[dict[str, Any]]] = {
    "one": [{"id": 1, "text": 'a "b", é', "list": ["x"]}, {"id": 2, "text": None, "list": []}],
    "two": [{"n": 5, "at": "2026-01-31T10:00:00.123Z"}],
}
SINGLE = "mem://tests/single"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "export_quota": 1_000_000, "import_rows": 100_000}


@pytest.fixture(scope="module", autouse=True)
def filled(app: App) -> None:
    for name, records in TABLES.items():
        put(app, name, records)
    put(app, "alone", [{"n": 1}], SINGLE)


@pytest.fixture(autouse=True)
def emptied(data_dir: Path) -> None:
    for path in (data_dir / "exports").rglob("*.*"):
        path.unlink()


def staged(data_dir: Path) -> list[Path]:
    return list((data_dir / "portals" / "tests" / "shared" / "staging").iterdir())


@pytest.mark.parametrize(
    ("format_", "destination", "made_as", "ending"),
    [
        ("json", "all.json", "all.json.zip", "json"),
        ("json", "lines.jsonl.zip", "lines.jsonl.zip", "jsonl"),
        ("csv", "all.ZIP", "all.ZIP", "csv"),
        ("parquet", "all.parquet", "all.parquet.zip", "parquet"),
    ],
)
async def test_several_tables_are_a_zip_with_a_file_for_each(
    client: Client, data_dir: Path, format_: str, destination: str, made_as: str, ending: str
) -> None:
    made = await call(client, "portal_export", portalUri=PORTAL, destination=destination, format=format_)
    content = (data_dir / "exports" / made_as).read_bytes()
    assert made == {
        **{"destination": made_as, "format": format_, "tables": ["one", "two"], "rows": 3},
        **{"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
    }
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert packed.namelist() == [f"one.{ending}", f"two.{ending}"]
        text = packed.read(f"one.{ending}")
    if ending == "json":
        assert json.loads(text) == TABLES["one"]
    elif ending == "jsonl":
        assert [json.loads(line) for line in text.splitlines()] == TABLES["one"]
    assert staged(data_dir) == []


async def test_one_table_is_a_plain_file_by_default(client: Client, data_dir: Path) -> None:
    for destination in ("alone.csv", "alone.zip"):
        made = await call(client, "portal_export", portalUri=SINGLE, destination=destination, format="csv")
        assert (made["destination"], made["tables"], made["rows"]) == (destination, ["alone"], 1)
    assert (data_dir / "exports" / "alone.csv").read_text() == '"n"\n1\n'
    assert zipfile.ZipFile(data_dir / "exports" / "alone.zip").read("alone.csv") == b'"n"\n1\n'


async def test_a_zip_is_under_the_quota_and_leaves_nothing_if_it_is_too_large(
    client: Client, app: App, data_dir: Path
) -> None:
    put(app, "wide", [{"text": hashlib.sha256(str(number).encode()).hexdigest()} for number in range(30_000)])
    refused = await refusal(client, "portal_export", portalUri=PORTAL, destination="large.zip", format="csv")
    assert refused["error"] == "too_large"
    assert (list((data_dir / "exports").iterdir()), staged(data_dir)) == ([], [])
    await call(client, "portal_delete", portalUri=PORTAL, table="wide", confirm=True)


async def test_a_zip_is_downloaded_piece_by_piece(client: Client) -> None:
    made = await call(client, "portal_export", portalUri=PORTAL, destination="downloads/x.zip", format="csv")
    piece = await call(client, "portal_download", destination="downloads/x.zip")
    assert (piece["bytes"], piece["done"]) == (made["bytes"], True)


# Import


def put_zip(data_dir: Path, files: dict[str, bytes | str], name: str = "in.zip", **more: Any) -> None:
    (data_dir / "imports").mkdir(exist_ok=True)
    with zipfile.ZipFile(data_dir / "imports" / name, "w", **more) as packed:
        for file, content in files.items():
            packed.writestr(file, content)


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
async def test_an_exported_zip_is_imported_unchanged(client: Client, data_dir: Path, format_: str) -> None:
    made = await call(client, "portal_export", portalUri=PORTAL, destination=f"all.{format_}.zip", format=format_)
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / "back.zip").write_bytes((data_dir / "exports" / made["destination"]).read_bytes())
    given = {"portalUri": "mem://tests/back", "source": "back.zip", "format": format_, "onConflict": "replace"}
    answer = await call(client, "portal_import", **given)
    assert answer == {"portalUri": "mem://tests/back", "table": "one, two", "imported": 3}
    for name, records in TABLES.items():
        assert await query(client, f"SELECT * FROM {name} ORDER BY 1", portal="mem://tests/back") == records
    assert list((data_dir / "portals" / "tests" / "back" / "staging").iterdir()) == []


async def test_the_files_of_a_zip_come_together_or_not_at_all(client: Client, data_dir: Path, table: str) -> None:
    portal = f"mem://tests/{table}"
    put_zip(data_dir, {"folder/a.csv": "n\n1\n", "folder/b.csv": "n\n2\n", "__MACOSX/._a.csv": "x"})
    given = {"portalUri": portal, "source": "in.zip", "format": "csv"}
    for _ in range(2):  # rows are appended, also to the tables of the first
        assert (await call(client, "portal_import", **given))["imported"] == 2
    rows = "SELECT n FROM (SELECT n FROM a UNION ALL SELECT n FROM b) ORDER BY n"
    assert await query(client, rows, portal=portal) == [
        {"n": 1},
        {"n": 1},
        {"n": 2},
        {"n": 2},
    ]
    before = (await call(client, "portal_view", portalUri=portal))["tables"]
    refused = await refusal(client, "portal_import", **given, onConflict="refuse")
    assert (refused["error"], refused["data"]["tables"]) == ("conflict", ["a", "b"])
    put_zip(data_dir, {"a.csv": "n,new\n3,x\n", "c.csv": "n\n3\n", "b.csv": "n\nno number\n"})
    refused = await refusal(client, "portal_import", **given)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "source")
    assert (await call(client, "portal_view", portalUri=portal))["tables"] == before
    put_zip(data_dir, {"a.csv": "n,new\n3,x\n", "b.csv": "n\n4\n"})
    assert (await call(client, "portal_import", **given, table="b", onConflict="replace"))["imported"] == 1
    assert await query(client, "SELECT n FROM b", portal=portal) == [{"n": 4}]


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"a.txt": "x"}, "invalid", "no ending of a csv file"),
        ({"../a b.csv": "n\n1\n"}, "invalid", "no table can have the name"),
        ({"_mcp_metadata.csv": "n\n1\n"}, "invalid", "no table can have the name"),
        ({"a.csv": "n\n1\n", "x/a.csv": "n\n1\n"}, "invalid", "two files for the table 'a'"),
        ({}, "invalid", "no csv file"),
        ({f"t{number}.csv": "n\n1\n" for number in range(1001)}, "too_large", "more than 1000 files"),
        (zip_bomb((f"t{number}.csv" for number in range(8)), megabytes=150), "too_large", "unpacks to too much"),
        ({"a.csv": "n\n" + "1\n" * 60_000, "b.csv": "n\n" + "1\n" * 60_000}, "too_large", "holds too much"),
    ],
)
async def test_a_zip_that_holds_something_else_or_too_much_is_refused(
    client: Client, data_dir: Path, files: dict[str, bytes | str] | bytes, error: str, message: str
) -> None:
    if isinstance(files, bytes):
        (data_dir / "imports").mkdir(exist_ok=True)
        (data_dir / "imports" / "in.zip").write_bytes(files)
    else:
        put_zip(data_dir, files, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    portal = "mem://tests/refused"
    refused = await refusal(client, "portal_import", portalUri=portal, source="in.zip", format="csv")
    assert (refused["error"], refused["data"], message in refused["message"]) == (error, {"field": "source"}, True)
    assert (await refusal(client, "portal_view", portalUri=portal))["error"] == "not_found"


async def test_an_incomplete_zip_is_refused(client: Client, data_dir: Path) -> None:
    put_zip(data_dir, {"a.csv": "n\n" + "1\n" * 1000}, compression=zipfile.ZIP_DEFLATED)
    whole = (data_dir / "imports" / "in.zip").read_bytes()
    encrypted = bytearray(whole)
    encrypted[6] |= 1  # of its header, and of the directory
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    for content in (b"n\n1\n", whole[:-30], whole[:40] + b"\xff\xff" + whole[42:], bytes(encrypted)):
        (data_dir / "imports" / "in.zip").write_bytes(content)
        refused = await refusal(client, "portal_import", portalUri=SINGLE, source="in.zip", format="csv")
        assert (refused["error"], "not a zip" in refused["message"]) == ("invalid", True)
    refused = await refusal(
        client, "portal_import", portalUri=SINGLE, source="in.zip", format="csv", mapping={"a": "b"}
    )
    assert refused["data"]["field"] == "mapping"
