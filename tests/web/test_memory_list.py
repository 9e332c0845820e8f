"""The list of memories: filters with counts, order, pages, a timeline, and actions on what is selected."""

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from tests.processes import run
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, open_context, open_page


def test_memories_are_filtered_and_the_address_has_the_filters(new_account_page: Page, new_account: Site) -> None:
    page = new_account_page
    new_account.call("memory_create", title="In a folder", content="Of plans", folder="plans", importance=0.9)
    gone = new_account.call("memory_create", title="Not here any more", content="Gone")
    new_account.call("memory_delete", id=gone["id"])
    new_account.call("commit_memory", scope="vault", key="tea", content="Darjeeling")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    filters = page.get_by_role("complementary", name="Filters")
    page.goto("/memories")
    expect(found).to_have_count(34)  # of every kind
    expect(page.get_by_text("34 memories")).to_be_visible()
    filters.get_by_role("link", name="Facts 1").click()
    expect(found).to_have_count(1)
    filters.get_by_role("link", name="Notes 33").click()
    expect(found).to_have_count(33)
    expect(page.get_by_role("list", name="Notes over time")).to_have_count(0)  # all of one day
    _check_namespace_and_tag(page)
    _check_more_filters(page)


def _check_namespace_and_tag(page: Page) -> None:
    """Both at once, in the address, removed one by one; and with a search."""
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    namespaces = page.get_by_role("region", name="Namespace")
    namespaces.get_by_role("link", name="area1 10").click()
    expect(found).to_have_count(10)
    expect(namespaces.get_by_role("link")).to_have_count(4)  # the other choices stay
    tags = page.get_by_role("region", name="Tag")
    tags.get_by_role("link", name="#topic3 2").click()
    expect(found).to_have_count(2)
    expect(page).to_have_url(re.compile("namespace=area1.*tag=topic3"))
    expect(page.get_by_role("region", name="Client").get_by_role("link")).to_have_text(["web-app 2"])
    page.get_by_role("button", name="Remove the filter namespace area1").click()
    expect(found).to_have_count(6)
    page.go_back()
    expect(found).to_have_count(2)
    page.get_by_label("Search everything").fill("topic 3")
    expect(found.first).to_contain_text("topic 3")
    page.get_by_role("button", name="Clear all filters").click()


def _check_more_filters(page: Page) -> None:
    """Folder, time, importance, and archived notes, which are restored from the list."""
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    filters = page.get_by_role("complementary", name="Filters")
    filters.get_by_text("More filters").click()
    page.get_by_label("Search everything").fill("")
    page.get_by_label("in folder").fill("plans")
    page.keyboard.press("Enter")
    expect(found).to_contain_text(["In a folder"])
    page.get_by_label("from", exact=True).fill("2020-01-01")
    page.get_by_label("until").fill("2020-12-31")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.get_by_role("button", name="Clear all filters").click()
    page.get_by_label("of importance").select_option("0.9 or more")
    expect(found).to_have_count(1)
    page.get_by_label("of importance").select_option("any")
    page.get_by_label("archived notes").check()
    expect(found).to_contain_text(["Not here any more"])
    assert_accessible(page)
    page.reload()
    page.get_by_label("Select Not here any more").check()
    page.get_by_role("group", name="Selection").get_by_role("button", name="Restore").click()
    expect(page.get_by_text("Nothing found")).to_be_visible()


def test_a_long_list_has_pages_an_order_and_is_the_same_after_back(page: Page, site: Site) -> None:
    for number in range(120):
        site.call("memory_create", title=f"Long {number:03}", content="One of many\n\nline", namespace="long")
    page.goto("/memories?namespace=long")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    parts = page.get_by_role("navigation", name="Parts of the list")
    expect(page.get_by_text("1 to 50 of 120 memories")).to_be_visible()
    page.get_by_label("Sort").select_option("by title")
    expect(found.first).to_contain_text("Long 000")
    parts.get_by_role("link", name="Next").click()
    expect(found.first).to_contain_text("Long 050")
    expect(parts).to_contain_text("Page 2 of 3")
    assert_accessible(page)
    link = found.filter(has_text="Long 093").get_by_role("link")
    link.scroll_into_view_if_needed()
    position = page.evaluate("scrollY")
    assert position > 0
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Long 093")
    page.go_back()
    expect(link).to_be_focused()
    assert abs(page.evaluate("scrollY") - position) <= 1
    parts.get_by_role("link", name="Last").click()
    expect(found).to_have_count(20)
    expect(parts.get_by_role("link", name="Next")).to_have_count(0)


