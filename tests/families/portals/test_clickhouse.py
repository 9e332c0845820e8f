"""Portals on the ClickHouse server that MEMORY_MCP_TEST_PORTALS_URL names, or else on one over chDB.

`make test-portals-url` runs the other tests of portals there, too.
"""

import csv
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from clickhouse_connect import get_client
from clickhouse_connect.driver.exceptions import DatabaseError

from memory_mcp import settings
from memory_mcp.app import App, backup_of, open_app, open_maintenance
from memory_mcp.caller import ALL_SCOPES, Caller
from memory_mcp.engines.clickhouse.address import ClickHouseAddress
from memory_mcp.engines.clickhouse.server import ReaderConnection
from memory_mcp.errors import Invalid, NotFound, Unavailable, Unusable
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.server_portals import ServerPortal
from tests.clickhouse import clickhouse_over_chdb
from tests.events import eventually
from tests.families.portals.calls import CALLER, PORTAL

LONG = "SELECT count() FROM numbers(1000000000000) WHERE sin(number) > 2"
ANN, BOB = (Caller(name, ALL_SCOPES, frozenset({"portals"})) for name in ("ann", "bob"))


@pytest.fixture(scope="module")
def server_url(portals_url: str | None) -> Iterator[str]:
    if portals_url:
        yield portals_url.rpartition("/")[0]
        return
    with clickhouse_over_chdb() as url:
        yield url


@pytest.fixture
def url(server_url: str) -> str:
    """With names of this test's own."""
    return f"{server_url}/t_{uuid4().hex[:8]}"


def opened(folder: Path, url: str, **options: Any) -> Any:
    chosen = {"data_dir": folder, "embedder": "none", "families": "portals", "portals_url": url, **options}
    return open_app(settings.load(chosen, environ={}).settings, serving=False)


@pytest.fixture
def app(tmp_path: Path, url: str) -> Iterator[App]:
    with opened(tmp_path, url, portal_seconds=60) as app:
        yield app


@pytest.fixture
def portals(app: App) -> Portals:
    return app.portals


def rows(portals: Portals, sql: str, caller: Caller = CALLER, **parameters: Any) -> list[Any]:
    return list(portals.query(caller, PORTAL, sql, parameters).rows)


def test_records_are_written_queried_widened_and_deleted(portals: Portals) -> None:
    portals.write(CALLER, PORTAL, "words", [{"id": 1, "word": "one"}, {"id": 2, "word": "tab\tline\n'\\"}])
    assert rows(portals, "SELECT id FROM portal.words WHERE word = {w:String}", w="tab\tline\n'\\") == [{"id": 2}]

    portals.write(CALLER, PORTAL, "words", [{"id": 3, "n": 1}])
    written = portals.write(CALLER, PORTAL, "words", [{"id": 4, "n": 1.5}])
    assert written.notice == "The column 'n' is now Float64; it was Int64."

    assert portals.delete(CALLER, PORTAL, "words", {"id": {"lte": 2}}, confirm=False).deleted == 2
    assert rows(portals, "SELECT * FROM words ORDER BY id") == [
        {"id": 3, "word": None, "n": 1},
        {"id": 4, "word": None, "n": 1.5},
    ]
    with pytest.raises(Invalid, match="'id' of record 0"):
        portals.write(CALLER, PORTAL, "words", [{"id": "five"}])
    assert portals.view(CALLER, PORTAL).stats.rows == 2


