"""The portal viewer and the seven things its specification wants: in the web app, and in a host that trusts it not."""

import base64
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Download, FrameLocator, Page, expect

from tests.exhaustive import sample
from tests.web.accessibility import assert_accessible
from tests.web.conftest import PORTAL, ROWS, Site, Watched
from tests.web.viewer_steps import choose_table, people, write

APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
STRICT = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'none'; font-src 'none'; "
    "connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'"
)
HOST = Path(__file__).with_name("host.html")


@pytest.fixture
def in_a_host(page: Page, here: Site) -> FrameLocator:
    return shown_in_a_host(page, here, "light")


def shown_in_a_host(page: Page, site: Site, theme: str) -> FrameLocator:
    """The viewer as a host gets it: tool, resource and result over MCP, an opaque origin, the strictest policy."""
    [view] = [tool for tool in listed(site) if tool["name"] == "portal_view"]
    uri = view["_meta"]["ui"]["resourceUri"]
    assert uri == view["_meta"]["ui/resourceUri"]
    assert view["_meta"]["ui/params"] == {"portalUri": "{{portalUri}}"}
    [content] = site.server.modern("resources/read", {"uri": uri})["result"]["contents"]
    assert content["mimeType"] == "text/html;profile=mcp-app"
    policy = f'<head><meta http-equiv="Content-Security-Policy" content="{STRICT}">'
    view = {"name": "portal_view", "arguments": {"portalUri": PORTAL}}
    result = site.server.modern("tools/call", view)["result"]

    def call_tool(params: str) -> str:
        return json.dumps(site.server.modern("tools/call", json.loads(params))["result"])

    page.expose_function("callTool", call_tool)
    page.set_content(HOST.read_text(encoding="utf-8"))
    html = content["text"].replace("<head>", policy, 1)
    page.evaluate("args => window.show(...args)", [html, theme, view["arguments"], result])
    return page.frame_locator("iframe")


def listed(site: Site, **capabilities: Any) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = site.server.modern("tools/list", **{CAPABILITIES: capabilities or APPS})["result"][
        "tools"
    ]
    return tools


def in_the_web_app(page: Page, query: str = "") -> Page:
    page.goto(f"/portals/tests/shop{query}")
    return page


# 1. Data browsing


def test_a_table_of_many_rows_scrolls_and_only_a_few_are_elements(page: Page, here: Site) -> None:
    in_the_web_app(page, "?table=orders")
    grid = page.get_by_role("grid")
    expect(grid).to_have_attribute("aria-rowcount", str(ROWS + 1))
    expect(page.locator("#row3")).to_contain_text("order 3")
    grid.focus()
    page.keyboard.press("End")
    expect(page.locator(f"#row{ROWS - 1}")).to_contain_text(f"order {ROWS - 1}")
    assert page.locator(".grid-body [role=row]").count() < 100


