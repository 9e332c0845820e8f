"""Conversations that hooks kept: by project, in their order, with what was given to models, deleted with Undo."""

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.conversations.sample import keep_conversations
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, open_context, open_page


def test_conversations_are_read_and_deleted_with_undo(page: Page, site: Site, tmp_path: Path) -> None:
    keep_conversations(site.server.data_dir, tmp_path)
    page.goto("/conversations")
    shop, billing = page.get_by_role("region", name="shop"), page.get_by_role("region", name="billing")
    expect(billing.get_by_role("listitem")).to_have_count(2)
    assert_accessible(page)
    shop.get_by_role("link", name="Which database do we use for invoices?").click()
    messages = page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(messages).to_have_count(5)
    assert [one.split(" ")[0] for one in messages.all_inner_texts()] == [
        "You",
        "Assistant",
        "Tools",
        "You",
        "Assistant",
    ]
    assert_accessible(page)

    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Conversations")
    expect(billing.get_by_role("listitem")).to_have_count(2)
    expect(shop).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(shop.get_by_role("listitem")).to_have_count(1)

    _check_delete_all(page)

    page.get_by_role("link", name="Given to models").click()
    given = page.get_by_role("list", name="Given to models")
    expect(given).to_contain_text("to claude-code in shop")
    expect(given.get_by_role("listitem").first).to_contain_text(" – ")  # why
    assert_accessible(page)


def _check_delete_all(page: Page) -> None:
    """All of one project, then all there are; each with Undo."""
    shop, billing = page.get_by_role("region", name="shop"), page.get_by_role("region", name="billing")
    page.get_by_label("Project").select_option("billing (2)")
    expect(shop).to_have_count(0)
    page.get_by_role("button", name="Delete all of billing").click()
    expect(page.get_by_text("Deleted: 2 conversations of billing")).to_be_visible()
    expect(billing).to_have_count(0)
    page.get_by_role("button", name="Undo").last.click()
    expect(billing.get_by_role("listitem")).to_have_count(2)
    page.get_by_label("Project").select_option("all")
    page.get_by_role("button", name="Delete all conversations").click()
    expect(page.get_by_text("No conversation is kept")).to_be_visible()
    page.get_by_role("button", name="Undo").last.click()
    expect(shop.get_by_role("listitem")).to_have_count(1)


def test_without_hooks_the_page_says_how_conversations_are_kept(browser: Browser, new_account: Site) -> None:
    with open_context(browser, new_account) as context, open_page(context, new_account) as page:
        page.goto("/conversations")
        expect(page.get_by_text("No conversation is kept")).to_be_visible()
        assert_accessible(page)
