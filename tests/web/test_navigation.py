"""Addresses, titles, focus, and the app's messages when something is missing or the user is signed out."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, sign_in_link


def test_a_title_in_brackets_links_to_its_note(page: Page, site: Site) -> None:
    for number in range(25):
        site.call("memory_create", title=f"Harbour {number}", content="The harbour, the harbour plan, the plan. " * 3)
    wanted = site.call("memory_create", title="Harbour  Plan", content="x" * 5000, namespace="port")
    other = site.call("memory_create", title="Harbour plan", content="Another", namespace="area1")
    for namespace, target in (("port", wanted), ("area1", other), ("elsewhere", other)):
        made = site.call("memory_create", title="Speaks of it", content="See [[harbour plan]].", namespace=namespace)
        page.goto(f"/memories/note/{made['id']}")
        page.get_by_role("article").get_by_role("link", name="harbour plan").first.click()
        expect(page).to_have_url(re.compile(f"/note/{target['id']}$"))
    page.goto("/memories?title=Never+written")
    expect(page.get_by_label("Title")).to_have_value("Never written")


@pytest.mark.parametrize(
    "address", ["/memories/%E0%A4%A", "/memories/open?ref=vault:a%25zz", "/stores/default/%ff?file=1"]
)
def test_an_address_that_cannot_be_read_shows_a_page(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_every_tab_has_its_own_title(page: Page, site: Site) -> None:
    made = site.call("memory_create", title="Named so", content="Hello")
    page.goto(f"/memories/note/{made['id']}")
    expect(page).to_have_title("Named so · Memory")
    page.get_by_role("link", name="Edit").click()
    expect(page).to_have_title("Named so · Memory")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Memories").click()
    expect(page).to_have_title("Memories · Memory")
    page.goto("/stores/default/people/ann?file=1")
    expect(page).to_have_title("people/ann · Memory")
    page.goto("/portals/tests/shop")
    expect(page).to_have_title("mem://tests/shop · Memory")


def test_focus_stays_where_it_was(page: Page) -> None:
    page.goto("/keys")
    revoke = page.get_by_role("button", name="Revoke first start")
    for answer in ("Escape", "Enter"):
        revoke.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Keep it")).to_be_focused()
        page.keyboard.press(answer)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(revoke).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("sess")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    expect(page.get_by_role("main")).to_be_focused()
    page.goto("/memories")
    page.get_by_label("Select all on this page").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()


def test_missing_things_are_explained_to_people(page: Page) -> None:
    answer = page.goto("/nowhere/at/all")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    assert_accessible(page)
    page.goto("/memories/note/unknown")
    expect(page.get_by_role("alert")).to_contain_text("There is no note with this id")
    expect(page.get_by_role("alert")).not_to_contain_text("memory_search")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert_accessible(page)
    page.goto("/sync")
    page.get_by_label("Address").fill("ftp://hub")
    page.get_by_label("Key", exact=True).fill("mmcp_x")
    page.get_by_role("button", name="Link").click()
    expect(page.get_by_role("alert")).to_contain_text("http")
    expect(page.get_by_role("alert")).not_to_contain_text("pattern")


def test_programs_still_get_not_found(site: Site) -> None:
    for path in ("/nowhere", "/api/nowhere"):
        answer = site.me.get(path)
        assert answer.status_code == 404
        assert "json" in answer.headers["content-type"]
    assert "json" in site.me.get("/api/nowhere", headers={"Accept": "text/html"}).headers["content-type"]


def test_a_user_signed_out_elsewhere_sees_that_and_can_sign_in_again(browser: Browser, site: Site) -> None:
    context = browser.new_context(base_url=site.url)
    page, other = context.new_page(), context.new_page()
    other.goto(sign_in_link(site.server))
    page.clock.install()
    page.goto("/memories?q=backup")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Namespace")).to_be_visible()  # the last answer
    other.evaluate("fetch('/api/sign-out', { method: 'POST' })")
    message = page.get_by_role("status").filter(has_text="You are signed out")
    expect(message).to_be_visible()
    assert_accessible(page)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.clock.run_for(4500)
    assert requested == []
    expect(message.get_by_role("link", name="Sign in")).to_have_attribute(
        "href", "/sign-in?next=%2Fmemories%3Fq%3Dbackup"
    )
    other.goto(sign_in_link(site.server))
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(message).to_have_count(0)
    context.close()
