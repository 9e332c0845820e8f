"""Files of stores in the web app: no written text is lost."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site


def edit(page: Page, path: str, text: str) -> None:
    page.goto(f"/stores/default/{path}?file=1")
    page.get_by_role("link", name="Edit", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.get_by_label("Text", exact=True).fill(text)


def content(site: Site, path: str) -> str:
    memory = site.call("get_memory", store="default", path=path)
    return str(memory["content"]).strip()


@pytest.fixture
def file(site: Site, request: pytest.FixtureRequest) -> str:
    path = f"edited/{re.sub(r'[^a-z]+', '-', request.node.name)[:40].strip('-')}"
    site.call("add_memory", store="default", path=path, content="At first", tags=["kept"])
    return path


def test_a_file_is_edited_by_keyboard_and_the_address_says_so(page: Page, site: Site, file: str) -> None:
    edit(page, file, "Changed")
    expect(page).to_have_url(re.compile("edit=1"))
    assert_accessible(page)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article")).to_contain_text("Changed")
    expect(page.get_by_role("link", name="Edit", exact=True)).to_be_focused()
    assert content(site, file) == "Changed"


def test_the_second_of_two_saves_shows_the_conflict(page: Page, site: Site, file: str) -> None:
    edit(page, file, "Mine")
    site.call("update_memory", store="default", path=file, content="Theirs")
    page.get_by_role("button", name="Save").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Theirs")
    assert_accessible(page)
    assert content(site, file) == "Theirs"
    alert.get_by_role("button", name="Overwrite with mine").click()
    expect(page.get_by_role("article")).to_contain_text("Mine")
    assert content(site, file) == "Mine"

    edit(page, file, "Mine again")
    site.call("update_memory", store="default", path=file, content="Theirs again")
    page.get_by_role("button", name="Save").click()
    alert.get_by_role("button", name="Discard mine").click()
    expect(page.get_by_role("article")).to_contain_text("Theirs again")
    assert content(site, file) == "Theirs again"


def test_a_draft_is_kept_and_discarded_only_after_a_confirmation(page: Page, site: Site, file: str) -> None:
    edit(page, file, "Half a sentence")
    page.get_by_role("link", name="ann", exact=True).or_(page.get_by_role("link", name="people/")).first.click()
    expect(page.get_by_text("Not saved yet")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Text", exact=True)).to_have_value("Half a sentence")
    page.on("dialog", lambda question: question.accept())
    page.reload()
    expect(page.get_by_label("Text", exact=True)).to_have_value("Half a sentence")
    page.keyboard.press("Escape")
    question = page.get_by_role("dialog", name="Discard your changes?")
    question.get_by_role("button", name="Keep editing").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("Half a sentence")
    page.get_by_role("button", name="Cancel").click()
    question.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("article")).to_contain_text("At first")
    page.get_by_role("link", name="Edit", exact=True).click()
    expect(page.get_by_label("Text", exact=True)).to_have_value(re.compile("At first"))


def test_a_new_file_is_not_lost_and_not_written_twice(page: Page, site: Site) -> None:
    page.goto("/stores/default/drafts?new=1")
    page.get_by_label("Path").fill("drafts/new")
    page.get_by_label("Tags").fill("two words, one")
    page.get_by_label("Text", exact=True).fill("A new one")
    page.get_by_role("link", name="Graph", exact=True).click()
    page.go_back()
    expect(page.get_by_label("Text", exact=True)).to_have_value("A new one")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keep editing").click()
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=2, name="drafts/new")).to_be_visible()
    memory = site.call("get_memory", store="default", path="drafts/new")
    assert memory["metadata"]["tags"] == ["two words", "one"]


def test_a_file_that_is_deleted_while_one_edits_can_be_written_again(page: Page, site: Site, file: str) -> None:
    edit(page, file, "Still here")
    site.call("remove_memory", store="default", path=file)
    expect(page.get_by_role("navigation", name="Files of default").get_by_role("link", name=file)).to_have_count(0)
    expect(page.get_by_label("Text", exact=True)).to_have_value("Still here")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("was deleted")
    page.get_by_role("button", name="Save as a new file").click()
    expect(page.get_by_role("article")).to_contain_text("Still here")
    assert site.call("get_memory", store="default", path=file)["metadata"]["tags"] == ["kept"]


def test_a_file_that_is_not_utf_8_is_restored_or_needs_a_confirmation(page: Page, site: Site) -> None:
    file = site.server.data_dir / "stores" / "default" / "latin.md"
    file.write_bytes("Zoë".encode("latin-1"))
    page.goto("/stores/default/latin?file=1")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", level=2, name="latin")).to_be_visible()
    assert file.read_bytes() == "Zoë".encode("latin-1")

    long = site.server.data_dir / "stores" / "default" / f"{'n' * 130}.md"
    long.write_text("A name from elsewhere", encoding="utf-8")
    page.goto(f"/stores/default/{'n' * 130}?file=1")
    page.get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("cannot be undone")
    assert_accessible(page)
    question.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_text("is deleted")).to_be_visible()
    assert not long.exists()


def test_several_undos_wait_and_none_leaves_while_it_is_looked_at(page: Page, site: Site) -> None:
    for name in ("one", "two"):
        site.call("add_memory", store="default", path=f"undone/{name}", content=name)
    toasts = page.locator(".toast")
    page.clock.install()
    for name in ("one", "two"):
        page.goto(f"/stores/default/undone/{name}?file=1") if name == "one" else page.get_by_role(
            "link", name=name, exact=True
        ).click()
        expect(page.get_by_role("heading", level=2, name=f"undone/{name}")).to_be_visible()
        page.get_by_role("button", name="Delete").click()
        expect(toasts.filter(has_text=f"undone/{name} is deleted")).to_be_visible()
    first = toasts.filter(has_text="undone/one").get_by_role("button", name="Undo")
    first.focus()
    page.clock.run_for(60_000)
    first.click()
    expect(page.get_by_text("undone/one is restored")).to_be_visible()
    second = toasts.filter(has_text="undone/two").get_by_role("button", name="Undo")
    second.hover()
    page.clock.run_for(60_000)
    second.click()
    expect(page.get_by_text("undone/two is restored")).to_be_visible()
    page.mouse.move(0, 0)
    page.get_by_role("main").focus()
    page.clock.run_for(60_000)
    expect(toasts).to_have_count(0)


def test_missing_files_are_explained(page: Page) -> None:
    page.goto("/stores/default/people/nope")
    expect(page.get_by_role("alert")).to_contain_text("There is no people / nope in default.")
    page.goto("/stores/default/people")
    expect(page.get_by_text("people: choose a file.")).to_be_visible()


def test_long_names_without_a_space_break(context: BrowserContext, site: Site) -> None:
    word = "w" * 110
    note = site.call("memory_create", title=word, content="Long", tags=[word])
    site.call("memory_update", id=note["id"], content="Longer")
    site.call("add_memory", store="default", path=f"long/{word}", content="Long")
    page = context.new_page()
    page.set_viewport_size({"width": 375, "height": 740})
    for address in (
        f"/memories?tag={word}",
        f"/memories/note/{note['id']}",
        f"/memories/note/{note['id']}?history=1",
        f"/stores/default/long/{word}?file=1",
        f"/stores/default/long/{word}?file=1&edit=1",
        "/",
    ):
        page.goto(address)
        expect(page.get_by_text(word).first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)  # all of the page is there
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, address
    page.close()
    site.call("memory_delete", id=note["id"])
