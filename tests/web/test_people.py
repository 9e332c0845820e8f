"""The page People, for the owner of the server; and the limits of a new key."""

from uuid import uuid4

from playwright.sync_api import Browser, Page, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site


def test_a_person_is_added_signs_in_and_is_removed(page: Page, browser: Browser, site: Site) -> None:
    name = f"eva-{uuid4().hex[:6]}"
    page.goto("/people")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Add").click()
    card = page.get_by_role("listitem").filter(has_text=name)
    expect(card).to_contain_text("no password · not signed in")
    card.get_by_label("Plan").select_option("pro")
    expect(page.get_by_role("status").filter(has_text=f"{name} has the plan pro")).to_be_visible()
    card.get_by_role("button", name="Set a password").click()
    card.get_by_label("New password").fill("correct horse battery")
    card.get_by_role("button", name="Save").click()
    expect(card).to_contain_text("has a password")
    card.get_by_role("button", name="Make a sign-in link").click()
    link = card.locator("pre").inner_text()
    assert_accessible(page)

    guest = browser.new_page()
    guest.goto(link)
    expect(guest.get_by_role("heading", level=1)).to_have_text("Home")
    expect(guest.get_by_role("navigation", name="Pages").get_by_text("People")).to_have_count(0)
    guest.goto(f"{site.url}/people")
    expect(guest.get_by_role("alert").filter(has_text="Only the owner")).to_be_visible()
    guest.close()

    page.goto("/settings")
    log = page.get_by_role("region", name="Audit log")
    expect(log).to_contain_text(f"You made a sign-in link for {name}")
    page.goto("/people")
    card.get_by_role("button", name="Remove with all memories").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(card).to_have_count(0)


def test_a_key_is_limited_to_scopes_and_families(page: Page, site: Site) -> None:
    page.goto("/keys")
    form = page.get_by_role("form", name="New key")
    form.get_by_label("Name", exact=True).fill("reader")
    for allowed in ("write", "delete", "link notes"):
        form.get_by_label(allowed, exact=True).uncheck()
    form.get_by_text("Limit it to some memories").click()
    for hidden in ("facts", "the graph", "files of stores"):
        form.get_by_label(hidden).uncheck()
    form.get_by_label("Works").select_option("7 days")
    assert_accessible(page)
    form.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("region", name="Your new key")).to_be_visible()
    [made] = [key for key in site.me.get("/api/mcp/keys").json()["keys"] if key["name"] == "reader"]
    assert (made["scopes"], sorted(made["families"])) == (["read_memory"], ["notes", "portals", "recall"])
    assert made["expires_at"]


def test_a_forgotten_password_leads_to_the_command(browser: Browser, site: Site) -> None:
    for theme in ("light", "dark"):
        page = browser.new_page(base_url=site.url, color_scheme=theme, viewport={"width": 390, "height": 844})
        page.goto("/sign-in")
        page.get_by_text("No password, or forgotten?").click()
        expect(page.get_by_text("memory-mcp users password NAME")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert_accessible(page)
        page.close()