def test_wherever_a_table_is_scrolled_to_the_right_rows_are_there(page: Page, here: Site) -> None:
    in_the_web_app(page, "?table=orders&sort=id")
    expect(page.locator("#row0")).to_contain_text("order 0")
    elements = page.locator("*").count()
    for place, row in ((0.5, ROWS // 2), (1.0, ROWS - 1), (0.25, ROWS // 4), (0.0, 0)):
        page.locator(".grid-scroll").evaluate("(grid, place) => { grid.scrollTop = place * grid.scrollHeight }", place)
        shown = page.locator(f"#row{row}")
        expect(shown).to_contain_text(f"order {row}")
        buyer = ("Ann", "Bob", "Cleo", "Dan")[row % 4]
        assert shown.get_by_role("gridcell").all_inner_texts()[1:3] == [str(row), buyer]
        assert page.locator(".grid-body [role=row]").count() < 100
        assert page.locator("*").count() < elements + 500


def test_rows_are_sorted_filtered_and_searched_by_the_server_and_the_address_says_how(page: Page, here: Site) -> None:
    in_the_web_app(page, "?table=orders")
    page.get_by_role("button", name="price").click()
    page.get_by_role("button", name="price").click()
    expect(page.locator("#row0")).to_contain_text("99.9")
    page.get_by_label("Filter price").fill(">= 99.9")
    page.get_by_label("Filter price").press("Enter")
    expect(page.get_by_text("100 rows", exact=True)).to_be_visible()
    page.get_by_label("Filter buyer").fill("=Dan")
    page.get_by_label("Filter buyer").press("Enter")
    expect(page.get_by_role("grid")).not_to_have_attribute("aria-rowcount", "101")
    page.get_by_label("Search all columns").fill("no such thing")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_text("100,000 rows", exact=True)).to_be_visible()

    in_the_web_app(page, "?table=orders&sort=-id&is.buyer=Cleo")
    expect(page.locator("#row0")).to_contain_text("99998")


def test_messages_are_in_the_order_of_their_times_unless_sorted_otherwise(page: Page, here: Site) -> None:
    order = [5, 1, 8, 3, 7, 2, 6, 4]  # their ids are random
    messages = [{"role": "user", "content": f"message {n}", "timestamp": f"2026-01-0{n}T10:00:00Z"} for n in order]
    here.call("portal_write", portalUri=PORTAL, table="messages", data=messages)
    in_the_web_app(page, "?table=messages")
    for row in range(8):
        expect(page.locator(f"#row{row}")).to_contain_text(f"message {row + 1}")
    page.get_by_role("button", name="content").click()
    page.get_by_role("button", name="content").click()
    expect(page.locator("#row0")).to_contain_text("message 8")


def test_a_host_shows_pages_and_more_at_once_when_it_is_large(page: Page, in_a_host: FrameLocator) -> None:
    choose_table(in_a_host, "orders")
    expect(in_a_host.get_by_text("1–10 of 100,000")).to_be_visible()
    in_a_host.get_by_role("button", name="Next page").click()
    expect(in_a_host.locator("#row10")).to_contain_text("order 10")
    assert page.evaluate("window.origin_of_the_app") == "null"
    in_a_host.get_by_role("button", name="Fullscreen", exact=True).click()
    expect(in_a_host.get_by_text("100,000 rows", exact=True)).to_be_visible()
    in_a_host.get_by_role("grid").focus()
    page.keyboard.press("End")
    expect(in_a_host.locator(f"#row{ROWS - 1}")).to_contain_text(f"order {ROWS - 1}")


# 2. Schema inspection, 6. Statistics


def test_statistics_say_how_much_a_portal_is_used(page: Page, here: Site) -> None:
    before = here.call("portal_view", portalUri=PORTAL)["stats"]["usage"]
    here.call("portal_query", portalUri=PORTAL, sql="SELECT 1")
    here.call("portal_write", portalUri=PORTAL, table="used", data=[{"n": 1}])
    usage = here.call("portal_view", portalUri=PORTAL)["stats"]["usage"]
    assert (usage["reads"], usage["writes"]) == (before["reads"] + 1, before["writes"] + 1)
    in_the_web_app(page, "?tab=statistics")
    facts = page.locator(".facts")
    for name, value in (("Writes", f"{usage['writes']:,}"), ("Last write", usage["lastWrite"][:16].replace("T", " "))):
        expect(facts.locator("div", has=page.get_by_text(name, exact=True))).to_contain_text(value)
    expect(facts.get_by_text("Last read")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_schema_and_statistics_in_a_host(page: Page, here: Site, theme: str) -> None:
    app = shown_in_a_host(page, here, theme)
    choose_table(app, "refunds")
    frame = page.frames[-1]
    assert_accessible(frame)
    app.get_by_role("button", name="Schema").click()
    expect(app.get_by_role("region", name="Columns of refunds")).to_contain_text("order_id")
    expect(app.get_by_text("CREATE TABLE")).to_be_visible()
    expect(app.get_by_text("refunds.order_id")).to_be_visible()
    assert_accessible(frame)
    app.get_by_role("button", name="Statistics").click()
    expect(app.get_by_text("100,020")).to_be_visible()
    expect(app.get_by_role("row", name="reason")).to_contain_text("50 %")
    assert_accessible(frame)
    app.get_by_role("button", name="SQL").click()
    expect(app.get_by_label("SQL query")).to_be_visible()
    assert_accessible(frame)


# 3. Data deletion


@pytest.mark.parametrize("carrier", ["web app", "host"])
def test_rows_are_deleted_by_keyboard_and_come_back(page: Page, here: Site, carrier: str) -> None:
    before = here.call("portal_query", portalUri=PORTAL, sql="SELECT * FROM refunds ORDER BY id")["rows"]
    where = in_the_web_app(page) if carrier == "web app" else shown_in_a_host(page, here, "light")
    choose_table(where, "refunds")
    expect(where.locator("#row1")).to_contain_text("late")
    where.get_by_role("grid").focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("Delete")
    expect(where.get_by_role("status").filter(has_text="2 rows deleted")).to_be_visible()
    expect(where.locator("#row0")).to_contain_text("20")
    where.get_by_role("button", name="Undo").click()
    expect(where.get_by_role("status").filter(has_text="2 rows restored")).to_be_visible()
    assert here.call("portal_query", portalUri=PORTAL, sql="SELECT * FROM refunds ORDER BY id")["rows"] == before


def test_times_and_texts_come_back_as_they_were(page: Page, here: Site) -> None:
    query = {"portalUri": PORTAL, "sql": "SELECT * FROM orders WHERE id < 3 ORDER BY id"}
    before = here.call("portal_query", **query)["rows"]
    in_the_web_app(page, "?table=orders&sort=id")
    page.get_by_label("Select row 1", exact=True).check()
    page.get_by_role("button", name="Delete 1 row").click()
    expect(page.get_by_text("1 row deleted")).to_be_visible()
    assert here.call("portal_query", **query)["rows"] == before[1:]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("1 row restored")).to_be_visible()
    assert here.call("portal_query", **query)["rows"] == before


def test_all_rows_about_one_person_are_selected_and_deleted_with_undo(page: Page, here: Site) -> None:
    rows = [{"id": number, "name": "Zoltan" if number % 2 else "Ann"} for number in range(300)]
    here.call("portal_write", portalUri=PORTAL, table="guests", data=rows)
    query = {"portalUri": PORTAL, "sql": "SELECT name, count() AS n FROM guests GROUP BY name ORDER BY name"}
    before = here.call("portal_query", **query)["rows"]
    in_the_web_app(page, "?table=guests&search=Zoltan")
    expect(page.get_by_text("150 rows", exact=True)).to_be_visible()
    page.get_by_label("Select all rows").check()
    assert_accessible(page)
    page.get_by_role("button", name="Delete 150 rows").click()
    expect(page.get_by_text("150 rows deleted")).to_be_visible()
    assert here.call("portal_query", **query)["rows"] == before[:1]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("150 rows restored")).to_be_visible()
    assert here.call("portal_query", **query)["rows"] == before


