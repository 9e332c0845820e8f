"""Files that attack the process that reads them: the server stays small and answers, and nothing is imported."""

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memory_mcp.app import App
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.errors import Invalid
from memory_mcp.families.portals import storage
from tests.families.portals.calls import CALLER, PORTAL, put
from tests.families.portals.test_files import _raw
from tests.wire import Stdio

MAX_GROWTH_KB = 150_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "imports").mkdir()
    limits = {"--import-expanded-bytes": 50_000_000, "--import-rows": 500_000, "--import-seconds": 60}
    flags = [str(part) for pair in limits.items() for part in pair]
    server = Stdio.start(folder, "--families", "portals", "--embedder", "none", *flags)
    server.call("portal_write", portalUri=PORTAL, table="mine", data=[{"n": 1}])
    yield server
    server.kill()


@pytest.fixture(scope="module")
def imports(server: Stdio) -> Path:
    args: Any = server.process.args
    return Path(args[args.index("--data-dir") + 1]) / "imports"


def peak_kb(server: Stdio) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert found is not None
    return int(found[1])


def post_import(server: Stdio, source: str, format_: str, **more: Any) -> int:
    arguments = {"portalUri": PORTAL, "source": source, "format": format_, **more}
    return server.post("tools/call", {"name": "portal_import", "arguments": arguments})


def refusals(server: Stdio, *ids: int) -> list[dict[str, Any]]:
    """The errors of calls that must be refused, in any order."""
    found: list[dict[str, Any]] = []
    while len(found) < len(ids):
        if (message := server.receive()).get("id") in ids:
            assert message["result"]["isError"], message
            found.append(message["result"]["structuredContent"])
    return found


def check_unharmed(server: Stdio, before_kb: int) -> None:
    view = server.call("portal_view", portalUri=PORTAL)
    assert [(table["name"], table["rows"]) for table in view["tables"]] == [("mine", 1)]
    assert peak_kb(server) - before_kb < MAX_GROWTH_KB


def tar(*entries: bytes) -> bytes:
    made = b"".join(entries)
    return made + bytes(2 * tarfile.BLOCKSIZE + -(len(made) + 2 * tarfile.BLOCKSIZE) % tarfile.RECORDSIZE)


@pytest.mark.parametrize("hole", [1_500_000_000, 2**50])
def test_holes_in_a_portal_file_are_never_read(server: Stdio, imports: Path, hole: int) -> None:
    """Eight at a time, as many as this server imports at once."""
    before = peak_kb(server)
    sparse = _raw(archive.MANIFEST, tarfile.GNUTYPE_SPARSE, b"", hole=hole)
    other = _raw("data/x", tarfile.GNUTYPE_SPARSE, b"", hole=hole)
    (imports / "hole.db").write_bytes(tar(other, sparse))
    answers = refusals(server, *(post_import(server, "hole.db", "db") for _ in range(8)))
    assert {one["error"] for one in answers} <= {"invalid", "unavailable"}
    assert "invalid" in {one["error"] for one in answers}
    check_unharmed(server, before)


def export(server: Stdio, imports: Path, name: str, query: str) -> None:
    """A file that this server has made itself."""
    server.call("portal_export", portalUri=PORTAL, destination=name, format=name.split(".")[1], query=query)
    (imports.parent / "exports" / name).rename(imports / name)


BOMBS = {
    "long texts": "SELECT repeat('a', 1000000) AS t FROM numbers(100)",
    "many rows": "SELECT 1 AS n FROM numbers(600000)",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_parquet_file_that_becomes_large_is_refused(server: Stdio, imports: Path, kind: str) -> None:
    export(server, imports, "bomb.parquet", BOMBS[kind])
    assert (imports / "bomb.parquet").stat().st_size < 1_000_000
    before = peak_kb(server)
    (refused,) = refusals(server, post_import(server, "bomb.parquet", "parquet"))
    assert (refused["error"], refused["data"]["field"]) == ("too_large", "source")
    assert "50000000 bytes" in refused["message"]
    check_unharmed(server, before)


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "import_expanded_bytes": 50_000_000}


