"""The page Portals: what portals are called, and deleting them."""

import re
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, open_context, open_page
from tests.wire import http_server


@pytest.fixture
def address(site: Site) -> Iterator[str]:
    """Of a portal with three rows."""
    made = f"labelled/p{uuid4().hex[:8]}"
    site.call("portal_write", portalUri=f"mem://{made}", table="things", data=[{"n": n} for n in range(3)])
    yield made
    if any(portal["uri"] == f"mem://{made}" for portal in listed(site)):
        delete(site, made)


def listed(site: Site) -> list[dict[str, str]]:
    found: list[dict[str, str]] = site.me.get("/api/portals").json()["portals"]
    return found


def label(site: Site, address: str, name: str, description: str) -> None:
    given = {"portalName": name, "portalDescription": description}
    site.call("portal_write", portalUri=f"mem://{address}", table="things", data=[], **given)


def delete(site: Site, address: str) -> None:
    site.call("portal_delete", portalUri=f"mem://{address}", confirm=True)


def open_portal(page: Page, address: str) -> None:
    page.goto(f"/portals/{address}")
    expect(page.get_by_role("grid", name="Rows of things").locator("#row0")).to_be_visible()


def test_portals_show_their_names_and_changes_of_other_clients(page: Page, site: Site, address: str) -> None:
    page.goto("/portals")
    row = page.get_by_role("row").filter(has_text=address)
    expect(row.get_by_role("link", name=address)).to_be_visible()
    label(site, address, "Garden <b>plan</b>", "What grows where.")
    expect(row.get_by_role("link", name="Garden <b>plan</b>")).to_be_visible()
    expect(row).to_contain_text("What grows where.")
    assert_accessible(page)

    row.get_by_role("link").click()
    expect(page.locator(".labels")).to_have_text("Garden <b>plan</b> What grows where.")
    expect(page).to_have_title(re.compile("^Garden <b>plan</b>"))
    label(site, address, "Meadow", "")
    expect(page.locator(".labels")).to_have_text("Meadow")
    expect(page).to_have_title(re.compile("^Meadow"))


def test_a_person_edits_name_and_description(page: Page, site: Site, address: str) -> None:
    label(site, address, "", "Kept as it is")
    open_portal(page, address)
    page.get_by_role("button", name="Edit name…").click()
    form = page.get_by_role("form", name="Name and description")
    expect(form.get_by_label("Name")).to_be_focused()
    assert_accessible(page)
    label(site, address, "", "Written by another client")
    expect(page.locator(".labels")).to_have_text(f"{address} Written by another client")
    page.keyboard.type(" Orchard ")
    page.keyboard.press("Enter")
    expect(page.locator(".labels")).to_have_text("Orchard Written by another client")  # only what was changed is saved
    expect(form).to_have_count(0)
    expect(page.get_by_role("button", name="Edit name…")).to_be_focused()
    tables = site.call("portal_view", portalUri=f"mem://{address}")["tables"]
    assert [table["name"] for table in tables] == ["things"]

    page.get_by_role("button", name="Edit name…").click()
    form.get_by_label("Name").fill("")
    form.get_by_label("Description").fill("")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".labels")).to_have_text(address)

    page.get_by_role("button", name="Edit name…").click()
    form.get_by_label("Name").fill("Given up")
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    page.get_by_role("button", name="Edit name…").click()
    expect(form.get_by_label("Name")).to_have_value("")


def test_a_refused_name_is_explained_without_words_of_the_tools(page: Page, site: Site, address: str) -> None:
    open_portal(page, address)
    page.get_by_role("button", name="Edit name…").click()
    form = page.get_by_role("form", name="Name and description")
    form.get_by_label("Description").fill("hidden \u202e turn")
    form.get_by_role("button", name="Save").click()
    alert = form.get_by_role("alert")
    expect(alert).to_contain_text("Description")
    assert "portal" not in alert.inner_text()
    expect(form.get_by_label("Description")).to_have_value("hidden \u202e turn")
    form.get_by_role("button", name="Cancel").click()


