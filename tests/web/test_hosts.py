"""The seven things the portal viewer's specification wants, in hosts that others wrote."""

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.compatibility.judges import Broken, Judges, installed
from tests.exhaustive import sample
from tests.web import hosts
from tests.web.conftest import PORTAL, REQUIRED, ROWS, Site
from tests.web.hosts import Host
from tests.web.viewer_steps import choose_table, people, write

HOSTS = sample(["Inspector over HTTP", "Inspector over stdio", "AppBridge"], every=2)
# What a host does hardly depends on the format; test_viewer.py has the others, too.
IMPORT_FORMATS = sample(["csv", "json", "parquet"], every=3)
EXPORT_FORMATS = sample(["csv", "json", "parquet", "db"], every=3)  # in several pieces, and in one


@pytest.fixture(scope="session")
def judges() -> Judges:
    try:
        return installed()
    except Broken as exc:
        if os.environ.get(REQUIRED) == "1":
            raise
        pytest.skip(str(exc))


@pytest.fixture(scope="module")
def inspector(judges: Judges, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hosts.Inspector]:
    with hosts.inspector(judges, site, tmp_path_factory.mktemp("inspector")) as started:
        yield started


@pytest.fixture(scope="module", params=HOSTS)
def shown(
    request: pytest.FixtureRequest,
    browser: Browser,
    site: Site,
    judges: Judges,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Host]:
    with hosts.opened_page(browser) as host:
        if request.param == "AppBridge":
            hosts.show_by_app_bridge(host, site, hosts.bundled(judges, tmp_path_factory.mktemp("bridge")))
        else:
            request.getfixturevalue("inspector").show(host, request.param.rpartition(" ")[2].lower())
        yield host


@pytest.fixture
def host(shown: Host, here: Site) -> Iterator[Host]:
    """Fails a test whose app fails or breaks its policy."""
    shown.app.get_by_role("button", name="Data", exact=True).click()
    yield shown
    assert shown.wrong == []


