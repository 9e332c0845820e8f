"""Signing in as people do it: in a browser, which says of each form where it comes from."""

import re

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, run_users_command, sign_in_link

NAME, PASSWORD = "ann", "correct horse battery"


@pytest.fixture(scope="module")
def ann(site: Site) -> None:
    run_users_command(site.server, "add", NAME)
    run_users_command(site.server, "password", NAME, "--stdin", stdin=PASSWORD + "\n")


def fill(page: Page, password: str) -> None:
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.usefixtures("ann")
def test_a_password_signs_in_and_leads_to_the_requested_page(browser: Browser, site: Site) -> None:
    page = browser.new_page(base_url=site.url)
    page.goto("/memories?tag=ops")
    fill(page, "not it")
    expect(page.get_by_role("alert")).to_be_visible()
    assert_accessible(page)
    fill(page, PASSWORD)
    expect(page.get_by_role("heading", level=1)).to_have_text("Memories")
    expect(page).to_have_url(re.compile(r"/memories\?tag=ops$"))
    page.close()


def test_a_link_on_another_page_signs_in_after_a_confirmation(browser: Browser, site: Site) -> None:
    mail = f'<!doctype html><title>Mail</title><a href="{site.url}{sign_in_link(site.server)}">Your link</a>'
    page = browser.new_page()

    def answer(route: Route) -> None:
        route.fulfill(body=mail, content_type="text/html")

    page.route("https://mail.example/**", answer)
    page.goto("https://mail.example/inbox")
    page.get_by_role("link", name="Your link").click()
    page.get_by_role("button", name="Sign in with this link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    page.close()
