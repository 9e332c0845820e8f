"""Steps that every test of the viewer shares, in any host."""

import json

from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.web.conftest import PORTAL, Site

Where = Page | FrameLocator


def choose_table(where: Where, name: str) -> None:
    where.get_by_label("Table", exact=True).select_option(name)
    expect(where.get_by_role("grid", name=f"Rows of {name}")).to_be_visible()


def people(site: Site, format_: str) -> bytes:
    if format_ == "csv":
        return "id,name\n1,Ann\n2,Zoë\n".encode()
    if format_ == "json":
        return json.dumps([{"id": 1, "name": "Ann"}, {"id": 2, "name": "Zoë"}]).encode()
    name = f"people-{len(list((site.server.data_dir / 'exports').glob('*')))}.parquet"
    query = "SELECT id AS number, if(id = 0, 'Ann', 'Zoë') AS name FROM refunds WHERE id < 2 ORDER BY id"
    site.call("portal_export", portalUri=PORTAL, destination=name, format="parquet", query=query)
    return (site.server.data_dir / "exports" / name).read_bytes()


def write(page: Page, editor: Locator, text: str) -> None:
    """As a person does: what Playwright fills in has styles of its own, which the policy refuses."""
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