def test_a_table_is_deleted_only_if_its_name_is_typed(page: Page, here: Site) -> None:
    here.call("portal_write", portalUri=PORTAL, table="doomed", data=[{"a": 1}])
    in_the_web_app(page, "?table=doomed")
    page.get_by_role("button", name="Delete table…").click()
    expect(page.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    page.get_by_label("Type doomed").fill("doomed")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("The table doomed with 1 row is deleted")).to_be_visible()
    assert "doomed" not in [table["name"] for table in here.call("portal_view", portalUri=PORTAL)["tables"]]


@pytest.mark.parametrize("carrier", ["web app", "host"])
def test_equal_rows_without_an_id_are_deleted_together_and_restored(page: Page, here: Site, carrier: str) -> None:
    cut = [{"name": "Ann", "at": "2026-01-31T12:00:00.123Z", "sum": 0.1, "more": {"n": n}} for n in range(3)]
    others = [{"name": "Ann", "at": None, "sum": 0.1}, {"name": "Bob", "at": None, "sum": None}]
    here.call("portal_write", portalUri=PORTAL, table="twins", data=[*cut, *others])
    query = {"portalUri": PORTAL, "sql": "SELECT * FROM twins ORDER BY name, at, toString(more)"}
    before = here.call("portal_query", **query)["rows"]
    where = in_the_web_app(page) if carrier == "web app" else shown_in_a_host(page, here, "light")
    choose_table(where, "twins")
    where.get_by_label("Select row 2", exact=True).check()
    where.get_by_role("button", name="Delete 1 row").click()
    question = where.get_by_role("dialog", name="Delete 3 rows?")
    expect(question).to_contain_text("1 row is selected")
    expect(question).to_contain_text("equal are deleted together")
    assert_accessible(page.frames[-1] if carrier == "host" else page)
    question.get_by_role("button", name="Keep them").click()
    assert here.call("portal_query", **query)["rows"] == before
    where.get_by_role("button", name="Delete 1 row").click()
    question.get_by_role("button", name="Delete them all").click()
    expect(where.get_by_text("3 rows deleted")).to_be_visible()
    assert len(here.call("portal_query", **query)["rows"]) == 2
    where.get_by_role("button", name="Undo").click()
    expect(where.get_by_text("3 rows restored")).to_be_visible()
    assert here.call("portal_query", **query)["rows"] == before

    where.get_by_label("Search all columns").fill("Bob")
    expect(where.locator("#row1")).to_have_count(0)
    where.get_by_label("Select row 1", exact=True).check()
    where.get_by_role("button", name="Delete 1 row").click()
    expect(where.get_by_text("1 row deleted")).to_be_visible()  # there is one of it: no question is shown
    assert {row["name"] for row in here.call("portal_query", **query)["rows"]} == {"Ann"}