def test_selected_memories_are_tagged_moved_and_archived_with_undo(page: Page, site: Site) -> None:
    for number in range(55):
        site.call("memory_create", title=f"Bulk {number:02}", content="Words", namespace="bulk")
    page.goto("/memories?namespace=bulk&order=title")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    selection = page.get_by_role("group", name="Selection")
    found.nth(1).get_by_role("link").focus()
    page.keyboard.press("x")
    page.get_by_label("Select Bulk 03").click(modifiers=["Shift"])
    expect(selection).to_contain_text("3 selected")
    selection.get_by_role("button", name="Tag").click()
    page.get_by_label("Tags").fill("chosen")
    page.keyboard.press("Enter")
    tag = page.get_by_role("region", name="Tag").get_by_role("link", name="#chosen 3")
    expect(tag).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Undo").click()
    expect(tag).to_have_count(0)

    selection.get_by_role("button", name="Move").click()
    page.get_by_label("Namespace to move to").fill("bulk/moved")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="bulk/moved 3")).to_be_visible()
    page.get_by_role("button", name="Undo").last.click()
    expect(page.get_by_role("link", name="bulk/moved 3")).to_have_count(0)

    _check_archiving_and_undo(page, site)


def _check_archiving_and_undo(page: Page, site: Site) -> None:
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    selection = page.get_by_role("group", name="Selection")
    page.reload()
    page.get_by_label("Select all on this page").check()
    selection.get_by_role("button", name="Archive").click()
    expect(found).to_have_count(5)  # those of the next page
    page.get_by_role("button", name="Undo").click()
    expect(found).to_have_count(50)
    page.get_by_label("Select all on this page").check()
    selection.get_by_role("button", name="Select all 55").click()
    expect(selection).to_contain_text("55 selected")
    selection.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("55 memories archived")).to_be_visible()
    expect(page.get_by_text("Nothing found")).to_be_visible()
    _restore_slowly(page, site)
    expect(page.get_by_text("55 memories restored")).to_be_visible()
    expect(found).to_have_count(50)


def _restore_slowly(page: Page, site: Site) -> None:
    """Undo, and let another tab of the user show the first part before the rest is restored."""
    path = "/api/memories/restore-many"
    held: list[Route] = []
    page.route(f"**{path}", lambda route: held.append(route))
    with page.expect_request(f"**{path}") as sent:
        page.get_by_role("button", name="Undo").last.click()
    refs = json.loads(sent.value.post_data or "")["refs"]
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_text("Nothing found")).to_be_visible()
    first = site.me.post(path, json={"refs": refs[:31]}).json()
    expect(other.get_by_role("list", name="Found").get_by_role("listitem").first).to_be_visible()
    rest = site.me.post(path, json={"refs": refs[31:]}).json()
    held[0].fulfill(json={"refs": first["refs"] + rest["refs"], "refused": first["refused"] + rest["refused"]})
    other.close()


def test_archived_notes_are_erased_for_good_after_a_question(page: Page, site: Site) -> None:
    id_ = site.call("memory_create", title="Old address", content="Harbour street", namespace="erased")["id"]
    page.goto("/memories")
    first = page.get_by_role("list", name="Found").get_by_role("listitem").first
    expect(first).to_contain_text("Old address note · erased · ")
    site.call("memory_delete", id=id_)
    page.goto("/memories?namespace=erased&archived=true")
    page.get_by_label("Select Old address").check()
    page.get_by_role("button", name="Delete for good…").click()
    assert_accessible(page)
    page.get_by_role("button", name="Delete 1 note for good").click()
    expect(page.get_by_text("1 memory deleted for good")).to_be_visible()
    expect(page.get_by_text("Nothing found")).to_be_visible()
    assert site.me.get("/api/open", params={"ref": f"memory://note/{id_}"}).status_code == 404


