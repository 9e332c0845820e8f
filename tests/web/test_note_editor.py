"""Writing notes: no written text is lost, neither the user's nor another client's."""

import re

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, Route, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site


def note(site: Site, title: str, **more: object) -> str:
    made = site.call("memory_create", **{"title": title, "content": "The first text.", **more})
    return str(made["id"])


def edit(page: Page, id_: str) -> None:
    page.goto(f"/memories/note/{id_}?edit=1")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()


def saved(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()


@pytest.fixture
def leave_dialogs(page: Page) -> list[str]:
    """The types of the dialogs that the browser shows before it leaves the page; each is accepted."""
    types: list[str] = []

    def leave(dialog: Dialog) -> None:
        types.append(dialog.type)
        dialog.accept()

    page.on("dialog", leave)
    return types


ACTIVE_AT_FIRST = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('form textarea')) return
  window.activeAtFirst = document.activeElement.tagName
  observer.disconnect()
}).observe(document, {childList: true, subtree: true})
"""


def test_the_editor_has_the_focus_before_another_field_can_be_chosen(page: Page) -> None:
    """Later it would take the focus from a field that is being filled, on a slow machine."""
    page.add_init_script(ACTIVE_AT_FIRST)
    page.goto("/memories/new")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    assert page.evaluate("activeAtFirst") == "TEXTAREA"


def test_saving_sends_my_changes_alone(page: Page, site: Site) -> None:
    id_ = note(site, "Shared", importance=0.3)
    edit(page, id_)
    page.get_by_label("Tags").fill("mine")
    site.call("memory_update", id=id_, content="What an agent wrote.", title="Shared by two", importance=0.9)
    expect(page.get_by_role("heading", level=1)).to_have_text("Shared by two")
    saved(page)
    now = site.call("memory_get", id=id_)
    assert (now["content"], now["title"], now["importance"]) == ("What an agent wrote.", "Shared by two", 0.9)
    assert "mine" in now["tags"]


def test_a_conflicting_change_shows_a_choice(page: Page, site: Site) -> None:
    id_ = note(site, "In two tabs")
    edit(page, id_)
    page.get_by_label("Text", exact=True).fill("My text.")
    site.call("memory_update", id=id_, content="Their text.")
    page.keyboard.press("Control+Enter")
    clash = page.get_by_role("alert", name="Changed meanwhile")
    expect(clash).to_contain_text("Their text.")
    assert_accessible(page)
    assert site.call("memory_get", id=id_)["content"] == "Their text."
    clash.get_by_role("button", name="Keep editing").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("My text.")
    page.get_by_role("button", name="Save", exact=True).click()
    clash.get_by_role("button", name="Overwrite with mine").click()
    expect(page.get_by_role("article")).to_contain_text("My text.")

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Text", exact=True).fill("Mine again.")
    site.call("memory_update", id=id_, content="Theirs again.")
    page.get_by_role("button", name="Save", exact=True).click()
    clash.get_by_role("button", name="Discard mine").click()
    expect(page.get_by_role("article")).to_contain_text("Theirs again.")


@pytest.mark.parametrize("where", ["/memories/new", "note"])
def test_escape_needs_a_confirmation_to_discard(page: Page, site: Site, where: str) -> None:
    page.goto("/memories")
    if where == "note":
        edit(page, note(site, "To be left"))
    else:
        page.get_by_role("link", name="New note").click()
    text = page.get_by_label("Text", exact=True)
    text.fill("Half a thought")
    page.keyboard.press("Escape")
    question = page.get_by_role("dialog", name="Discard your changes?")
    expect(question.get_by_role("button", name="Keep editing")).to_be_focused()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(text).to_have_value("Half a thought")
    expect(text).to_be_focused()
    page.keyboard.press("Escape")
    question.get_by_role("button", name="Discard").click()
    expect(text).to_have_count(0)
    page.goto(page.url.split("?")[0] + "?edit=1" if where == "note" else "/memories/new")
    expect(text).not_to_have_value("Half a thought")


def test_a_draft_stays_where_it_was_written(page: Page, leave_dialogs: list[str]) -> None:
    page.goto("/memories/new")
    text = page.get_by_label("Text", exact=True)
    text.fill("Half a thought")
    page.get_by_role("link", name="Connect").click()
    expect(page.get_by_role("status").filter(has_text="Not saved yet")).to_be_visible()
    page.go_back()
    expect(text).to_have_value("Half a thought")
    page.emulate_media(color_scheme="dark")  # redraws the page
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(text).to_have_value("Half a thought")
    text.press("End")
    text.press_sequentially(", and more")
    page.reload()
    assert leave_dialogs == ["beforeunload"]
    expect(text).to_have_value("Half a thought, and more")
    assert_accessible(page)
    page.get_by_role("button", name="Discard it").click()
    expect(text).to_have_value("")
    page.reload()
    expect(text).to_have_value("")
    assert leave_dialogs == ["beforeunload"]


def test_a_signed_out_user_keeps_the_draft_and_saves_it_later(page: Page, site: Site) -> None:
    page.goto("/memories/new")
    text = page.get_by_label("Text", exact=True)
    text.fill("Written before I was signed out")
    page.context.clear_cookies()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="You are signed out")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(text).to_have_value("Written before I was signed out")
    assert_accessible(page)
    page.context.add_cookies(
        [{"name": name, "value": value, "url": site.url} for name, value in site.me.cookies.items()]
    )
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Written before I was signed out")


def test_a_note_deleted_during_editing_can_be_saved_as_a_new_one(page: Page, site: Site) -> None:
    id_ = note(site, "Soon gone")
    edit(page, id_)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_label("Text", exact=True).fill("But I had more to say.")
    with page.expect_response("**/api/tools/memory_get"):
        site.call("memory_delete", id=id_, soft=False)
    expect(page.get_by_label("Text", exact=True)).to_have_value("But I had more to say.")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Save as a new note").click()
    expect(page.get_by_role("article")).to_contain_text("But I had more to say.")
    assert id_ not in page.url


def test_a_tag_with_spaces_stays_one_and_one_like_a_longer_one_in_the_text_is_shown(page: Page, site: Site) -> None:
    id_ = note(site, "Tagged", content="For #ops-team, and `#code`.", tags=["first idea", "ops", "code"])
    edit(page, id_)
    expect(page.get_by_label("Tags")).to_have_value("first idea, ops, code")
    page.get_by_label("Tags").fill("first idea, second idea, ops")
    saved(page)
    tags = site.call("memory_get", id=id_)["tags"]
    assert {"first idea", "second idea", "ops", "ops-team"} <= set(tags)
    assert not {"first", "idea", "code"} & set(tags)


def test_saving_twice_keeps_one_note(page: Page, site: Site) -> None:
    sent: list[Route] = []
    page.route("**/api/tools/memory_create", lambda route: sent.append(route))
    page.goto("/memories/new")
    page.get_by_label("Text", exact=True).fill("Only once, please")
    with page.expect_request("**/api/tools/memory_create"):
        page.keyboard.press("Control+Enter")
        page.keyboard.press("Control+Enter")
    expect(page.get_by_role("button", name="Saving…")).to_be_disabled()
    page.evaluate("() => new Promise(requestAnimationFrame)")  # what the keys began has begun
    assert len(sent) == 1
    sent[0].continue_()
    expect(page.get_by_role("heading", level=1)).to_have_text("Only once, please")


def test_cancel_after_a_direct_link_leads_to_the_list(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/memories/new?called=Plan")
    page.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(re.compile("/memories$"))
    page.get_by_role("link", name="Connect").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Connect a client")
    page.keyboard.press("n")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("/keys$"))
    page.close()


def test_a_version_that_changed_only_tags_says_so_and_is_restored_whole(page: Page, site: Site) -> None:
    id_ = note(site, "Only tags", tags=["before"], importance=0.2)
    site.call("memory_update", id=id_, tags=["after"], importance=0.7)
    page.goto(f"/memories/note/{id_}?history=1")
    expect(page.locator("ins")).to_have_text([re.compile("tags: after"), re.compile("importance: 0.7")])
    expect(page.locator("del")).to_have_text([re.compile("tags: before"), re.compile("importance: 0.2")])
    page.get_by_role("button", name="Older").click()
    page.get_by_role("button", name="Restore version 1").click()
    expect(page.get_by_role("link", name="#before")).to_be_visible()
    now = site.call("memory_get", id=id_)
    assert now["importance"] == 0.2
    assert "after" not in now["tags"]


def test_the_preview_of_a_long_note_waits_for_a_pause_in_typing(page: Page, site: Site) -> None:
    edit(page, note(site, "Long", content="A *line* of **text** with [[Links]] #tag\n\n" * 1000))
    drawn = page.evaluate(
        """async () => {
          const area = document.querySelector('textarea'), preview = document.querySelector('.preview')
          const seen = new Set([preview.textContent.length])
          for (let key = 0; key < 10; key++) {
            area.setRangeText('x', 0, 0, 'end')
            area.dispatchEvent(new InputEvent('input', { bubbles: true }))
            await new Promise((done) => setTimeout(done, 20))
            seen.add(preview.textContent.length)
          }
          return seen.size
        }"""
    )
    assert drawn <= 3  # a busy machine may pause
    expect(page.get_by_role("region", name="Preview")).to_contain_text("xxxxxxxxxxA line")


def test_a_link_is_completed_from_the_titles_of_notes(page: Page, site: Site) -> None:
    site.call("memory_create", content="What to do after a fire", title="Plan for disasters")
    page.goto("/memories/new")
    text = page.get_by_label("Text", exact=True)
    text.press_sequentially("See [[Plan for dis")
    option = page.get_by_role("listbox", name="Notes to link to").get_by_role("option", name="Plan for disasters")
    expect(option).to_have_attribute("aria-selected", "true")
    assert_accessible(page)
    page.keyboard.press("Escape")  # closes the list, not the editor
    expect(option).to_have_count(0)
    page.keyboard.type("a")
    expect(option).to_be_visible()
    page.keyboard.press("Enter")
    expect(text).to_have_value("See [[Plan for disasters]]")
    expect(page.get_by_role("region", name="Preview").get_by_role("link", name="Plan for disasters")).to_be_visible()
    text.select_text()
    page.get_by_role("button", name="Tasks").click()
    expect(text).to_have_value("- [ ] See [[Plan for disasters]]")


def test_a_pasted_picture_is_refused_with_a_sentence(page: Page) -> None:
    page.goto("/memories/new")
    page.get_by_label("Text", exact=True).evaluate(
        """area => {
            const clipboardData = new DataTransfer()
            clipboardData.items.add(new File(['x'], 'a.png', { type: 'image/png' }))
            area.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
        }"""
    )
    expect(page.get_by_text("A memory holds text only.")).to_be_visible()