def test_rows_stay_selected_while_another_client_writes(page: Page, here: Site) -> None:
    in_the_web_app(page, "?table=refunds")
    page.get_by_label("Select row 3", exact=True).check()
    here.call("portal_write", portalUri=PORTAL, table="elsewhere", data=[{"id": 1}])
    expect(page.get_by_label("Table", exact=True)).to_contain_text("elsewhere (1)")
    expect(page.get_by_label("Select row 3", exact=True)).to_be_checked()
    expect(page.get_by_role("button", name="Delete 1 row")).to_be_visible()
    here.call("portal_write", portalUri=PORTAL, table="refunds", data=[{"id": -1, "order_id": 0, "reason": None}])
    expect(page.get_by_label("Table", exact=True)).to_contain_text("refunds (21)")
    expect(page.get_by_role("button", name="Delete 1 row")).to_have_count(0)  # another row is the third now
    here.call("portal_delete", portalUri=PORTAL, table="refunds", where={"id": -1})


def test_back_undoes_a_step(page: Page, here: Site) -> None:
    in_the_web_app(page, "?table=orders")
    expect(page.get_by_text("100,000 rows", exact=True)).to_be_visible()
    page.get_by_role("button", name="id", exact=True).click()
    page.get_by_role("button", name="id", exact=True).click()
    expect(page.locator("#row0")).to_contain_text(f"order {ROWS - 1}")
    page.get_by_label("Search all columns").type("order 77")  # typing is no step
    expect(page.get_by_text("100,000 rows", exact=True)).to_have_count(0)
    choose_table(page, "refunds")
    page.get_by_role("button", name="SQL").click()
    write(page, page.get_by_label("SQL query"), "SELECT 1 AS one")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Query result")).to_contain_text("one")
    write(page, page.get_by_label("SQL query"), "SELECT 2 AS two")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Query result")).to_contain_text("two")

    page.go_back()
    expect(page.get_by_role("region", name="Query result")).to_contain_text("one")
    expect(page.get_by_label("SQL query")).to_contain_text("SELECT 1 AS one")
    page.go_back()
    expect(page.get_by_role("region", name="Query result")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("grid", name="Rows of refunds")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("grid", name="Rows of orders")).to_be_visible()
    expect(page.get_by_label("Search all columns")).to_have_value("order 77")
    page.go_back()
    expect(page.locator("#row0")).to_contain_text("order 0")
    expect(page.get_by_role("columnheader", name="id", exact=False).first).to_have_attribute("aria-sort", "ascending")
    page.go_forward()
    expect(page.get_by_label("Search all columns")).to_have_value("order 77")


# 4. Data import


