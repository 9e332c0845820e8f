"""What a caller chooses for the columns of a file: names and types, with a preview before."""

import base64
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.families.portals.model import FileFormat
from tests.families.notes.calls import call, refusal
from tests.families.portals.calls import PORTAL, query, tables, types, write

pytestmark = pytest.mark.anyio

CSV = "zip code,when,amount\n01234,2026-01-31,7\n99999,2026-02-01,8\n"
JSON = '[{"code": 7, "flag": true, "day": "2026-01-31"}, {"code": "x8", "flag": false, "day": null}]'


@pytest.fixture(scope="module")
def imports(data_dir: Path) -> Path:
    (data_dir / "imports").mkdir(exist_ok=True)
    return data_dir / "imports"


async def preview(client: Client, source: str, format_: FileFormat, **more: Any) -> dict[str, Any]:
    return await call(client, "portal_preview", portalUri=PORTAL, source=source, format=format_, **more)


async def test_a_preview_shows_columns_and_rows_and_changes_nothing(client: Client, imports: Path, table: str) -> None:
    await write(client, "always", {"n": 1})
    (imports / f"{table}.csv").write_text(CSV, encoding="utf-8")
    refused = await refusal(
        client, "portal_preview", portalUri=PORTAL, source=f"uploads/../{table}.csv", format="csv", table=table
    )
    assert refused["message"] == "source: only an uploaded file has a preview. Upload it."
    data = base64.b64encode(CSV.encode()).decode()
    source = (await call(client, "portal_upload", name=f"{table}.csv", data=data))["source"]
    shown = await preview(client, source, "csv")
    assert shown["columns"] == [
        {"name": "zip code", "column": "zip code", "type": "String"},
        {"name": "when", "column": "when", "type": "Date"},
        {"name": "amount", "column": "amount", "type": "Int64"},
    ]
    assert shown["rows"] == [["01234", "2026-01-31", "7"], ["99999", "2026-02-01", "8"]]
    chosen = await preview(client, source, "csv", mapping={"zip code": "zip"}, types={"amount": "Float64"})
    assert [(one["column"], one["type"]) for one in chosen["columns"]] == [
        ("zip", "String"),
        ("when", "Date"),
        ("amount", "Float64"),
    ]
    assert table not in await tables(client)
    assert (imports / source).exists()


async def test_an_import_takes_names_and_types(client: Client, imports: Path, table: str) -> None:
    (imports / f"{table}.csv").write_text(CSV, encoding="utf-8")
    given = {"portalUri": PORTAL, "source": f"{table}.csv", "format": "csv"}
    await call(
        client, "portal_import", **given, mapping={"zip code": "zip"}, types={"amount": "String", "when": "Date"}
    )
    assert await types(client, table) == {
        "zip": "Nullable(String)",
        "when": "Nullable(Date32)",
        "amount": "Nullable(String)",
    }
    assert await query(client, f"SELECT zip, amount FROM {table} ORDER BY zip LIMIT 1") == [
        {"zip": "01234", "amount": "7"}
    ]


async def test_mixed_values_of_json_become_text_if_the_caller_says_so(
    client: Client, imports: Path, table: str
) -> None:
    (imports / f"{table}.json").write_text(JSON, encoding="utf-8")
    given = {"portalUri": PORTAL, "source": f"{table}.json", "format": "json"}
    refused = await refusal(client, "portal_import", **given)
    assert "'code' holds values of different types" in refused["message"]
    await call(client, "portal_import", **given, types={"code": "String", "flag": "String"})
    found = await query(client, f"SELECT code, flag FROM {table} ORDER BY code")
    assert found == [{"code": "7", "flag": "true"}, {"code": "x8", "flag": "false"}]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"unknown": "String"}, "types: the file has no column 'unknown'. It has: zip code, when, amount."),
        ({"when": "Int64"}, "source: 'when' of record 1 does not fit Int64. Nothing was imported."),
        ({"amount": "Money"}, "types"),
    ],
)
async def test_types_that_do_not_fit_are_refused(
    client: Client, imports: Path, table: str, chosen: dict[str, str], message: str
) -> None:
    (imports / f"{table}.csv").write_text(CSV, encoding="utf-8")
    given = {"portalUri": PORTAL, "source": f"{table}.csv", "format": "csv"}
    refused = await refusal(client, "portal_import", **given, types=chosen)
    assert refused["error"] == "invalid"
    assert message in refused["message"]
    assert table not in await tables(client)


async def test_a_column_of_a_table_keeps_its_type(client: Client, imports: Path, table: str) -> None:
    await write(client, table, {"amount": 1})
    (imports / f"{table}.csv").write_text(CSV, encoding="utf-8")
    given = {"portalUri": PORTAL, "source": f"{table}.csv", "format": "csv"}
    refused = await refusal(client, "portal_import", **given, types={"amount": "String"})
    assert "types: the table has a column 'amount' of type Int64." in refused["message"]
    await call(client, "portal_import", **given, types={"amount": "Int64"})
    assert (await types(client, table))["amount"] == "Nullable(Int64)"


async def test_a_type_for_a_column_without_a_name_is_refused(client: Client, table: str) -> None:
    source = await upload(client, f"{table}.json", b'[{"a": 1}]')
    for tool in ("portal_preview", "portal_import"):
        refused = await refusal(
            client, tool, portalUri=PORTAL, source=source, format="json", table=table, types={"": "String"}
        )
        assert refused["message"] == "types: the file has no column ''. It has: a."


async def test_a_preview_of_half_a_surrogate_pair_is_refused(client: Client, table: str) -> None:
    source = await upload(client, f"{table}.json", b'[{"a": "\\ud800"}]')
    refused = await refusal(client, "portal_preview", portalUri=PORTAL, source=source, format="json", table=table)
    assert (refused["error"], refused["message"]) == ("invalid", "source: 'a' of record 1 does not fit its column.")


async def test_an_error_does_not_quote_names_of_any_length(client: Client, table: str) -> None:
    source = await upload(client, f"{table}.json", b'[{"%s": 1}]' % (b"x" * 500_000))
    for choices in ({"mapping": {"a": "b"}}, {"types": {"a": "String"}}):
        refused = await refusal(
            client, "portal_preview", portalUri=PORTAL, source=source, format="json", table=table, **choices
        )
        assert len(refused["message"]) < 1000


async def upload(client: Client, name: str, content: bytes) -> str:
    data = base64.b64encode(content).decode()
    return str((await call(client, "portal_upload", name=name, data=data))["source"])