def test_servers_that_share_no_files_have_the_same_portals(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "one", url) as one, opened(tmp_path / "two", url) as two:
        one.portals.write(CALLER, PORTAL, "t", [{"n": 1}], name="Numbers", description="Some")
        version = two.portals.all(CALLER)[0].version()
        two.portals.write(CALLER, PORTAL, "t", [{"n": 2, "more": "x"}])

        [portal] = one.portals.all(CALLER)
        assert (portal.labels().name, portal.labels().description) == ("Numbers", "Some")
        assert portal.version() != version
        assert rows(one.portals, "SELECT n, more FROM t ORDER BY n") == [{"n": 1, "more": None}, {"n": 2, "more": "x"}]
        noted = {row["key"]: row["value"] for row in rows(two.portals, "SELECT key, value FROM _mcp_metadata")}
        assert noted["mcp.portal.id"] == "tests/shared"
        assert noted["mcp.schema.t"].startswith("CREATE TABLE portal.t")

        two.portals.delete(CALLER, PORTAL, None, None, confirm=True)
        assert one.portals.all(CALLER) == []
        with pytest.raises(NotFound):
            one.portals.query(CALLER, PORTAL, "SELECT 1", {})


def test_a_refused_first_write_leaves_no_portal(portals: Portals) -> None:
    with pytest.raises(Invalid):
        portals.write(CALLER, PORTAL, "t", [{}])
    assert portals.all(CALLER) == []


def databases(url: str) -> list[str]:
    """All that were made with an address."""
    address = ClickHouseAddress.parse(url)
    client = get_client(host=address.host, port=address.port, username=address.user, password=address.password)
    names = [name for (name,) in client.query("SELECT name FROM system.databases").result_rows]
    client.close()
    return [name for name in names if name.startswith(address.prefix)]


HOSTILE = [
    "SELECT * FROM {other}.secrets",
    "SELECT * FROM `{other}`.`secrets`",
    "SELECT * FROM merge('{other}', '.*')",
    "SELECT * FROM remote('127.0.0.1', '{other}', 'secrets')",
    "SELECT * FROM cluster('default', '{other}', 'secrets')",
    "SELECT * FROM url('http://127.0.0.1/', 'CSV', 'x String')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString', 'x String')",
    "SELECT * FROM mysql('127.0.0.1:1', '{other}', 'secrets', 'u', 'p')",
    "SELECT dictGet('{other}.secrets', 'x', 1)",
    "SELECT * FROM system.databases",
    "SELECT * FROM system.tables",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.processes",
    "SELECT * FROM INFORMATION_SCHEMA.TABLES",
    "SELECT 1 SETTINGS max_execution_time = 0",
    "SELECT * FROM secrets SETTINGS readonly = 0",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "SELECT * FROM (SELECT * FROM {other}.secrets)",
    "SELECT 1 WHERE 1 IN {other}.secrets",
    "WITH x AS (SELECT * FROM {other}.secrets) SELECT * FROM x",
    "SELECT hasColumnInTable('{other}', 'secrets', 'word')",
    "INSERT INTO {other}.secrets VALUES ('x')",
    "DROP DATABASE {other}",
    "GRANT SELECT ON *.* TO CURRENT_USER",
    "SET ROLE ALL",
    "KILL QUERY WHERE 1",
]


def test_another_user_of_the_same_portal_name_reaches_nothing(portals: Portals, url: str) -> None:
    portals.write(ANN, PORTAL, "secrets", [{"word": "topsecret"}])
    [of_ann] = databases(url)
    portals.write(BOB, PORTAL, "mine", [{"word": "harmless"}])

    assert [rows(portals, "SELECT word FROM mine", BOB), len(portals.all(BOB))] == [[{"word": "harmless"}], 1]
    for form in (*HOSTILE, "SELECT * FROM secrets", "SELECT * FROM portal.secrets"):
        sql = form.replace("{other}", of_ann)
        with pytest.raises((Invalid, NotFound)) as refused:
            portals.query(BOB, PORTAL, sql, {})
        assert "topsecret" not in str(refused.value), sql
        assert of_ann in sql or of_ann not in str(refused.value), sql
    portals.delete(BOB, PORTAL, None, None, confirm=True)
    assert rows(portals, "SELECT word FROM secrets", ANN) == [{"word": "topsecret"}]