def test_a_person_chooses_what_becomes_of_tables_that_exist(page: Page, here: Site, tmp_path: Path) -> None:
    here.call("portal_write", portalUri="mem://tests/other", table="twice", data=[{"n": 1}])
    name = f"twice-{len(list((here.server.data_dir / 'exports').glob('*')))}.db"
    here.call("portal_export", portalUri="mem://tests/other", destination=name, format="db")
    file = here.server.data_dir / "exports" / name
    here.call("portal_write", portalUri=PORTAL, table="twice", data=[{"n": 5}, {"n": 6}])
    in_the_web_app(page, "?table=twice")
    page.get_by_label("File to import").set_input_files(file)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("this portal has 'twice' already")).to_be_visible()
    page.get_by_label("if a table exists").select_option("replace")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Imported 1 row")).to_be_visible()
    found = here.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM twice")["rows"]
    assert found == [{"n": 1}]


@pytest.mark.parametrize(
    ("format_", "carrier"),
    sample(
        [
            *(("csv", "web app"), ("csv", "host"), ("json", "host"), ("json", "web app")),
            *(("parquet", "web app"), ("parquet", "host")),
        ],
        every=2,
    ),
)
def test_files_are_imported(page: Page, here: Site, tmp_path: Path, carrier: str, format_: str) -> None:
    file = tmp_path / f"people-{carrier[:3]}.{format_}"
    file.write_bytes(people(here, format_))
    where = in_the_web_app(page) if carrier == "web app" else shown_in_a_host(page, here, "light")
    where.get_by_label("File to import").set_input_files(file)
    where.get_by_role("button", name="Import", exact=True).click()
    expect(where.get_by_text("Imported 2 rows into people_")).to_be_visible()
    expect(where.locator("#row1")).to_contain_text("Zoë")


def test_a_file_larger_than_a_request_comes_in_pieces(page: Page, here: Site, tmp_path: Path) -> None:
    file = tmp_path / "large.csv"
    file.write_text("id,text\n" + "".join(f"{n},{'x' * 100}\n" for n in range(60_000)), encoding="utf-8")
    in_the_web_app(page)
    page.get_by_label("File to import").set_input_files(file)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Imported 60,000 rows into large")).to_be_visible()


def test_each_chosen_file_goes_to_a_table_of_its_own_and_may_be_chosen_again(
    page: Page, here: Site, tmp_path: Path
) -> None:
    for name in ("first.csv", "2026-report.csv", "_hidden.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n", encoding="utf-8")
    in_the_web_app(page)
    chooser, panel = page.get_by_label("File to import"), page.get_by_role("group", name="Import")
    chooser.set_input_files(tmp_path / "first.csv")
    expect(panel.get_by_label("into the table")).to_have_value("first")
    chooser.set_input_files(tmp_path / "_hidden.csv")
    expect(panel.get_by_label("into the table")).to_have_value("hidden")
    panel.get_by_label("into the table").fill("_hidden")
    expect(panel.get_by_text("a letter first")).to_be_visible()  # the server keeps such names for itself
    expect(panel.get_by_role("button", name="Import")).to_be_disabled()
    chooser.set_input_files(tmp_path / "2026-report.csv")
    panel.get_by_role("button", name="Cancel").click()
    expect(panel).to_have_count(0)
    assert chooser.evaluate("chooser => chooser.files.length") == 0  # otherwise a browser reports no second choice
    chooser.set_input_files(tmp_path / "2026-report.csv")
    expect(panel.get_by_label("into the table")).to_have_value("table_2026_report")
    panel.get_by_role("button", name="Import").click()
    expect(page.get_by_text("Imported 1 row into table_2026_report")).to_be_visible()


def test_a_first_portal_is_created_from_a_file(page: Page, here: Site, tmp_path: Path) -> None:
    (tmp_path / "2026-list.csv").write_text("id,name\n1,Ann\n", encoding="utf-8")
    page.route("**/api/portals", lambda route: route.fulfill(json={"portals": []}))
    page.goto("/portals")
    expect(page.get_by_text("There is no portal yet")).to_be_visible()
    assert_accessible(page)
    page.get_by_label("New tables from a file").set_input_files(tmp_path / "2026-list.csv")
    page.get_by_label("in the portal").fill("made/here")
    page.unroute("**/api/portals")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Type of the column id").select_option("text")
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("grid", name="Rows of table_2026_list")).to_contain_text("Ann")
    expect(page).to_have_url(re.compile("/portals/made/here$"))