def test_nothing_of_a_file_that_becomes_too_large_is_written(
    app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 GB of texts take the engine a second to read, and minutes to write."""
    put(app, "mine", [{"n": 1}])
    app.portals.exports.export_file(
        CALLER, PORTAL, "x.parquet", "parquet", None, BOMBS["long texts"], lambda *progress: None
    )
    (data_dir / "exports").rename(data_dir / "imports")
    written: list[Any] = []
    monkeypatch.setattr(storage, "load_file", lambda *arguments: written.append(arguments))
    with pytest.raises(Invalid) as caught:
        app.portals.imports.import_file(CALLER, PORTAL, "x.parquet", "parquet", None, lambda *progress: None)
    assert caught.value.code == "too_large"
    assert written == []


JSON: dict[str, Callable[[], str]] = {
    "a column a record": lambda: "\n".join(f'{{"c{number}": 1}}' for number in range(200_000)),
    "one long text": lambda: '[{"a": "' + "x" * 28_000_000 + '"}]',
    "empty records of many columns": lambda: json.dumps({f"c{number}": 1 for number in range(1000)}) + "{}\n" * 100_000,
    "empty records": lambda: "".join(("[", '{"a": 1}', ",{}" * 600_000, "]")),
}


@pytest.mark.parametrize("kind", JSON)
def test_a_json_file_is_never_in_the_servers_memory(server: Stdio, imports: Path, kind: str) -> None:
    (imports / "large.json").write_text(JSON[kind]())
    before = peak_kb(server)
    (refused,) = refusals(server, post_import(server, "large.json", "json"))
    assert (refused["error"], refused["data"]["field"]) == ("too_large", "source")
    check_unharmed(server, before)


@pytest.mark.parametrize(
    ("names", "error"), [("a," * 5000 + "b", "too_large"), ('"' + "x" * 2_000_000 + '"', "invalid")]
)
def test_a_csv_file_has_only_so_many_names_of_columns(server: Stdio, imports: Path, names: str, error: str) -> None:
    (imports / "wide.csv").write_text(f"{names}\n1\n")
    before = peak_kb(server)
    (refused,) = refusals(server, post_import(server, "wide.csv", "csv"))
    assert (refused["error"], refused["data"]["field"]) == (error, "source")
    check_unharmed(server, before)


def test_a_csv_file_with_far_more_values_than_it_is_long_is_refused(server: Stdio, imports: Path) -> None:
    """A line of a file need not have all its columns."""
    names = ",".join(f"c{number}" for number in range(3000))
    (imports / "sparse.csv").write_text(f"{names}\n" + "\n" * 400_000)
    before = peak_kb(server)
    (refused,) = refusals(server, post_import(server, "sparse.csv", "csv"))
    assert refused["error"] in ("too_large", "invalid")
    check_unharmed(server, before)


def test_a_portal_file_whose_tables_hold_too_much_is_refused(server: Stdio, imports: Path) -> None:
    portal = "mem://tests/large"
    export(server, imports, "rows.parquet", "SELECT repeat('a', 1000000) AS t FROM numbers(40)")
    for _ in range(2):
        imported = server.call("portal_import", portalUri=portal, source="rows.parquet", format="parquet")
        assert imported["imported"] == 40
    exported = server.call("portal_export", portalUri=portal, destination="large.db", format="db")
    assert "error" not in exported
    (imports.parent / "exports" / "large.db").rename(imports / "large.db")
    before = peak_kb(server)
    (refused,) = refusals(server, post_import(server, "large.db", "db"))
    assert (refused["error"], refused["data"]["field"]) == ("too_large", "source")
    check_unharmed(server, before)


def forge(imports: Path, folder: Path, *statements: str) -> None:
    """A sealed portal file with a table t, made by these statements as another program would."""
    line = EngineConnections(folder, {"max_execution_time": 5})
    for statement in (
        "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n",
        "INSERT INTO t VALUES (1)",
        *statements,
    ):
        line.run(statement)
    made = folder / "staging" / "forged.tar"
    storage.back_up(line, str(made), is_paced=False)
    line.end_engine()
    archive.seal(made, {"metadata": {}, "tables": {"t": 1}})
    made.rename(imports / "forged.db")


def test_a_long_default_counts_for_each_row_that_has_no_value(server: Stdio, imports: Path, tmp_path: Path) -> None:
    """A column that was added later takes up no space in the file."""
    forge(
        imports,
        tmp_path / "made",
        "INSERT INTO t SELECT number FROM numbers(1000)",
        f"ALTER TABLE t ADD COLUMN long String DEFAULT '{'x' * 100_000}'",
    )
    before = peak_kb(server)
    (refused,) = refusals(server, post_import(server, "forged.db", "db"))
    assert (refused["error"], refused["data"]["field"]) == ("too_large", "source")
    check_unharmed(server, before)


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ("String", "SELECT toString(number), repeat('x', 1000), now() FROM numbers(40000)"),
        ("Int64", "SELECT 'mcp.portal.name', 5, now()"),
        ("Array(String)", "SELECT 'mcp.portal.name', ['a'], now()"),
        ("Nullable(String)", "SELECT 'mcp.portal.name', NULL, now()"),
        ("String", "SELECT 'mcp.portal.name', unhex('eda080'), now()"),
        ("String", "SELECT 'mcp.portal.description', repeat('x', 1000000), now()"),
    ],
)
def test_metadata_of_any_size_and_type_do_no_harm(
    server: Stdio, imports: Path, tmp_path: Path, value: str, rows: str
) -> None:
    """Only what a portal is called is read of them."""
    columns = f"(key String, value {value}, updated_at DateTime64(3)) ENGINE = MergeTree ORDER BY key"
    forge(imports, tmp_path / "made", f"CREATE TABLE _mcp_metadata {columns}", f"INSERT INTO _mcp_metadata {rows}")
    portal = f"mem://tests/forged-{uuid4().hex[:8]}"
    before = peak_kb(server)
    answer = server.call("portal_import", portalUri=portal, source="forged.db", format="db")
    assert answer == {"portalUri": portal, "table": "t", "imported": 1}
    assert peak_kb(server) - before < 20_000
    assert server.call("portal_delete", portalUri=portal, confirm=True)["deleted"] == 1


def test_an_import_that_takes_too_long_ends_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "imports").mkdir()
    server = Stdio.start(tmp_path, "--families", "portals", "--embedder", "none", "--import-seconds", "1")
    try:
        server.call("portal_write", portalUri=PORTAL, table="mine", data=[{"n": 1}])
        lines = (f'{{"a{number % 1000}": "{number}"}}' for number in range(300_000))
        (tmp_path / "imports" / "slow.json").write_text("\n".join(lines))
        (refused,) = refusals(server, post_import(server, "slow.json", "json"))
        assert (refused["error"], refused["data"]["field"]) == ("timeout", "source")
        check_unharmed(server, peak_kb(server))
        assert not list((tmp_path / "portals" / "tests" / "shared" / "staging").iterdir())
    finally:
        server.kill()