def test_what_was_found_about_one_person_is_deleted_in_every_family(browser: Browser, new_account: Site) -> None:
    new_account.call("memory_create", title="Zoltan called", content="Zoltan wants the plan.")
    new_account.call("commit_memory", scope="vault", key="zoltan-phone", content="Zoltan: 555-0199")
    new_account.call("create_project", name="people")
    new_account.call("create_entities", project="people", entities=[{"name": "Zoltan", "entity_type": "person"}])
    with open_context(browser, new_account) as context, open_page(context, new_account) as page:
        page.goto("/memories?q=Zoltan")
        found = page.get_by_role("list", name="Found").get_by_role("listitem")
        expect(found.filter(has_text=re.compile("zoltan", re.IGNORECASE))).to_have_count(3)
        page.get_by_label("Select all on this page").check()
        page.get_by_role("group", name="Selection").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("3 memories deleted")).to_be_visible()
        expect(found.filter(has_text=re.compile("zoltan", re.IGNORECASE))).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(found.filter(has_text=re.compile("zoltan", re.IGNORECASE))).to_have_count(3)


REASONS = {"On-call rota": "its words and its meaning", "Ann's birthday": "its words", "Embeddings": "its meaning"}


def answer_searches(page: Page, reasons: dict[str, str]) -> None:
    """The server of these tests has no embedder, which would find some by their meaning."""
    hits = [
        {"family": "notes", "ref": f"memory://note/{number}", "title": title, "snippet": "", "score": 1.0, "why": why}
        | {"updated_at": f"2026-11-0{number + 1}T00:00:00Z"}
        for number, (title, why) in enumerate(reasons.items())
    ]
    page.route("**/api/tools/recall_memories", lambda route: route.fulfill(json={"hits": hits, "incomplete": []}))


def test_the_hits_of_a_search_are_sorted(page: Page) -> None:
    answer_searches(page, REASONS)
    page.goto("/memories?q=Ann")
    titles = page.get_by_role("list", name="Found").get_by_role("listitem").locator("b")
    expect(titles).to_have_text(["On-call rota", "Ann's birthday", "Embeddings"])  # the best match first
    page.get_by_label("Sort").select_option("last changed")
    expect(titles).to_have_text(["Embeddings", "Ann's birthday", "On-call rota"])
    expect(page).to_have_url(re.compile("order=updated"))
    page.get_by_label("Sort").select_option("by title")
    expect(titles).to_have_text(["Ann's birthday", "Embeddings", "On-call rota"])
    assert_accessible(page)


def test_the_notes_that_fit_a_search_and_a_filter_are_sorted(new_account_page: Page) -> None:
    page = new_account_page
    page.goto("/memories?q=topic&namespace=area1&order=title")
    titles = page.get_by_role("list", name="Found").get_by_role("listitem").locator("b")
    expect(titles).to_have_text([f"Note {number}" for number in (1, 10, 13, 16, 19, 22, 25, 28, 4, 7)])
    page.get_by_label("Sort").select_option("last changed")
    expect(titles).to_have_text([f"Note {number}" for number in (28, 25, 22, 19, 16, 13, 10, 7, 4, 1)])


def test_a_search_whose_words_are_nowhere_says_so(page: Page, site: Site) -> None:
    answer_searches(page, {"Embeddings": "its meaning"})
    page.goto("/memories?q=zzqqxx")
    expect(page.get_by_role("status").filter(has_text="No memory has the words “zzqqxx”.")).to_be_visible()
    expect(page.get_by_role("list", name="Found")).to_contain_text("similar in meaning")
    assert_accessible(page)
    page.unroute_all()
    page.reload()
    expect(page.get_by_text("Nothing found for “zzqqxx”.")).to_be_visible()