# 5. Query execution


@pytest.mark.parametrize("carrier", ["web app", "host"])
def test_a_query_is_run_and_drawn_and_a_bad_one_says_why(page: Page, here: Site, carrier: str) -> None:
    where = in_the_web_app(page) if carrier == "web app" else shown_in_a_host(page, here, "light")
    where.get_by_role("button", name="SQL").click()
    editor = where.get_by_label("SQL query")
    write(page, editor, "SELECT buyer, count() AS n FROM orders GROUP BY buyer ORDER BY buyer")
    page.keyboard.press("Control+Enter")
    expect(where.get_by_role("img", name="Chart of n by buyer")).to_be_visible()
    expect(where.get_by_text("4 rows")).to_be_visible()
    where.get_by_role("button", name="Table", exact=True).click()
    expect(where.get_by_role("region", name="Query result")).to_contain_text("25000")
    by_month = "SELECT toStartOfMonth(bought_at) AS month, buyer, {} FROM orders WHERE id < 100 {} ORDER BY month"
    write(page, editor, by_month.format("sum(price) AS total", "GROUP BY month, buyer"))
    where.get_by_role("button", name="Run").click()
    drawn = where.get_by_role("img", name="Chart of total by month")
    expect(drawn.locator(".u-legend .u-series .u-label").filter(has_text=re.compile(r"\w"))).to_have_count(4)
    write(page, editor, by_month.format("price", ""))  # several rows for one month and buyer
    where.get_by_role("button", name="Run").click()
    expect(where.get_by_role("region", name="Query result")).to_be_visible()
    where.get_by_role("button", name="Chart", exact=True).click()
    expect(where.get_by_text("group by both in the query")).to_be_visible()
    write(page, editor, "SELECT nothing FROM orders")
    where.get_by_role("button", name="Run").click()
    expect(where.get_by_role("alert")).to_contain_text("nothing")
    expect(where.get_by_text(re.compile(r"\d rows"))).to_have_count(0)  # nothing of the result before stands beside it
    expect(where.get_by_role("button", name="Export the result as csv")).to_have_count(0)
    expect(where.get_by_role("region", name="Query result")).to_have_count(0)


def test_rows_of_which_a_chart_would_leave_something_out_are_a_table_at_first(page: Page, here: Site) -> None:
    in_the_web_app(page, "?tab=sql")
    for sql, is_chart in (("SELECT * FROM orders LIMIT 5", "false"), ("SELECT id, price FROM orders LIMIT 5", "true")):
        write(page, page.get_by_label("SQL query"), sql)
        page.keyboard.press("Control+Enter")
        chart = page.get_by_role("button", name="Chart", exact=True)
        expect(chart).to_have_attribute("aria-pressed", is_chart)


def test_on_a_phone_a_wide_table_shows_that_there_is_more(page: Page, here: Site) -> None:
    page.set_viewport_size({"width": 390, "height": 780})
    in_the_web_app(page, "?table=orders")
    grid = page.locator(".grid-scroll")
    expect(grid).to_have_attribute("data-more", "right")
    assert "linear-gradient" in grid.evaluate("box => getComputedStyle(box).maskImage")
    grid.evaluate("box => { box.scrollLeft = 50 }")
    expect(grid).to_have_attribute("data-more", "left right")
    grid.evaluate("box => { box.scrollLeft = box.scrollWidth }")
    expect(grid).to_have_attribute("data-more", "left")
    page.set_viewport_size({"width": 1600, "height": 780})
    expect(grid).to_have_attribute("data-more", "")
    assert grid.evaluate("box => getComputedStyle(box).maskImage") == "none"
    page.set_viewport_size({"width": 390, "height": 780})
    page.goto("/keys")
    expect(page.get_by_role("region", name="Your keys")).to_have_attribute("data-more", "right")
    assert_accessible(page)


