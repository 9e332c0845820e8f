"""What a person who has never programmed wants of the app, each from Home by what the page shows, also on a phone."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, open_page, run_users_command, sign_in_link

SIZES: dict[str, ViewportSize] = {"desktop": {"width": 1200, "height": 800}, "phone": {"width": 390, "height": 780}}
AGENT = "Claude on my laptop"
WORK = "Works at the harbour office as a crane operator, on night shifts."


@pytest.fixture(scope="module")
def account(site: Site) -> Iterator[Site]:
    """A user whose agent has learned something, in every family; the same for both sizes, the desktop first."""
    name = f"newcomer-{uuid4().hex[:8]}"
    run_users_command(site.server, "add", name)
    with httpx.Client(base_url=site.url, timeout=60) as me:
        assert me.get(sign_in_link(site.server, name)).status_code == 303
        account = Site(site.server, me)
        learn(account)
        yield account


def learn(account: Site) -> None:
    key = account.me.post("/api/mcp/keys", json={"name": AGENT}).json()["key"]
    call = replace(account.server, key=key).modern_call
    call("memory_create", title="Their work", content=WORK, tags=["work"])
    call("memory_create", title="Commute", content="Takes the ferry to work when the tide allows it.")
    call("commit_memory", scope="vault", key="favourite-tea", content="Darjeeling, first flush")
    call("create_project", name="family")
    people = [{"name": "Zoltan", "entity_type": "person", "observations": ["plays chess on Fridays"]}]
    call("create_entities", project="family", entities=people)
    call("memory_create", title="Chess", content="Zoltan wins at chess most of the time.")
    call("commit_memory", scope="vault", key="zoltan-phone", content="Zoltan: 555-0199")
    call("add_memory", store="default", path="people/zoltan", content="# Zoltan\n\nA cousin.")


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest, browser: Browser, account: Site) -> Iterator[Page]:
    is_phone = request.param == "phone"
    context = browser.new_context(
        base_url=account.url,
        locale="en-US",
        timezone_id="UTC",
        viewport=SIZES[request.param],
        is_mobile=is_phone,
        has_touch=is_phone,
        color_scheme="dark" if is_phone else "light",
        reduced_motion="reduce",
    )
    cookies = account.me.cookies.items()
    context.add_cookies([{"name": name, "value": value, "url": account.url} for name, value in cookies])
    with open_page(context, account) as opened:
        opened.goto("/")
        yield opened
    context.close()


def search(page: Page, words: str) -> None:
    page.get_by_label("Search everything").fill(words)
    page.get_by_role("button", name="Search").click()


def open_menu_page(page: Page, name: str) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    if not pages.get_by_role("link", name=name).is_visible():
        pages.get_by_role("button", name="More").click()
    pages.get_by_role("link", name=name).click()


def test_what_an_agent_believes_about_my_work_is_found_and_corrected(page: Page) -> None:
    search(page, "my work")
    page.get_by_role("list", name="Found").get_by_role("link", name=re.compile("^Their work")).click()
    article = page.get_by_role("article")
    expect(article).to_contain_text("crane operator")
    page.get_by_text("Who wrote it").click()
    expect(page.get_by_role("list", name="Writes")).to_contain_text(f"written by wire with key {AGENT}")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Text", exact=True).fill(f"{WORK} Since May as the foreman.")
    assert_accessible(page)
    page.get_by_role("button", name="Save").click()  # on the phone, without a change
    expect(article).to_contain_text("Since May as the foreman.")
    open_menu_page(page, "Home")
    mine = page.get_by_role("region", name="Today").get_by_role("list", name="you, in this web app")
    expect(mine).to_contain_text("Since May as the foreman.")


def test_one_thing_is_found_and_corrected_by_the_keyboard_alone(page: Page) -> None:
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search everything")).to_be_focused()
    page.keyboard.type("ferry")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Found").get_by_role("link").first).to_contain_text("ferry")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Commute")
    expect(page.get_by_role("main")).to_be_focused()
    edit = page.get_by_role("link", name="Edit")
    for _ in range(5):
        page.keyboard.press("Tab")
        if edit.evaluate("link => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" By bicycle else.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article")).to_contain_text("By bicycle else.")
    expect(page.get_by_role("main")).to_be_focused()


def test_all_about_one_person_is_deleted(page: Page) -> None:
    search(page, "Zoltan")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(found).to_have_count(4)
    assert_accessible(page)
    page.get_by_label("Select all on this page").check()
    page.get_by_role("group", name="Selection").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("4 memories deleted")).to_be_visible()
    expect(page.get_by_text("Nothing found for “Zoltan”.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()  # for the next size
    expect(found).to_have_count(4)


def test_what_changed_yesterday_is_seen_with_who_did_it(page: Page) -> None:
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(days=1))
    page.reload()
    yesterday = page.get_by_role("region", name="Yesterday")
    of_agent = yesterday.get_by_role("list", name=re.compile(f"with key {AGENT}$"))
    expect(of_agent).to_contain_text("Darjeeling, first flush")
    yesterday.get_by_role("link", name="favourite-tea").click()
    page.get_by_text("Who wrote it").click()
    expect(page.get_by_role("list", name="Writes")).to_contain_text(f"written by wire with key {AGENT}")
    assert_accessible(page)


def test_expenses_are_drawn_by_month_and_kind(page: Page, tmp_path: Path) -> None:
    costs = {"rent": 20, "food": 10}
    lines = [f"2026-{month:02}-05,{kind},{month * cost}" for month in (1, 2, 4) for kind, cost in costs.items()]
    (tmp_path / "expenses.csv").write_text("\n".join(["Date,Kind,Amount", *lines]), encoding="utf-8")
    open_menu_page(page, "Tables")
    page.get_by_label("New tables from a file").set_input_files(tmp_path / "expenses.csv")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("button", name="Charts").click()
    page.get_by_role("group", name="What is drawn").get_by_label("split by").select_option("Kind")
    drawn = page.get_by_role("img", name="Chart of total of Amount of each Kind by Date per month")
    expect(drawn.locator(".u-legend .u-series .u-label").filter(has_text=re.compile(r"\w"))).to_have_text(
        ["rent", "food"]
    )
    assert_accessible(page)
