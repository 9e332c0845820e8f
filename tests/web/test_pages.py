"""Every page of the web app, in a real browser."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.exhaustive import sample
from tests.processes import run
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site, Watched, run_users_command, sign_in_link
from tests.wire import Stdio

PAGES = {
    "/": "Home",
    "/memories": "Memories",
    "/memories?q=backup": "Memories",
    "/memories?filters=1&namespace=area1&min_importance=0.5": "Memories",
    "/memories/new": "New note",
    "/conversations": "Conversations",
    "/conversations?given=1": "Conversations",
    "/graph": "Graph",
    "/graph?project=house": "Graph",
    "/stores/default/people/ann?file=1": "Files",
    "/stores/default/people?new=1": "Files",
    "/portals": "Tables",
    "/memories/pairs": "Similar notes",
    "/portals/tests/shop?table=refunds": "tests/shop",
    "/portals/tests/shop?tab=charts&by=buyer": "tests/shop",
    "/portals/tests/shop?tab=schema": "tests/shop",
    "/portals/tests/shop?tab=sql&query=SELECT+1": "tests/shop",
    "/portals/tests/shop?tab=statistics": "tests/shop",
    "/keys": "Connect a client",
    "/writes": "Who wrote what",
    "/sessions": "Sessions",
    "/people": "People",
    "/sync": "Sync",
    "/import": "Import and export",
    "/settings": "Settings",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_opens_and_is_accessible(browser: Browser, site: Site, theme: str) -> None:
    context = browser.new_context(
        base_url=site.url,
        locale="en-US",
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        viewport={"width": 1200, "height": 800},
    )
    context.add_cookies([{"name": name, "value": value, "url": site.url} for name, value in site.me.cookies.items()])
    page, watched = context.new_page(), Watched(site.url)
    watched.watch(page)
    for address, heading in sample(list(PAGES.items()), 1 if theme == "light" else 3):  # themes differ by colours alone
        page.goto(address)
        expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
        expect(page.get_by_label("Loading")).to_have_count(0)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        assert_accessible(page)
    assert watched.wrong == []
    context.close()


def test_every_address_is_answered_by_the_server_too(site: Site) -> None:
    assert {address: site.me.get(address).status_code for address in PAGES} == dict.fromkeys(PAGES, 200)


def test_signed_out_visitors_sign_in_and_return_to_the_page(browser: Browser, site: Site) -> None:
    page = browser.new_page(base_url=site.url)
    answer = page.goto("/portals?x=1")

    assert answer is not None
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.locator("form").get_attribute("action") == "/sign-in?next=/portals%3Fx%3D1"
    expect(page.get_by_text("claude mcp add")).to_be_visible()
    assert_accessible(page)
    page.close()


def test_the_policy_allows_nothing_but_our_own_files(site: Site) -> None:
    policy = site.me.get("/").headers["content-security-policy"]

    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    script = site.me.get("/assets/app.js")
    assert script.headers["x-content-type-options"] == "nosniff"
    assert site.me.get("/assets/app.js", headers={"If-None-Match": script.headers["etag"]}).status_code == 304


def test_the_first_page_is_small_because_scripts_and_styles_are_compressed(site: Site) -> None:
    page = site.me.get("/").text
    imported = re.findall(r'from"\./([\w-]+\.js)"', site.me.get("/assets/app.js").text)
    assert imported
    first = {*re.findall(r'(?:src|href)="(/assets/[^"]+)"', page), *(f"/assets/{name}" for name in imported)}
    sizes = {path: int(site.me.get(path).headers["content-length"]) for path in first}
    assert "/assets/app.js" in sizes
    assert sum(sizes.values()) < 100_000 - 20_000  # the rest is for the answers to its requests
    whole = site.me.get("/assets/app.js", headers={"Accept-Encoding": "identity"})
    assert whole.content == site.me.get("/assets/app.js").content
    assert int(whole.headers["content-length"]) == len(whole.content)
    assert "content-encoding" not in whole.headers
    assert whole.headers["vary"] == "Accept-Encoding"


def test_a_number_on_home_leads_to_its_list(page: Page) -> None:
    page.goto("/")
    page.get_by_role("list", name="Totals").get_by_role("link", name="Rows in tables").click()
    expect(page).to_have_url(re.compile("/portals$"))
    page.go_back()
    page.get_by_role("table", name="Top tags").get_by_role("link", name="topic1", exact=True).click()
    expect(page.get_by_role("list", name="Found").get_by_role("link")).to_have_count(6)
    page.go_back()
    expect(page.get_by_role("table", name="Top tags")).not_to_contain_text("web-app")  # the server adds that tag


def test_home_shows_the_chosen_time_and_the_latest_writes_of_every_family(page: Page, site: Site) -> None:
    page.goto("/")
    expect(page.get_by_role("img", name="Calls of clients over 30 days")).to_be_visible()
    expect(page.get_by_role("img", name="Calls of clients over 30 days").locator(".u-label")).to_have_text(
        ["calls", "errors"]
    )
    heights = page.get_by_role("group", name="How far back").evaluate("group => group.offsetHeight")
    assert heights < 50  # in a row
    page.get_by_role("group", name="How far back").get_by_role("button", name="24 hours").click()
    expect(page).to_have_url(re.compile(r"\?range=24h$"))
    expect(page.get_by_role("img", name="Calls of clients over 24 hours")).to_be_visible()
    page.get_by_role("button", name="a year").click()
    page.reload()
    expect(page.get_by_role("button", name="a year")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("img", name="Calls of clients over a year")).to_be_visible()

    writes = page.get_by_role("region", name="Recent writes")
    site.call("add_memory", store="default", path="places/porto", content="On the Douro.")
    site.call("commit_memory", scope="vault", key="favourite-cake", content="Pastel de nata")
    site.call("create_entities", project="house", entities=[{"name": "Attic", "entity_type": "place"}])
    for title, heading in (("places/porto", "Files"), ("favourite-cake", "favourite-cake"), ("Attic", "Attic")):
        expect(writes.get_by_role("link", name=title, exact=True)).to_be_visible()
        writes.get_by_role("link", name=title, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        page.go_back()
    today = writes.get_by_role("region", name="Today")
    expect(today).to_contain_text("Pastel de nata")
    headings = page.get_by_role("main").get_by_role("heading").all_text_contents()
    assert headings.index("What was learned") < headings.index("Top tags") < headings.index("Found by meaning Settings")
    page.get_by_role("search").get_by_label("Search everything").fill("first flush")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Found")).to_contain_text("favourite-tea")


def test_the_first_day_shows_how_to_begin(browser: Browser, site: Site) -> None:
    name = "first-day"
    run_users_command(site.server, "add", name)
    page = browser.new_page(base_url=site.url)
    page.goto(sign_in_link(site.server, name))
    steps = page.get_by_role("region", name="First steps")
    expect(steps.get_by_role("link", name="Connect a client")).to_be_visible()
    expect(page.get_by_role("img")).to_have_count(0)
    expect(page.get_by_role("list", name="Totals")).to_have_count(0)
    assert_accessible(page)
    steps.get_by_role("link", name="Write a note").click()
    page.get_by_label("Text", exact=True).fill("My first note")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article")).to_contain_text("My first note")  # it is saved
    page.get_by_role("link", name="Home").click()
    expect(page.get_by_role("region", name="Today")).to_contain_text("My first note")
    page.close()


def test_every_number_on_home_leads_to_a_list_as_long(new_account_page: Page) -> None:
    page = new_account_page
    page.goto("/")
    page.get_by_role("table", name="Top tags").get_by_role("link", name="6 of topic2").click()
    expect(page.get_by_role("list", name="Found").get_by_role("listitem")).to_have_count(6)
    page.go_back()
    page.get_by_role("list", name="Totals").get_by_role("link", name="Namespaces").click()
    expect(page.get_by_role("region", name="Namespace").get_by_role("link")).to_have_count(4)


def test_each_family_can_be_looked_through(page: Page) -> None:
    for family, title in (
        ("vault", "favourite-tea"),
        ("stores", "people/ann"),
        ("graph", "Kitchen"),
        ("portals", "shop"),
    ):
        page.goto(f"/memories?family={family}")
        expect(page.get_by_role("list", name="Found")).to_contain_text(title)


def test_one_box_searches_every_family_and_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/memories")
    page.get_by_role("main").focus()
    page.keyboard.press("/")
    page.keyboard.type("first flush")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(found.first).to_contain_text("favourite-tea")  # in the list of everything, other memories are before it
    expect(page).to_have_url(re.compile(r"q=first\+flush"))

    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("favourite-tea")
    page.go_back()
    expect(page.get_by_label("Search everything")).to_have_value("first flush")


def test_words_are_marked_and_a_search_that_finds_nothing_says_what_to_do(page: Page) -> None:
    page.goto("/memories?q=disks")
    found = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(found.locator("mark", has_text="disk").first).to_be_visible()
    expect(found.first).to_contain_text(re.compile("note · default · by agents|note · default · written here"))
    expect(found.first.locator("time")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^\d+ memor(y|ies)$"))).to_be_visible()
    assert_accessible(page)
    page.get_by_label("Search everything").fill("zyzzogeton")
    nothing = page.get_by_role("status").filter(has_text="Nothing found for “zyzzogeton”")
    expect(nothing).to_contain_text("Try fewer or other words")
    kinds = page.get_by_role("region", name="Kind")
    kinds.get_by_role("link", name="Facts").click()
    nothing.get_by_role("button", name="Search all families").click()
    expect(kinds.get_by_role("link", name="All")).to_have_attribute("aria-current", "true")
    assert_accessible(page)
    nothing.get_by_role("button", name="Clear the search").click()
    expect(found.first).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("zyzzogeton")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("No memory found for “zyzzogeton”")


def test_a_note_is_written_edited_restored_archived_with_undo_and_deleted(page: Page, site: Site) -> None:
    page.goto("/memories")
    page.get_by_role("main").focus()
    page.keyboard.press("n")
    page.get_by_label("Title").fill("Tea")
    page.get_by_label("Text", exact=True).fill(
        "**Green** tea, see [[Backups]] and [[Cups]] <script>alert(1)</script> #drinks"
    )
    preview = page.get_by_role("region", name="Preview")
    expect(preview.locator("strong")).to_have_text("Green")
    expect(preview).to_contain_text("<script>")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tea")
    expect(page.get_by_text("written here")).to_be_visible()
    expect(page.get_by_text("no note yet")).to_be_visible()
    id_ = page.url.rsplit("/", 1)[1]
    assert site.call("memory_get", id=id_)["source"] == "ui"

    page.get_by_role("link", name="Edit").click()
    page.get_by_role("searchbox", name="Link to").fill("Disaster plan")
    page.get_by_role("button", name="Disaster plan", exact=True).click()
    expect(page.get_by_role("button", name="Remove the link to Disaster plan")).to_be_visible()
    page.get_by_label("Text", exact=True).fill("Black tea")
    page.get_by_label("Tags").fill("hot")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="#hot")).to_be_visible()
    page.get_by_role("link", name="History").click()
    expect(page.locator("del").filter(has_text="Green")).to_be_visible()
    page.get_by_role("button", name="Older").click()
    page.get_by_role("button", name="Restore version 1").click()
    expect(page.get_by_role("article").locator("strong")).to_have_text("Green")
    _archive_and_delete(page, site, id_)


def _archive_and_delete(page: Page, site: Site, id_: str) -> None:
    page.get_by_role("button", name="Archive").click()
    expect(page).to_have_url(re.compile("/memories$"))
    assert site.call("memory_get", id=id_)["archived"]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").filter(has_text="is restored")).to_be_visible()
    assert not site.call("memory_get", id=id_)["archived"]

    page.goto(f"/memories/note/{id_}")
    page.get_by_role("button", name="Delete for good…").click()
    page.get_by_role("button", name="Delete 1 note for good").click()
    expect(page).to_have_url(re.compile("/memories$"))
    expect(page.get_by_text("1 memory deleted for good")).to_be_visible()
    assert site.me.get("/api/open", params={"ref": f"memory://note/{id_}"}).status_code == 404


def test_an_agents_writes_appear_without_a_reload(page: Page, site: Site) -> None:
    page.goto("/memories")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    first = page.get_by_role("list", name="Found").get_by_role("link").first
    before = first.inner_text()
    site.server.modern_call("memory_create", title="From an agent", content="It says hello.")
    news = page.get_by_role("button", name="1 new – show")
    expect(news).to_be_visible()
    assert first.inner_text() == before  # nothing moves under the reader's eyes
    assert_accessible(page)
    news.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="From an agent")).to_be_focused()
    expect(news).to_have_count(0)


def test_the_graph_is_a_picture_and_a_list_of_the_chosen_depth(page: Page) -> None:
    page.goto("/graph")
    expect(page.get_by_role("img", name=re.compile(r"^Graph of \d{2,} nodes"))).to_be_visible()
    page.get_by_role("link", name="Around Backups").click()
    expect(page.get_by_role("img", name=re.compile("^Graph of [2-4] nodes"))).to_be_visible()
    page.get_by_role("slider").fill("2")
    expect(page).to_have_url(re.compile("depth=2"))
    page.get_by_label("Graph of", exact=True).select_option("house")
    page.get_by_role("link", name="Kitchen").click()
    expect(page.get_by_text("has a window", exact=True)).to_be_visible()


def test_a_large_project_is_shown_by_and_by_the_best_connected_first(page: Page, site: Site) -> None:
    site.call("create_project", name="city")
    for start in range(0, 1200, 200):
        entities = [{"name": f"Street {n}", "entity_type": "street"} for n in range(start, start + 200)]
        site.call("create_entities", project="city", entities=entities)
    site.call("create_entities", project="city", entities=[{"name": "Market", "entity_type": "square"}])
    relations = [{"from": f"Street {n}", "to": "Market", "relation_type": "leads to"} for n in range(40)]
    site.call("create_relations", project="city", relations=relations)
    page.goto("/graph?project=city")
    expect(page.get_by_text("500 nodes of 1,201")).to_be_visible()
    expect(page.get_by_role("list", name="Nodes").get_by_role("link").first).to_have_text("Market")
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_text("1,000 nodes of 1,201")).to_be_visible()
    expect(page).to_have_url(re.compile("limit=1000"))
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_text("1,201 nodes, 40 links")).to_be_visible()
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.get_by_label("Find in the graph").fill("market")
    expect(page.get_by_role("list", name="Nodes").get_by_role("link")).to_have_count(1)


def test_one_box_leads_everywhere(page: Page, site: Site) -> None:
    page.goto("/")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to a page")
    expect(box).to_be_focused()
    assert_accessible(page)
    page.keyboard.type("sess")
    expect(page.get_by_role("option").first).to_contain_text("Sessions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")

    page.keyboard.press("Control+k")
    page.keyboard.type("Disaster")
    found = page.get_by_role("option").filter(has_text="Disaster plan")
    expect(found.first).to_be_visible()
    expect(page.get_by_role("option").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Disaster plan")

    page.get_by_role("button", name="Go to…").click()
    page.keyboard.type("light and dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Control+k")
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Go to a page")).to_have_count(0)


def test_a_file_of_a_store_is_found_in_the_tree_and_edited(page: Page, site: Site) -> None:
    page.goto("/stores")
    page.get_by_role("link", name="default").click()
    page.get_by_role("link", name="people/").click()
    page.get_by_role("link", name="team/").click()
    page.get_by_role("link", name="bob").click()
    expect(page.get_by_text("Bob leads the team.")).to_be_visible()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Text", exact=True).fill("Bob has left.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    expect(page.get_by_text("Bob has left.")).to_be_visible()
    assert site.call("get_memory", store="default", path="people/team/bob")["content"].strip() == "Bob has left."


def test_a_file_is_written_and_deleted_with_undo_by_keyboard_alone(page: Page, site: Site) -> None:
    page.goto("/stores/default/people")
    page.get_by_role("link", name="New file").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Path")).to_be_focused()
    expect(page.get_by_label("Path")).to_have_value("people/")
    page.keyboard.press("End")
    page.keyboard.type("cleo")
    page.get_by_label("Tags").fill("people")
    page.get_by_label("Text", exact=True).fill("Cleo paints.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=2, name="people/cleo")).to_be_visible()
    expect(page.get_by_role("navigation", name="Files of default").get_by_role("link", name="cleo")).to_be_visible()

    file = site.server.data_dir / "stores" / "default" / "people" / "cleo.md"
    mine = "---\ntags: [people]\naliases: [Cleopatra]\n---\n\nCleo paints.\n"  # with something of another program's
    file.write_text(mine, "utf-8")
    page.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="people/cleo is deleted")).to_be_visible()
    expect(page.get_by_role("navigation", name="Files of default").get_by_role("link", name="cleo")).to_have_count(0)
    assert not file.exists()
    page.get_by_role("button", name="Undo").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name="people/cleo")).to_be_visible()
    assert file.read_text("utf-8") == mine


def test_a_file_that_cannot_be_written_says_why(page: Page) -> None:
    page.goto("/stores/default/people?new=1")
    page.get_by_label("Path").fill("people/ann")
    page.get_by_label("Text", exact=True).fill("Another Ann")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("already")
    expect(page.get_by_label("Text", exact=True)).to_have_value("Another Ann")
    assert_accessible(page)


def test_a_file_that_an_agent_adds_appears_in_the_tree(page: Page, site: Site) -> None:
    page.goto("/stores/default")
    expect(page.get_by_role("link", name="people/")).to_be_visible()
    site.server.modern_call("add_memory", store="default", path="places/lisbon", content="On the Tagus.")
    expect(page.get_by_role("link", name="places/")).to_be_visible()


def test_a_key_is_shown_once_with_lines_for_each_client_and_says_when_it_is_used(page: Page, site: Site) -> None:
    page.goto("/keys")
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_role("button", name="Create key").click()
    shown = page.get_by_label("Your new key")
    key = shown.locator("pre").first.inner_text()
    assert re.fullmatch(r"mmcp_\w{12}_[\w-]{43}", key)
    for client in ("Claude Code", "Cursor", "VS Code"):
        shown.get_by_role("tab", name=client).click()
        expect(shown.locator("pre").nth(1)).to_contain_text(key)
    assert_accessible(page)
    expect(shown.get_by_text("Waiting for the first call")).to_be_visible()

    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "Tester", "version": "7"}}
    requested = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    assert site.server.client.post("/mcp", json=requested, headers=headers).status_code == 200
    expect(shown.get_by_text("Tester 7 has called")).to_be_visible()

    page.goto("/sessions")
    page.get_by_role("button", name="Disconnect Tester").click()
    expect(page.get_by_role("button", name="Disconnect Tester")).to_have_count(0)
    page.goto("/keys")
    expect(page.get_by_text(key)).to_have_count(0)
    page.get_by_role("button", name="Revoke laptop").click()
    question = page.get_by_role("dialog", name="Revoke laptop?")
    expect(question).to_contain_text("It cannot be undone")
    expect(question.get_by_role("button", name="Keep it")).to_be_focused()  # Enter by mistake revokes nothing
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(page.get_by_role("row", name="laptop")).to_contain_text("without end")
    page.get_by_role("button", name="Revoke laptop").click()
    question.get_by_role("button", name="Revoke permanently").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.get_by_role("row", name="laptop")).to_contain_text("revoked")


def test_a_key_can_be_confined_to_its_namespace_and_the_list_says_so(page: Page, site: Site) -> None:
    page.goto("/keys")
    form = page.get_by_role("form", name="New key")
    form.get_by_label("Name", exact=True).fill("guest")
    form.get_by_text("Limit it to some memories").click()
    form.get_by_label("Namespace", exact=True).fill("area1")
    form.get_by_label("Confined to the namespace").check()
    form.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("region", name="Your new key")).to_be_visible()
    row = page.get_by_role("row", name="guest")
    expect(row).to_contain_text("only area1")
    expect(row).to_contain_text("in notes, portals, recall")
    assert_accessible(page)
    [made] = [key for key in site.me.get("/api/mcp/keys").json()["keys"] if key["name"] == "guest"]
    assert made["confined"]
    assert made["namespace"] == "area1"


def test_sessions_and_keys_update_without_polling(page: Page, site: Site) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.clock.install()
    page.goto("/sessions")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(page.get_by_label("Loading")).to_have_count(0)
    page.clock.run_for(2500)  # events of what happened before have arrived
    page.wait_for_load_state("networkidle")
    before = len(requested)
    page.clock.run_for(60_000)
    assert requested[before:] == []

    stdio = Stdio.start(site.server.data_dir, "--embedder", "none")
    row = page.get_by_role("row", name="wire").filter(has_text="stdio")
    expect(row).to_be_visible()
    stdio.call("memory_recent")
    expect(row.get_by_role("cell").nth(5)).to_have_text("2")
    stdio.close()
    expect(row).to_have_count(0)

    page.goto("/keys")
    site.me.post("/api/mcp/keys", json={"name": "by another client"})
    expect(page.get_by_role("row", name="by another client")).to_be_visible()


def test_a_theme_is_remembered(page: Page) -> None:
    page.goto("/settings")
    page.get_by_role("button", name="dark").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


# What a finger touches: controls, with the label around a checkbox, and the links of lists. Links within a text are as
# high as its lines.
SMALL_TARGETS = """() =>
    [...document.querySelectorAll('main :is(button, select, input, summary, .button, [role=tab], li > a)')]
        .filter((one) => !one.closest('.note li'))
        .filter((one) => one.checkVisibility() && one.offsetWidth > 1)
        .map((one) => (one.matches('[type=checkbox]') && one.closest('label')) || one)
        .filter((one) => one.offsetHeight < 44 || one.offsetWidth < 44)
        .map((one) => `${one.outerHTML.slice(0, 200)} ${one.offsetWidth}x${one.offsetHeight}`)"""


def test_every_page_fits_on_a_phone_and_can_be_touched(browser: Browser, site: Site) -> None:
    context = browser.new_context(
        base_url=site.url, locale="en-US", viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True
    )
    context.add_cookies([{"name": name, "value": value, "url": site.url} for name, value in site.me.cookies.items()])
    page = context.new_page()
    for address in PAGES:
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_label("Loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
        assert page.evaluate(SMALL_TARGETS) == [], address
    for address, _ in sample(list(PAGES.items()), 4):
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_label("Loading")).to_have_count(0)
        assert_accessible(page)
    _check_bar_at_the_bottom(page)
    context.close()


def _check_bar_at_the_bottom(page: Page) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    bar = pages.bounding_box()
    assert bar is not None
    assert bar["y"] + bar["height"] == 740  # at the bottom
    assert bar["height"] < 60  # in one row
    expect(pages.get_by_role("link", name="Settings")).to_be_hidden()
    pages.get_by_role("button", name="More").click()
    assert_accessible(page)
    for target in (*pages.get_by_role("link").all(), *page.get_by_role("main").get_by_role("button").all()):
        box = target.bounding_box()
        assert box is not None
        assert box["height"] >= 44, target.text_content()
    pages.get_by_role("link", name="Connect").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Connect a client")
    expect(pages.get_by_role("link", name="Settings")).to_be_hidden()


def test_a_link_signs_in_once_and_signing_out_leads_back_to_the_form(browser: Browser, site: Site) -> None:
    printed = run("users", "link", "--data-dir", site.server.data_dir, check=True).stdout
    token = re.search(r"/sign-in\?token=\S+", printed)
    assert token is not None
    page = browser.new_page(base_url=site.url)
    page.goto(token[0])
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(token[0])
    expect(page.get_by_role("alert")).to_be_visible()
    page.close()
