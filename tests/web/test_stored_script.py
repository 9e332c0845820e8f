"""Script that an agent stored in any field is text on every page that shows it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.web.conftest import Site

SCRIPT = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'
LINK = """[x](javascript:window.attacked=1) <a href='javascript:window.attacked=1'>y</a> ![z](x" onerror="attacked=1)"""
PAGES = tuple(f"/{name}" for name in ("", "memories", "graph", "stores", "portals", "keys", "sessions", "settings"))


@pytest.fixture(scope="module")
def stored(site: Site) -> list[str]:
    """Addresses of what was stored, with script in every text field that has no rule for its characters."""
    note = site.call("memory_create", content=f"{SCRIPT}\n\n{LINK} #tag", title=SCRIPT, metadata={"a": SCRIPT})
    site.call("commit_memory", scope="vault", key="script", content=SCRIPT + LINK, tags=["<b>tag</b>"])
    site.call("add_memory", store="scripts", path="a/script", content=SCRIPT + LINK, tags=["<i>x</i>"])
    site.call("create_project", name="scripts")
    entities = [{"name": SCRIPT, "entity_type": "<b>t</b>", "observations": [SCRIPT, LINK]}]
    site.call("create_entities", project="scripts", entities=entities)
    site.call(
        "portal_write", portalUri="mem://tests/scripts", table="t", data=[{"<b>column</b>": SCRIPT, "text": LINK}]
    )
    return [
        f"/memories/note/{note['id']}",
        f"/memories?q={SCRIPT}",
        "/memories/open?ref=vault:script",
        "/portals/tests/scripts?table=t",
        "/graph?project=scripts",
        "/stores/scripts/a/script?file=1",
    ]


def test_no_page_runs_what_was_stored(
    site: Site, page: Page, stored: list[str], record_property: Callable[[str, object], None]
) -> None:
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    for path in (*PAGES, *stored):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("window.attacked") is None, path
    assert dialogs == []
    record_property("attempts", len(PAGES) + len(stored))
