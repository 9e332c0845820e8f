"""portal_export of all tables as a zip."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.notes.calls import call, refusal
from tests.portals.calls import PORTAL, put

pytestmark = pytest.mark.anyio

TABLES: dict[str, list[dict[str, Any]]] = {
    "one": [{"id": 1, "text": 'a "b", é', "list": ["x"]}, {"id": 2, "text": None, "list": []}],
    "two": [{"n": 5, "at": "2026-01-31T10:00:00.123Z"}],
}
SINGLE = "mem://tests/single"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "export_quota": 1_000_000}


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


async def test_one_table_is_a_file_unless_a_zip_is_asked_for(client: Client, data_dir: Path) -> None:
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
