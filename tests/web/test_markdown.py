"""Markdown in the web app: what is drawn of it, and that no text takes too long."""

from playwright.sync_api import Page, expect

from tests.exhaustive import rounds
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site

TEXT = r"""
| name | what |
|------|:----:|
| tea  | **hot** \| cold |
| cake |

- top
  - inner
    1. deep
- [ ] to buy
- [x] bought
  in the shop

3. third
4. fourth

**a *b* c** and _em_ and snake_case_name and ~~gone~~ and \*plain\*, [t](https://example.org/a "title"),
https://example.org/b. (https://example.org/c) __bold__ `*code*`
"""
# Each opens something that nothing closes, again and again.
PIECES = (
    "[",
    "[a",
    "[[a",
    "[a](",
    "![a](b ",
    "**a ",
    "*a ",
    "_a ",
    "__a ",
    "~~a ",
    "`",
    "https://a)",
    "\\",
    "| ",
    "- ",
    "  - ",
)


def test_common_markdown_is_drawn(page: Page, site: Site) -> None:
    made = site.call("memory_create", title="All of markdown", content=TEXT)
    page.goto(f"/memories/note/{made['id']}")
    shown = page.locator("article .markdown")
    expect(shown.get_by_role("columnheader")).to_have_text(["name", "what"])
    expect(shown.get_by_role("cell")).to_have_text(["tea", "hot | cold", "cake", ""])
    expect(shown.locator("> ul > li > ul > li > ol > li")).to_have_text("deep")
    expect(shown.get_by_role("img", name="to do")).to_have_count(1)
    expect(shown.get_by_role("img", name="done")).to_have_count(1)
    expect(shown.locator("li").filter(has_text="bought")).to_contain_text("in the shop")
    expect(shown.locator("> ol")).to_have_attribute("start", "3")
    expect(shown.locator("p > strong")).to_have_text(["a b c", "bold"])
    expect(shown.locator("em")).to_have_text(["b", "em"])
    expect(shown.locator("s")).to_have_text("gone")
    expect(shown).to_contain_text("snake_case_name")
    expect(shown).to_contain_text("*plain*")
    expect(shown.locator("code")).to_have_text("*code*")
    expect(shown.get_by_role("link", name="t", exact=True)).to_have_attribute("href", "https://example.org/a")
    expect(shown.get_by_role("link", name="https://example.org/b")).to_have_attribute("href", "https://example.org/b")
    expect(shown.get_by_role("link", name="https://example.org/c")).to_have_attribute("href", "https://example.org/c")
    assert_accessible(page)


def test_no_text_freezes_the_page(page: Page, site: Site) -> None:
    """If the time of an expression grew with the square of the text, a soak would wait for minutes here."""
    for piece in PIECES:
        content = "Look: " + piece * (rounds(120_000, soak=1_000_000) // len(piece))
        made = site.call("memory_create", title="Full of it", content=content)
        page.goto(f"/memories/note/{made['id']}")
        expect(page.locator("article .markdown")).to_contain_text("Look")


def test_lists_in_lists_end_somewhere(page: Page, site: Site) -> None:
    content = "\n".join(" " * (2 * depth) + f"- item {depth}" for depth in range(400))
    made = site.call("memory_create", title="Deep", content=content)
    page.goto(f"/memories/note/{made['id']}")
    expect(page.locator("article .markdown li")).to_have_count(400)
