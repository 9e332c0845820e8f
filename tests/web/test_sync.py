"""The page Sync, with a real hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.server.test_rest import cli
from tests.services.sync.hostile import hostile_hub
from tests.services.sync.processes import Hub, running_hub
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(autouse=True)
def unlinked(site: Site) -> Iterator[None]:
    """The site is everybody's: leave it as it was."""
    yield
    for one in site.me.get("/api/mcp/sync/status").json()["namespaces"]:
        site.me.post("/api/mcp/sync/clear-state", json={"namespace": one["namespace"]})
    site.me.post("/api/mcp/sync/unlink")


def link(page: Page, hub: Hub, encryption: str = "none") -> None:
    page.goto("/sync")
    form = page.get_by_role("form", name="Link a hub")
    form.get_by_label("Address").fill(hub.url)
    form.get_by_label("Key").fill(hub.key())
    form.get_by_label("Encryption").select_option(encryption)
    form.get_by_role("button", name="Link").press("Enter")
    expect(page.get_by_role("region", name="The hub")).to_contain_text(hub.url)


def test_a_namespace_is_enabled_and_reaches_another_computer(page: Page, site: Site, hub: Hub, tmp_path: Path) -> None:
    for number in range(10):
        site.call("memory_create", content=f"Note {number} for both", namespace="both")
    page.goto("/sync")
    assert_accessible(page)
    link(page, hub)
    assert_accessible(page)
    table = page.get_by_role("region", name="Namespaces")
    row = table.get_by_role("row").filter(has_text="both")
    expect(row).to_contain_text("no")
    page.get_by_role("button", name="Enable both").click()
    expect(page.get_by_role("status").filter(has_text="both is synced from now on")).to_be_visible()
    expect(row.get_by_role("cell").nth(2)).to_have_text("0")  # to send
    expect(row).to_contain_text("just now")

    other = tmp_path / "other"
    cli(other, "sync", "link", hub.url, "--key", hub.key())
    cli(other, "sync", "enable", "both")
    assert cli(other, "sync", "now")["pulled"] == 10
    cli(other, "add", "written elsewhere", "--namespace", "both")
    cli(other, "sync", "now")
    page.get_by_role("button", name="Sync now").click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("11")
    assert_accessible(page)


def test_controls_of_a_namespace_can_be_undone(page: Page, hub: Hub) -> None:
    link(page, hub)
    form = page.get_by_role("form", name="Another namespace")
    form.get_by_label("Another namespace").fill("other-computers")
    form.get_by_role("button", name="Enable").click()
    row = page.get_by_role("row").filter(has_text="other-computers")
    expect(row).to_contain_text("yes")
    page.get_by_role("button", name="Resync other-computers").click()
    expect(page.get_by_role("status").filter(has_text="synced again as a whole")).to_be_visible()
    page.get_by_role("button", name="Disable other-computers").click()
    expect(row).to_contain_text("paused")
    page.get_by_role("button", name="Undo").click()
    expect(row).to_contain_text("yes")
    page.get_by_role("button", name="Clear state of other-computers").click()
    assert_accessible(page)
    page.get_by_role("button", name="Clear state", exact=True).click()
    expect(row).to_have_count(0)


def test_a_wrong_address_and_a_wrong_key_are_reported(page: Page, hub: Hub) -> None:
    page.goto("/sync")
    form = page.get_by_role("form", name="Link a hub")
    form.get_by_label("Address").fill("http://127.0.0.1:9")
    form.get_by_label("Key").fill("x")
    form.get_by_role("button", name="Link").click()
    expect(form.get_by_role("alert")).to_contain_text("does not answer")
    form.get_by_label("Address").fill(hub.url)
    form.get_by_role("button", name="Link").click()
    expect(form.get_by_role("alert")).to_contain_text("does not accept the key")


def test_the_secret_is_shown_once(page: Page, hub: Hub) -> None:
    link(page, hub, "new")
    secret = page.get_by_role("region", name="Your secret")
    expect(secret).to_contain_text("mms_")
    assert_accessible(page)
    page.get_by_role("button", name="I have stored it").click()
    expect(secret).to_have_count(0)
    expect(page.get_by_role("region", name="The hub")).to_contain_text("encrypted")
    page.get_by_role("button", name="Unlink").click()
    page.get_by_role("dialog").get_by_role("button", name="Unlink").click()
    expect(page.get_by_role("form", name="Link a hub")).to_be_visible()


def test_a_rejected_record_is_shown_with_its_reason(page: Page, site: Site) -> None:
    with hostile_hub() as newer:
        newer.records = [{"id": "bad-stamp", "registers": {"content": ["999999999999999:00000:a", "x"]}}, "no record"]
        site.me.post("/api/mcp/sync/link", json={"url": newer.url, "key": "mmcp_key"}).raise_for_status()
        site.me.post("/api/mcp/sync/enable", json={"namespace": "both"}).raise_for_status()
        site.me.post("/api/mcp/sync/now").raise_for_status()
        reasons = [one["reason"] for one in site.me.get("/api/mcp/sync/status").json()["set_aside"]]
        page.goto("/sync")
        shown = page.get_by_role("region", name="Set aside")
        expect(shown.get_by_role("listitem")).to_have_count(2)
        expect(shown).to_contain_text("bad-stamp")
        expect(shown).to_contain_text("a record without an id")
        for reason in reasons:
            expect(shown).to_contain_text(reason)
        assert_accessible(page)
        page.get_by_role("button", name="Resync both").click()
        expect(shown).to_have_count(0)
