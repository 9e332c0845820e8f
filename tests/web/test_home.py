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
    expect(totals.get_by_role("link", name=f"{overview['portals']['rows']:,} Rows in portals")).to_be_visible()
    assert requested.count("/api/overview") == 1
    assert held, "nothing else had answered"
    for route in held:
        route.continue_()
    expect(page.get_by_role("table", name="Top tags")).to_be_visible()