READABLE = (
    *("INFORMATION_SCHEMA", "system.", "SETTINGS max_execution_time", "hasColumnInTable", "INTO OUTFILE"),
    *("SET ROLE", "KILL QUERY"),
)
"""What the server itself lets a reader do. It shows only what this reader may see, caps settings, forgets a role with
the request, and stops queries of this reader alone."""


def test_past_the_policy_the_server_itself_lets_a_reader_read_its_own_database_only(app: App, url: str) -> None:
    app.portals.write(ANN, PORTAL, "secrets", [{"word": "topsecret"}])
    app.portals.write(BOB, PORTAL, "mine", [{"word": "harmless"}])
    folder = app.portals.all(BOB)[0]
    assert isinstance(folder, ServerPortal)
    server = folder.engine._server
    (of_ann,) = set(databases(url)) - {folder.database}
    limits = {"max_execution_time": 60}
    reader = ReaderConnection(server, folder.database, server.address.tenant("bob"), limits, lambda: None)
    assert reader.run("SELECT word FROM mine", {}) == b"harmless\n"

    for sql in [form.replace("{other}", of_ann) for form in HOSTILE]:
        try:
            answer = reader.run(sql, {})
        except DatabaseError as exc:
            assert exc.code, sql  # noqa: PT017
        else:
            assert any(words in sql for words in READABLE), sql
            assert b"topsecret" not in answer
            assert of_ann.encode() not in answer, sql


def test_the_data_of_a_removed_user_leaves_the_server(app: App, url: str) -> None:
    app.portals.write(ANN, PORTAL, "secrets", [{"word": "topsecret"}])
    app.portals.write(BOB, PORTAL, "mine", [{"word": "harmless"}])
    app.access.delete_data("ann")

    assert len(databases(url)) == 1
    assert rows(app.portals, "SELECT word FROM mine", BOB) == [{"word": "harmless"}]
    with pytest.raises(NotFound):
        app.portals.query(ANN, PORTAL, "SELECT 1", {})


def test_a_portal_left_in_files_is_named_and_not_opened(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "portals" / "tests" / "shared"
    folder.mkdir(parents=True)
    (folder / "portal.json").write_text('{"tables": []}')
    with opened(tmp_path, url) as app:
        assert app.portals.all(CALLER) == []
        left_out = backup_of(app).make(tmp_path / "b.zip").left_out
    assert [(one.path, "without --portals-url" in one.why) for one in left_out] == [("portals/tests/shared.db", True)]


def test_the_doctor_says_that_it_does_not_check_them(tmp_path: Path, url: str) -> None:
    with opened(tmp_path, url) as app, open_maintenance(app.settings) as maintenance:
        found = maintenance.doctor.check(repair=False).findings
    assert [one.state for one in found if "ClickHouse server" in one.message] == ["notice"]


def test_a_query_past_its_time_is_stopped_on_the_server(tmp_path: Path, url: str) -> None:
    with opened(tmp_path, url, portal_seconds=1) as app:
        app.portals.write(CALLER, PORTAL, "t", [{"n": 1}])
        with pytest.raises(Invalid) as refused:
            app.portals.query(CALLER, PORTAL, LONG, {})
    assert refused.value.code == "timeout"


def test_a_query_is_killed_on_the_server_when_its_caller_leaves(portals: Portals, url: str) -> None:
    portals.write(CALLER, PORTAL, "t", [{"n": 1}])
    cancelled, failures = threading.Event(), []

    def run() -> None:
        try:
            portals.query(CALLER, PORTAL, LONG, {}, cancelled)
        except Unavailable as exc:
            failures.append(exc)

    address = ClickHouseAddress.parse(url)
    client = get_client(host=address.host, port=address.port, username=address.user, password=address.password)
    running = "SELECT count() FROM system.processes WHERE query LIKE '%sin(number)%' AND query NOT LIKE '%processes%'"
    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: client.command(running) == 1)
    cancelled.set()
    began = time.monotonic()
    thread.join()
    eventually(lambda: client.command(running) == 0)
    client.close()
    assert failures
    assert time.monotonic() - began < 30  # the query itself would take minutes


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_results_are_exported_to_files(portals: Portals, app: App, format_: Any) -> None:
    portals.write(CALLER, PORTAL, "t", [{"n": n, "word": f"w\n{n}"} for n in range(5)])
    done = portals.exports.export_file(
        CALLER, PORTAL, f"t.{format_}", format_, None, "SELECT n, word FROM t WHERE n > 1 ORDER BY n", lambda *_: None
    )
    file = app.settings.data_dir / "exports" / f"t.{format_}"
    assert (done.rows, done.bytes, file.stat().st_mode & 0o777) == (3, file.stat().st_size, 0o600)
    if format_ == "json":
        assert json.loads(file.read_text()) == [{"n": n, "word": f"w\n{n}"} for n in (2, 3, 4)]
    elif format_ == "csv":
        with file.open(newline="") as text:
            assert list(csv.reader(text))[1:] == [[str(n), f"w\n{n}"] for n in (2, 3, 4)]
    else:
        assert file.read_bytes()[:4] == file.read_bytes()[-4:] == b"PAR1"


