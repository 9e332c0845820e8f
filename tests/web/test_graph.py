"""The graph in the web app, as it grows."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from tests.events import eventually
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site

SEEN = """canvas => {
  const {width, height} = canvas
  const {data} = canvas.getContext('2d').getImageData(0, 0, width, height)
  let [left, right, top, bottom] = [width, 0, height, 0]
  for (let at = 3; at < data.length; at += 4) {
    if (!data[at]) continue
    const x = ((at - 3) / 4) % width, y = Math.floor((at - 3) / 4 / width)
    left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y)
  }
  return {left: left / width, right: right / width, top: top / height, bottom: bottom / height}
}"""


@pytest.fixture
def site(site: Site) -> Iterator[Site]:
    """With the projects as they were."""
    before = names(site)
    yield site
    for name in names(site) - before:
        site.call("delete_project", name=name)


def names(site: Site) -> set[str]:
    return {project["name"] for project in site.call("list_projects")["projects"]}


def test_entities_that_an_agent_adds_appear(page: Page, site: Site) -> None:
    site.call("create_project", name="growing")
    site.call("create_entities", project="growing", entities=[{"name": "Root", "entity_type": "t"}])
    page.goto("/graph?project=growing")
    nodes = page.get_by_role("list", name="Nodes")
    expect(nodes.get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    site.server.modern_call("create_entities", project="growing", entities=[{"name": "Leaf", "entity_type": "t"}])
    expect(nodes.get_by_role("link", name="Leaf")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Graph of 2 nodes"))).to_be_visible()
    site.server.modern_call("create_project", name="later")
    expect(page.get_by_label("Graph of", exact=True)).to_contain_text("later")


def test_the_whole_picture_is_seen_and_the_filter_is_in_the_address(page: Page, site: Site) -> None:
    site.call("create_project", name="wide")
    for start in (0, 200):
        entities = [{"name": f"Place {n}", "entity_type": "t"} for n in range(start, start + 200)]
        site.call("create_entities", project="wide", entities=entities)
    page.emulate_media(reduced_motion="reduce")
    page.goto("/graph?project=wide")
    picture = page.get_by_role("img", name=re.compile("^Graph of 400 nodes"))
    expect(picture).to_be_visible()

    def is_whole() -> bool:
        seen = picture.locator("canvas").evaluate(SEEN)
        is_inside = min(seen["left"], seen["top"]) > 0.005 and max(seen["right"], seen["bottom"]) < 0.995
        return bool(is_inside and max(seen["right"] - seen["left"], seen["bottom"] - seen["top"]) > 0.6)

    eventually(is_whole)

    page.get_by_label("Find in the graph").fill("Place 39")
    expect(page).to_have_url(re.compile("filter=Place"))
    page.reload()
    expect(page.get_by_label("Find in the graph")).to_have_value("Place 39")
    expect(page.get_by_role("list", name="Nodes").get_by_role("listitem")).to_have_count(11)


def test_the_panel_shows_the_chosen_entity_and_its_neighbors_are_added(page: Page, site: Site) -> None:
    site.call("create_project", name="star")
    hub, others = "Hub", [f"Ray {number:03}" for number in range(520)]
    for start in range(0, 520, 200):
        entities = [{"name": name, "entity_type": "ray"} for name in others[start : start + 200]]
        site.call("create_entities", project="star", entities=entities)
    known = {"name": hub, "entity_type": "hub", "observations": ["shines *brightly*"]}
    site.call("create_entities", project="star", entities=[known])
    ties = [{"from": hub, "to": name, "relation_type": "lights"} for name in others]
    for start in range(0, 520, 200):
        site.call("create_relations", project="star", relations=ties[start : start + 200])
    page.emulate_media(reduced_motion="reduce")
    page.goto("/graph?project=star")
    nodes = page.get_by_role("list", name="Nodes").get_by_role("listitem")
    expect(nodes).to_have_count(500)
    expect(nodes.first).to_contain_text("Hub 520")  # its true degree
    legend = page.get_by_role("group", name="Legend")
    expect(legend.get_by_role("button")).to_have_text(["ray 499", "hub 1"])
    page.get_by_label("Find in the graph").fill("Hub")
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="Hub")
    expect(panel.locator("em")).to_have_text("brightly")
    page.get_by_label("Find in the graph").fill("")
    panel.get_by_role("button", name="Show its neighbors").click()
    expect(nodes).to_have_count(521)
    assert_accessible(page)
    nodes.get_by_role("link", name="Ray 519", exact=True).press("Enter")
    ray = page.get_by_role("region", name="Ray 519")
    expect(ray).to_contain_text("ray · 1 link")
    expect(page).to_have_url(re.compile("chosen=Ray\\+519"))
    page.go_back()
    expect(panel).to_be_visible()
    legend.get_by_role("button", name="ray").click()
    expect(nodes).to_have_count(1)
    for name in ("Zoom in", "Zoom out", "Fit"):
        page.get_by_role("group", name="Picture").get_by_role("button", name=name).click()
    expect(page.get_by_role("img", name=re.compile("^Graph of 1 node"))).to_be_visible()


def test_the_best_connected_notes_are_shown_by_all_their_links(new_account_page: Page, new_account: Site) -> None:
    page = new_account_page
    hub = new_account.call("memory_create", title="Hub", content="In the middle", namespace="star")["id"]
    for number in range(40):
        new_account.call("memory_create", title=f"Ray {number}", content="To the [[Hub]]", namespace="star")
    page.emulate_media(reduced_motion="reduce")
    page.goto("/graph?limit=2")
    nodes = page.get_by_role("list", name="Nodes").get_by_role("listitem")
    expect(nodes).to_have_count(2)
    expect(nodes.first).to_contain_text("Hub 40")
    expect(page.get_by_text("2 nodes of 73")).to_contain_text("the best connected")
    page.goto(f"/graph?limit=2&chosen={hub}")
    page.get_by_role("button", name="Show its neighbors").click()
    expect(nodes).to_have_count(42)
    expect(page.get_by_role("group", name="Legend").get_by_role("button", name="star 41")).to_be_visible()
    nodes.first.get_by_role("link", name="Around Hub").click()
    expect(nodes).to_have_count(41)
    expect(nodes.first).to_contain_text("Hub 40")
    expect(nodes.nth(1)).to_contain_text("Ray 0 1")
    assert_accessible(page)


def test_a_project_with_any_name_is_linked_to(page: Page, site: Site) -> None:
    """Files of another program may hold names that create_project does not take."""
    name = "a/b 100%2F"
    site.call("create_project", name="adopted")
    site.call("create_entities", project="adopted", entities=[{"name": "c/d 5%", "entity_type": "t"}])
    with closing(sqlite3.connect(site.server.data_dir / "_meta.db")) as connection, connection:
        connection.execute("UPDATE projects SET name = ? WHERE name = 'adopted'", (name,))
    page.goto("/graph")
    page.get_by_label("Graph of", exact=True).select_option(name)
    page.get_by_role("list", name="Nodes").get_by_role("link", name="c/d 5%").click()
    page.get_by_role("region", name="c/d 5%").get_by_role("link", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("c/d 5%")
    page.get_by_role("link", name="Graph", exact=True).last.click()
    expect(page.get_by_role("list", name="Nodes").get_by_role("link", name="c/d 5%")).to_be_visible()
