"""Characters that people do not see are shown by name on every page, and are still there in the editor."""

from playwright.sync_api import Page, expect

from tests.web.conftest import Site

HIDDEN = "a\u202eb\u200bc\x1b[31md\U000e0041e\u3164f"

INVISIBLE = "\u202e\u200b\x1b\U000e0041\u3164"
ROWS = [{"text": text, "day": "2026-01-01"} for text in (HIDDEN, "plain")]
LABELS = """() => [...document.querySelectorAll('*')].flatMap((one) =>
    ['aria-label', 'title', 'alt', 'placeholder'].flatMap((name) => one.getAttribute(name) ?? []))"""


def test_pages_of_every_family_name_them(site: Site, page: Page) -> None:
    note = site.call("memory_create", content=f"{HIDDEN}\n\ntext", title=f"Hidden {HIDDEN}")
    site.call("commit_memory", scope="vault", key="hidden", content=HIDDEN)
    site.call("add_memory", store="hidden", path="a/hidden", content=HIDDEN)
    site.call("create_project", name="hidden")
    entities = [{"name": "Berta", "entity_type": "person", "observations": [HIDDEN]}]
    site.call("create_entities", project="hidden", entities=entities)
    site.call("portal_write", portalUri="mem://tests/hidden", table="t", data=ROWS)
    for path in (
        "/memories?q=31md",
        f"/memories/note/{note['id']}",
        "/memories/open?ref=memory://vault/hidden",
        "/memories/open?ref=stores:hidden/a/hidden",
        "/memories/open?ref=graph:hidden/Berta",
        "/portals/tests/hidden?table=t",
        "/portals/tests/hidden?table=t&tab=charts&by=text",
    ):
        page.goto(path)
        expect(page.locator("body"), path).to_contain_text("a<U+202E>b<U+200B>c")
        drawn = page.locator("body").inner_text()
        assert not set(drawn) & set(INVISIBLE), path
        labels = page.evaluate(LABELS)
        assert not [label for label in labels if set(label) & set(INVISIBLE)], path