def rows(site: Site, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = site.call(
        "portal_query", portalUri=PORTAL, sql=f"SELECT * FROM {table} ORDER BY id"
    )["rows"]
    return found


def test_1_rows_are_browsed(host: Host) -> None:
    app = host.app
    choose_table(app, "orders")
    expect(app.get_by_text("1–10 of 100,000")).to_be_visible()
    app.get_by_role("button", name="Next page").click()
    expect(app.locator("#row10")).to_contain_text("order 10")
    app.get_by_role("button", name="price").click()
    app.get_by_role("button", name="price").click()
    expect(app.locator("#row0")).to_contain_text("99.9")
    app.get_by_label("Filter buyer").fill("=Dan")
    app.get_by_label("Filter buyer").press("Enter")
    expect(app.get_by_text("1–10 of 25,000")).to_be_visible()
    app.get_by_label("Search all columns").fill("order 99999")
    expect(app.get_by_text("1–1 of 1", exact=True)).to_be_visible()


def test_1_rows_are_scrolled_in_a_large_host(host: Host) -> None:
    choose_table(host.app, "refunds")
    choose_table(host.app, "orders")
    host.app.get_by_role("button", name="Fullscreen", exact=True).click()
    expect(host.app.get_by_text("100,000 rows", exact=True)).to_be_visible()
    host.app.get_by_role("grid").focus()
    host.page.keyboard.press("End")
    expect(host.app.locator(f"#row{ROWS - 1}")).to_contain_text(f"order {ROWS - 1}")
    assert host.app.locator(".grid-body [role=row]").count() < 100
    host.app.get_by_role("button", name="Leave fullscreen").click()
    expect(host.app.get_by_role("button", name="Next page")).to_be_visible()


def test_2_the_schema_is_shown(host: Host) -> None:
    choose_table(host.app, "refunds")
    host.app.get_by_role("button", name="Schema").click()
    expect(host.app.get_by_role("region", name="Columns of refunds")).to_contain_text("order_id")
    expect(host.app.get_by_text("CREATE TABLE")).to_be_visible()
    expect(host.app.get_by_text("refunds.order_id")).to_be_visible()


def test_3_rows_are_deleted_and_restored(host: Host, site: Site) -> None:
    before = rows(site, "refunds")
    choose_table(host.app, "refunds")
    expect(host.app.locator("#row1")).to_contain_text("late")
    host.app.get_by_role("grid").focus()
    for key in ("Space", "ArrowDown", "Space", "Delete"):
        host.page.keyboard.press(key)
    expect(host.app.get_by_text("2 rows deleted")).to_be_visible()
    assert rows(site, "refunds") == before[2:]
    host.app.get_by_role("button", name="Undo").click()
    expect(host.app.get_by_text("2 rows restored")).to_be_visible()
    assert rows(site, "refunds") == before


@pytest.mark.parametrize("format_", IMPORT_FORMATS)
def test_4_files_are_imported_and_3_tables_are_deleted(host: Host, site: Site, tmp_path: Path, format_: str) -> None:
    file = tmp_path / f"people_{format_}.{format_}"
    file.write_bytes(people(site, format_))
    host.app.get_by_label("File to import").set_input_files(file)
    host.app.get_by_role("button", name="Import", exact=True).click()
    expect(host.app.get_by_text(f"Imported 2 rows into people_{format_}")).to_be_visible()
    expect(host.app.locator("#row1")).to_contain_text("Zoë")
    host.app.get_by_role("button", name="Delete table…").click()
    host.app.get_by_label(f"Type people_{format_}").fill(f"people_{format_}")
    host.app.get_by_role("button", name="Delete", exact=True).click()
    expect(host.app.get_by_text(f"The table people_{format_} with 2 rows is deleted")).to_be_visible()


def test_5_a_query_is_run_and_drawn_and_a_bad_one_says_why(host: Host) -> None:
    host.app.get_by_role("button", name="SQL").click()
    editor = host.app.get_by_label("SQL query")
    write(host.page, editor, "SELECT buyer, count() AS n FROM orders GROUP BY buyer ORDER BY buyer")
    host.page.keyboard.press("Control+Enter")
    expect(host.app.get_by_role("img", name="Chart of n by buyer")).to_be_visible()
    host.app.get_by_role("button", name="Table", exact=True).click()
    expect(host.app.get_by_role("region", name="Query result")).to_contain_text("25000")
    write(host.page, editor, "SELECT nothing FROM orders")
    host.app.get_by_role("button", name="Run").click()
    expect(host.app.get_by_role("alert")).to_contain_text("nothing")


def test_6_statistics_are_shown(host: Host) -> None:
    choose_table(host.app, "refunds")
    host.app.get_by_role("button", name="Statistics").click()
    expect(host.app.get_by_text("100,020")).to_be_visible()
    expect(host.app.get_by_role("row", name="reason")).to_contain_text("50 %")


@pytest.mark.parametrize("format_", EXPORT_FORMATS)
def test_7_tables_are_exported_to_a_file_that_the_host_saves(host: Host, tmp_path: Path, format_: str) -> None:
    choose_table(host.app, "orders" if format_ == "csv" else "refunds")
    with host.page.expect_download() as started:
        host.app.get_by_label("Export").select_option(format_)
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    assert is_what_it_says(file)
    expect(host.app.get_by_text(f"Saved {file.name}")).to_be_visible()


def is_what_it_says(file: Path) -> bool:
    content = file.read_bytes()
    if file.suffix == ".csv":
        return content.startswith(b'"id","buyer"') and content.count(b"\n") > ROWS  # too much for one piece
    if file.suffix == ".db":
        return tarfile.is_tarfile(file)
    return len(json.loads(content)) == 20 if file.suffix == ".json" else content.startswith(b"PAR1")


def test_the_inspector_gives_the_viewer_no_origin(host: Host, request: pytest.FixtureRequest) -> None:
    """And so the things above work without storage, cookies and a history."""
    expected = hosts.SANDBOX.rstrip("/") if "AppBridge" in request.node.name else "null"
    assert host.origin == expected