def test_a_person_chooses_the_chart_and_finds_its_query_again(page: Page, here: Site) -> None:
    in_the_web_app(page, "?tab=sql")
    sql = "SELECT buyer, id % 3 AS part, sum(price) AS total FROM orders GROUP BY buyer, part ORDER BY buyer"
    write(page, page.get_by_label("SQL query"), sql)
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Chart", exact=True).click()
    expect(page.get_by_text("choose a column for the series")).to_be_visible()
    chart = page.get_by_role("group", name="Chart", exact=True)
    for label, choice in (("Kind", "Bars"), ("Values", "total"), ("Series", "part")):
        chart.get_by_label(label).select_option(choice)
    drawn = page.get_by_role("img", name="Chart of total by buyer")
    expect(drawn.locator(".u-legend .u-series .u-label").filter(has_text=re.compile(r"\w"))).to_have_count(3)
    assert_accessible(page)
    page.reload()
    expect(drawn).to_be_visible()  # the address has the choices
    page.get_by_text("Saved queries and history").click()
    page.get_by_label("Name of this query").fill("By part")
    page.get_by_role("button", name="Save query").click()
    write(page, page.get_by_label("SQL query"), "SELECT 1 AS one")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Query result")).to_contain_text("1")
    page.get_by_role("list", name="Saved queries").get_by_role("link", name="By part").click()
    expect(page.get_by_role("region", name="Query result")).to_contain_text("Ann")
    expect(page.get_by_role("list", name="History").get_by_role("link")).to_have_count(2)
    page.get_by_role("button", name="Delete the query By part").click()
    expect(page.get_by_role("list", name="Saved queries")).to_have_count(0)


def test_a_person_makes_a_chart_of_expenses_by_month_and_kind_without_a_query(
    page: Page, here: Site, tmp_path: Path
) -> None:
    costs = {"rent": 20, "food": 10}
    lines = [f"2026-{month:02}-05,{kind},{month * cost}" for month in (1, 2, 4) for kind, cost in costs.items()]
    (tmp_path / "costs.csv").write_text("\n".join(["Date,Kind,Amount", *lines]), encoding="utf-8")
    in_the_web_app(page)
    page.get_by_label("File to import").set_input_files(tmp_path / "costs.csv")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("grid", name="Rows of costs")).to_be_visible()
    page.get_by_role("button", name="Charts").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name="Chart of total of Amount by Date per month")).to_be_visible()
    choices = page.get_by_role("group", name="What is drawn")
    choices.get_by_label("split by").select_option("Kind")
    drawn = page.get_by_role("img", name="Chart of total of Amount of each Kind by Date per month")
    expect(drawn.locator(".u-legend .u-series .u-label").filter(has_text=re.compile(r"\w"))).to_have_text(
        ["rent", "food"]
    )
    choices.get_by_label("drawn as").select_option("Bars")
    page.reload()  # the address has the choices
    expect(choices.get_by_label("drawn as")).to_have_value("bars")
    page.get_by_text("Numbers", exact=True).click()
    numbers = page.get_by_role("region", name="Numbers: Chart of total")
    expect(numbers.get_by_role("row")).to_have_text(
        ["Namerentfood", "Jan 20262010", "Feb 20264020", "Mar 202600", "Apr 20268040"]
    )
    assert_accessible(page)
    page.get_by_role("button", name="Open as SQL").click()
    expect(page.get_by_label("SQL query")).to_contain_text("toStartOfMonth")
    expect(page.get_by_text("6 rows")).to_be_visible()


def test_a_file_is_shown_before_it_is_imported(page: Page, here: Site, tmp_path: Path) -> None:
    (tmp_path / "expenses.csv").write_text("Month,Kind of cost,Sum\n2026-01-31,rent,900\n", encoding="utf-8")
    in_the_web_app(page)
    page.get_by_label("File to import").set_input_files(tmp_path / "expenses.csv")
    shown = page.get_by_role("region", name="Preview")
    expect(shown).to_contain_text("rent")
    shown.get_by_label("Name of the column Kind of cost").fill("kind")
    shown.get_by_label("Type of the column Sum").select_option("number")
    assert_accessible(page)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Imported 1 row into expenses")).to_be_visible()
    view = here.call("portal_view", portalUri=PORTAL)
    columns = next(table["columns"] for table in view["tables"] if table["name"] == "expenses")
    assert [(one["name"], one["type"]) for one in columns] == [
        ("Month", "Nullable(Date)"),
        ("kind", "Nullable(String)"),
        ("Sum", "Nullable(Float64)"),
    ]


