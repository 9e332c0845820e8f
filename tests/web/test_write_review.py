"""Who wrote what: writes of a client are reviewed, undone after a preview, and the undo is taken back."""

from dataclasses import replace

from playwright.sync_api import Browser, Page, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, open_context, open_page


def write_as(site: Site, name: str, content: str) -> None:
    key = site.me.post("/api/mcp/keys", json={"name": name}).json()["key"]
    replace(site.server, key=key).modern_call("commit_memory", scope="vault", key="bank", content=content)


def test_writes_of_a_key_are_undone_after_a_preview_and_taken_back(browser: Browser, new_account: Site) -> None:
    new_account.call("commit_memory", scope="vault", key="bank", content="account 1")
    write_as(new_account, "phone", "account <i>666</i>")
    with open_context(browser, new_account) as context, open_page(context, new_account) as page:
        page.goto("/")
        page.get_by_role("link", name="See and undo all changes").click()
        rows = page.get_by_role("region", name="Writers by day").get_by_role("row")
        expect(rows).to_have_count(3)
        expect(rows.nth(1)).to_contain_text("wire with key phone")
        assert_accessible(page)
        page.get_by_role("link", name="wire with key phone").click()
        expect(page.get_by_role("region", name="Writes").get_by_role("row")).to_have_count(2)
        _undo_and_take_back(page, new_account)
        page.get_by_role("textbox", name="Client").fill("unknown")
        page.get_by_role("textbox", name="Client").press("Tab")
        expect(page.get_by_text("Nothing was written that matches")).to_be_visible()


def _undo_and_take_back(page: Page, site: Site) -> None:
    page.get_by_role("button", name="Undo all that match…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("0 memories will be deleted, 1 memory restored, 0 left alone.")
    expect(dialog.get_by_role("list", name="What the undo will do")).to_contain_text("restore: bank")
    assert_accessible(page)
    assert _fact(site) == "account <i>666</i>"
    dialog.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone: 0 memories deleted, 1 memory restored.")).to_be_visible()
    assert _fact(site) == "account 1"
    expect(page.get_by_role("region", name="Writes")).to_contain_text("updated, undone")
    page.get_by_role("button", name="Undo", exact=True).click()  # of the message
    expect(page.get_by_role("region", name="Writes")).not_to_contain_text("undone")
    assert _fact(site) == "account <i>666</i>"


def _fact(site: Site) -> str:
    return str(site.me.get("/api/open", params={"ref": "memory://vault/bank"}).json()["content"])


def test_rows_of_tables_are_listed_and_undone_and_deletions_left_alone(browser: Browser, new_account: Site) -> None:
    new_account.call("portal_write", portalUri="mem://a/b", table="t", data=[{"x": 1}, {"x": 2}])
    new_account.call("portal_delete", portalUri="mem://a/b", table="t", where={"x": 2})
    with open_context(browser, new_account) as context, open_page(context, new_account) as page:
        page.goto("/writes?family=portals")
        rows = page.get_by_role("region", name="Writes").get_by_role("row")
        expect(rows).to_have_count(3)
        expect(rows.nth(1)).to_contain_text("updated, −1 row")
        expect(rows.nth(2)).to_contain_text("created, +2 rows")
        expect(rows.nth(2).get_by_role("link", name="a/b/t")).to_be_visible()
        page.get_by_role("button", name="Undo all that match…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("1 row will be deleted, 0 memories restored, 1 left alone.")
        expect(dialog).to_contain_text("deleted rows, and former names and descriptions, are not kept")
        assert_accessible(page)
        dialog.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Undone: 1 row deleted, 0 memories restored, 1 left alone.")).to_be_visible()
        expect(rows).to_have_count(4)
        expect(rows.nth(1)).to_contain_text("updated, −1 row by an undo")
        expect(rows.nth(3)).to_contain_text("created, +2 rows, undone")
        assert new_account.call("portal_view", portalUri="mem://a/b")["tables"][0]["rows"] == 0
        page.get_by_role("button", name="Undo", exact=True).click()  # of the message
        expect(rows).to_have_count(5)
        assert new_account.call("portal_view", portalUri="mem://a/b")["tables"][0]["rows"] == 1