def test_hits_that_have_none_of_the_words_can_be_left_out(page: Page) -> None:
    answer_searches(page, REASONS)
    page.goto("/memories?q=Ann")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(found.filter(has_text="similar in meaning")).to_contain_text(["Embeddings"])
    page.get_by_label("Only with these words").check()
    expect(found).to_have_count(2)
    expect(page.get_by_text("2 memories", exact=True)).to_be_visible()
    page.go_back()
    expect(found).to_have_count(3)
    page.get_by_label("Select all on this page").check()
    expect(page.get_by_text("1 selected memory is only similar in meaning, without the words “Ann”.")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Leave it out").click()
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(page.get_by_label("Select Embeddings")).not_to_be_checked()
    answer_searches(page, {"Embeddings": "its meaning"})
    page.goto("/memories?q=Ann&words=1")
    page.get_by_role("button", name="Show similar ones").click()
    expect(found).to_have_count(1)


def test_beside_a_search_its_hits_are_counted(new_account_page: Page, new_account: Site) -> None:
    page = new_account_page
    new_account.call("commit_memory", scope="vault", key="plan", content="For a disaster")
    new_account.call("commit_memory", scope="vault", key="tea", content="Darjeeling")
    page.goto("/memories?q=disaster")
    expect(page.get_by_text("Among the 3 memories found:")).to_be_visible()
    kinds = page.get_by_role("region", name="Kind").get_by_role("link")
    expect(kinds).to_have_text(["All", "Notes 2", "Facts 1", "Files", "Entities", "Tables"])
    expect(page.get_by_role("region", name="Namespace").get_by_role("link")).to_have_text(["default 2"])
    expect(page.get_by_role("region", name="Tag").get_by_role("link")).to_have_text(["#ops 2"])
    page.get_by_role("link", name="Notes 2").click()
    expect(page.get_by_text("Among the 2 memories found:")).to_be_visible()
    page.get_by_label("Search everything").fill("")
    expect(page.get_by_role("region", name="Namespace").get_by_role("link")).to_have_count(4)


def test_all_that_is_selected_is_shown(new_account_page: Page, new_account: Site) -> None:
    """A list does not move while it is read: what was found since is not selected unseen."""
    page = new_account_page
    page.goto("/memories?q=disaster")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(found).to_have_count(2)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    new_account.call("memory_create", title="Another disaster", content="Later")
    show = page.get_by_role("button", name="1 new – show")
    expect(show).to_be_visible()
    page.get_by_label("Select all on this page").check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    show.click()
    expect(found).to_have_count(3)
    expect(page.get_by_label("Select Another disaster")).not_to_be_checked()


def test_filtered_notes_that_have_none_of_the_words_can_be_left_out(page: Page) -> None:
    def found(route: Route) -> None:
        notes = route.fetch().json()["notes"]
        assert [note["why"] for note in notes] == ["its words"] * len(notes)
        route.fulfill(json={"notes": [note | {"why": "its meaning"} for note in notes[:3]] + notes[3:5], "next": None})

    page.route(re.compile(r"/api/notes\?"), found)
    page.goto("/memories?q=topic&namespace=area1")
    found_notes = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(found_notes.filter(has_text="similar in meaning")).to_have_count(3)
    page.get_by_label("Only with these words").check()
    expect(found_notes).to_have_count(2)
    expect(page.get_by_text("2 memories", exact=True)).to_be_visible()
    page.go_back()
    expect(found_notes).to_have_count(5)


def test_the_timeline_leads_to_the_notes_of_a_time(page: Page, site: Site, tmp_path: Path) -> None:
    written = [{"memory": f"Old {year}", "created_at": f"{year}-03-05T12:00:00Z"} for year in range(2019, 2024)]
    (tmp_path / "mem0.json").write_text(json.dumps(written), encoding="utf-8")
    run("import", "mem0", tmp_path / "mem0.json", "--namespace", "old", "--data-dir", site.server.data_dir, check=True)
    page.goto("/memories?namespace=old")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    bars = page.get_by_role("list", name="Notes over time")
    expect(found).to_have_count(5)
    bars.get_by_role("link", name=re.compile("Mar 2019.*: 1 note$")).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(found).to_contain_text(["Old 2019"])
    expect(bars.get_by_role("link", name=re.compile("Mar 2019"))).to_have_attribute("aria-current", "true")
    assert_accessible(page)
    bars.get_by_role("link", name=re.compile("Mar 2019")).click()
    expect(found).to_have_count(5)
