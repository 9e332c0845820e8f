"""Home's first view: the totals, from one request."""

import re

from playwright.sync_api import Page, Route, expect

from tests.web.conftest import Site


def test_home_paints_from_one_request(page: Page, site: Site) -> None:
    requested: list[str] = []
    held: list[Route] = []

    def hold(route: Route) -> None:
        requested.append(route.request.url.removeprefix(site.url))
        if requested[-1] == "/api/overview":
            route.continue_()
        else:
            held.append(route)

    page.route(re.compile("/api/(overview|recent|mcp/memory|tools)"), hold)
    page.goto("/")
    totals = page.get_by_role("list", name="Totals")
    overview = site.me.get("/api/overview").json()
    expect(totals.get_by_role("link", name=f"{overview['notes']['notes']} Notes")).to_be_visible()
    expect(totals.get_by_role("link", name=f"{overview['portals']['rows']:,} Rows in tables")).to_be_visible()
    assert requested.count("/api/overview") == 1
    assert held, "nothing else had answered"
    for route in held:
        route.continue_()
    expect(page.get_by_role("table", name="Top tags")).to_be_visible()


def test_home_names_notes_that_need_attention_and_two_of_them_are_compared(
    new_account_page: Page, new_account: Site
) -> None:
    page, call = new_account_page, new_account.call
    old = call("memory_create", title="Rent, first", content="The rent is due on Monday")
    call("memory_create", title="Rent, again", content="the rent  is due on MONDAY")
    call("memory_create", title="Rent now", content="The landlord wants it on Fridays", supersedes=[old["id"]])
    twins = [
        call("memory_create", title=f"Wifi {number}", content="The wifi is called Attic")["id"] for number in (1, 2)
    ]
    call("memory_create", title="Over", content="A coupon", expires_at="2020-01-01T00:00:00Z")

    page.goto("/")
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention).to_contain_text("“Wifi 2” and “Wifi 1” say the same.")
    expect(attention).not_to_contain_text("Rent, again")  # the other one is replaced
    expect(attention.get_by_role("listitem").filter(has_text="1 note is replaced")).to_be_visible()
    attention.get_by_role("listitem").filter(has_text="1 note has expired").get_by_role("link").click()
    expect(page.get_by_role("list", name="Found").get_by_role("link", name=re.compile("^Over"))).to_be_visible()
    page.go_back()
    attention.get_by_role("link", name="Compare them").click()
    pair = page.get_by_role("region", name="Wifi 2 and Wifi 1")
    pair.get_by_role("button", name="Keep both").click()
    expect(page.get_by_text("No two notes say nearly the same.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    pair.get_by_role("button", name=re.compile("^Keep only “Wifi 2”")).click()
    expect(page.get_by_text("The other note “Wifi 1” is archived")).to_be_visible()
    assert [call("memory_get", id=id_)["archived"] for id_ in twins] == [True, False]


def test_a_browser_whose_language_is_no_valid_tag_shows_charts(page: Page) -> None:
    """Chromium with `LC_ALL=C.UTF-8` reports such a language, and `Intl` refuses it."""
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })")
    page.goto("/")
    expect(page.get_by_role("table", name="Top tags")).to_be_visible()
    assert page.evaluate("navigator.language") == "en-US@posix"
    expect(page.get_by_role("img", name=re.compile("^Calls"))).to_be_visible()