# 7. Export


def test_the_web_app_downloads_a_table_in_each_format(page: Page, here: Site, tmp_path: Path) -> None:
    in_the_web_app(page, "?table=refunds")
    for format_ in ("csv", "json", "parquet", "db"):
        with page.expect_download() as started:
            page.get_by_label("Export").select_option(format_)
        download: Download = started.value
        download.save_as(tmp_path / f"file.{format_}")
        assert re.fullmatch(rf"(refunds|tests-shop)\.{format_}", download.suggested_filename)
        assert (tmp_path / f"file.{format_}").stat().st_size > 100
    assert (tmp_path / "file.csv").read_text("utf-8").startswith('"id","order_id"')
    assert (tmp_path / "file.parquet").read_bytes()[:4] == b"PAR1"
    with page.expect_download() as started:
        page.get_by_label("Export").select_option("csv all")
    assert started.value.suggested_filename == "tests-shop.zip"
    started.value.save_as(tmp_path / "all.zip")
    assert zipfile.ZipFile(tmp_path / "all.zip").namelist() == ["orders.csv", "refunds.csv"]


def test_a_host_saves_a_file_that_came_in_pieces(page: Page, in_a_host: FrameLocator) -> None:
    choose_table(in_a_host, "orders")
    in_a_host.get_by_label("Export").select_option("csv")
    expect(in_a_host.get_by_text("Saved orders.csv")).to_be_visible()
    [saved] = page.evaluate("window.saved")
    assert saved["text"].count("\n") >= ROWS
    assert page.evaluate("window.called").count("portal_download") > 1
    in_a_host.get_by_label("Export").select_option("parquet")
    expect(in_a_host.get_by_text("Saved orders.parquet")).to_be_visible()
    assert base64.b64decode(page.evaluate("window.saved[1].blob"))[:4] == b"PAR1"


# Who sees what


def test_the_tools_of_the_viewer_are_shown_to_hosts_of_apps_alone(site: Site) -> None:
    helpers = {"portal_upload", "portal_download", "portal_preview"}
    shown = {tool["name"]: tool for tool in listed(site)}
    assert helpers <= set(shown)
    assert all(shown[name]["_meta"]["ui"]["visibility"] == ["app"] for name in helpers)
    assert not helpers & {tool["name"] for tool in listed(site, roots={})}
    discovered = site.server.modern("server/discover")["result"]["capabilities"]
    assert discovered["extensions"]["io.modelcontextprotocol/ui"] == {"mimeTypes": ["text/html;profile=mcp-app"]}


def test_a_host_without_apps_gets_a_text_that_stands_alone(site: Site) -> None:
    answer = site.server.modern("tools/call", {"name": "portal_view", "arguments": {"portalUri": PORTAL}})["result"]
    assert "orders (100,000 rows)" in answer["content"][-1]["text"]


def test_writes_of_other_clients_appear(page: Page, here: Site) -> None:
    in_the_web_app(page, "?table=fresh")
    here.call("portal_write", portalUri=PORTAL, table="fresh", data=[{"id": 1}])
    expect(page.get_by_label("Table", exact=True)).to_contain_text("fresh (1)")


def test_the_viewer_fits_on_a_phone(context: BrowserContext, site: Site) -> None:
    page, watched = context.new_page(), Watched(site.url)
    watched.watch(page)
    page.set_viewport_size({"width": 375, "height": 740})
    shown_in_a_host(page, site, "dark")
    expect(page.frame_locator("iframe").get_by_role("grid")).to_be_visible()
    assert page.frames[-1].evaluate("document.documentElement.scrollWidth") <= 375
    assert watched.wrong == []