def test_what_is_not_possible_there_yet_says_so_and_changes_nothing(portals: Portals, app: App) -> None:
    portals.write(CALLER, PORTAL, "t", [{"n": 1}])
    (app.settings.data_dir / "imports").mkdir()
    (app.settings.data_dir / "imports" / "t.csv").write_text("n\n2\n")
    with pytest.raises(Unavailable, match="cannot be imported"):
        portals.imports.import_file(CALLER, PORTAL, "t.csv", "csv", None, lambda *_: None)
    with pytest.raises(Unavailable, match="format db"):
        portals.exports.export_file(CALLER, PORTAL, "t.db", "db", None, None, lambda *_: None)
    assert rows(portals, "SELECT n FROM t") == [{"n": 1}]


def test_while_the_server_does_not_answer_portals_are_unavailable_and_everything_else_starts(tmp_path: Path) -> None:
    with opened(tmp_path, "http://127.0.0.1:1") as app:
        with pytest.raises(Unavailable, match="does not answer"):
            app.portals.write(CALLER, PORTAL, "t", [{"n": 1}])
        with pytest.raises(Unavailable, match="does not answer"):
            app.portals.query(CALLER, PORTAL, "SELECT 1", {})
        with pytest.raises(Unavailable, match="does not answer"):
            app.portals.all(CALLER)


def test_the_wrong_password_is_no_address_of_portals(tmp_path: Path, server_url: str) -> None:
    url = server_url.replace("://", "://default:wrong@")
    with opened(tmp_path, url) as app, pytest.raises(Unavailable, match="or not to this user"):
        app.portals.all(CALLER)


@pytest.mark.parametrize(
    "url", ["http://", "http://host/Prefix", "http://host/a/b", "http://host:port", "https://host?x=1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match=r"http\(s\)://user:password@host:port/prefix"):
        ClickHouseAddress.parse(url)


def test_names_on_the_server_show_no_user_and_never_collide() -> None:
    address = ClickHouseAddress.parse("https://ann:p%40ss@host/team")
    assert (address.user, address.password, address.port) == ("ann", "p@ss", 8443)
    names = {
        address.database(*parts) for parts in (("a", "b", "c"), ("a", "bc", ""), ("ab", "c", ""), ("a", "b.c", "c"))
    }
    assert len(names) == 4
    assert all(name.startswith("team_") and "ann" not in name and len(name) < 100 for name in names)


def test_without_the_driver_the_setting_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
    with pytest.raises(Unusable, match="needs clickhouse-connect"), opened(tmp_path, "http://host"):
        pass


def test_queries_over_several_portals_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(Invalid, match="not possible with --portals-url"),
        opened(tmp_path, "http://host", portal_joins=True),
    ):
        pass