def test_a_portal_is_deleted_once_its_name_is_typed(page: Page, site: Site, address: str) -> None:
    open_portal(page, address)
    page.get_by_role("button", name="Delete portal…").click()
    group = page.get_by_role("group", name="Delete the portal")
    expect(group.get_by_role("textbox")).to_be_focused()
    assert_accessible(page)
    expect(group.get_by_role("button", name="Delete")).to_be_disabled()
    page.keyboard.type(address[:-1])
    page.keyboard.press("Enter")
    expect(group.get_by_role("button", name="Delete")).to_be_disabled()
    group.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("button", name="Delete portal…")).to_be_focused()
    assert f"mem://{address}" in [portal["uri"] for portal in listed(site)]

    page.keyboard.press("Enter")
    expect(group.get_by_role("textbox")).to_be_focused()
    page.keyboard.type(address)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # once is enough: the second one is not refused as a portal that is gone
    expect(page.get_by_text(f"The portal {address} with 3 rows is deleted")).to_be_visible()
    expect(page.locator(".toast")).to_have_count(1)
    expect(page).to_have_url(re.compile("/portals$"))
    expect(page.get_by_role("row").filter(has_text="tests/shop")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=address)).to_have_count(0)
    assert f"mem://{address}" not in [portal["uri"] for portal in listed(site)]


def test_a_portal_that_another_client_deletes_is_gone_from_both_pages(page: Page, site: Site, address: str) -> None:
    open_portal(page, address)
    page.get_by_role("button", name="Edit name…").click()
    beside = page.context.new_page()
    beside.goto("/portals")
    row = beside.get_by_role("row").filter(has_text=address)
    expect(row).to_have_count(1)
    delete(site, address)
    expect(row).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_text("This portal was deleted.")
    for name in ("Edit name…", "Delete portal…", "Save", "Import…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    assert_accessible(page)
    assert f"mem://{address}" not in [portal["uri"] for portal in listed(site)]

    site.call("portal_write", portalUri=f"mem://{address}", table="things", data=[{"n": 1}])
    expect(page.get_by_role("grid", name="Rows of things")).to_be_visible()


def test_saving_the_name_of_a_deleted_portal_does_not_make_it_again(page: Page, site: Site, address: str) -> None:
    page.route("**/api/events", lambda route: None)  # it never answers: the page hears of no change
    open_portal(page, address)
    page.get_by_role("button", name="Edit name…").click()
    page.get_by_label("Name", exact=True).fill("Too late")
    delete(site, address)
    page.keyboard.press("Enter")
    form = page.get_by_role("form", name="Name and description")
    expect(form.get_by_role("alert")).to_have_text("This portal was deleted.")
    assert f"mem://{address}" not in [portal["uri"] for portal in listed(site)]


def test_read_only_users_get_no_buttons_that_change_a_portal(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("read_only")
    flags = ("--embedder", "none", "--auth", "none", "--families", "portals")
    with http_server(folder, *flags) as server, httpx.Client(base_url=server.url, timeout=60) as me:
        here = Site(server, me)
        here.call("portal_write", portalUri="mem://a/b", table="things", data=[{"n": 1}], portalName="Read me")
    with http_server(folder, *flags, "--scopes", "read-only") as server, httpx.Client(base_url=server.url) as me:
        here = Site(server, me)
        with open_context(browser, here) as context, open_page(context, here) as page:
            with page.expect_response("**/api/me"):
                page.goto("/portals")
            expect(page.get_by_role("link", name="Read me")).to_be_visible()
            expect(page.get_by_role("form", name="New portal")).to_have_count(0)
            with page.expect_response("**/api/me"):
                page.get_by_role("link", name="Read me").click()
            expect(page.get_by_role("grid", name="Rows of things")).to_be_visible()
            page.get_by_label("Select row 1", exact=True).check()
            page.keyboard.press("Delete")
            expect(page.locator(".toast")).to_have_count(0)
            buttons = page.get_by_role("main").get_by_role("button").all_inner_texts()
            assert not [name for name in buttons if re.search("Edit|Delete|Import", name)], buttons
            expect(page.get_by_label("Export", exact=True)).to_be_visible()
            assert_accessible(page)
