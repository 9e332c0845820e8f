"""Facts of the vault and entities of graphs are pages for people: to read, correct, connect and delete."""

import re

from playwright.sync_api import Page, expect

from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site


def test_a_fact_is_read_corrected_and_deleted_with_undo(page: Page, site: Site) -> None:
    site.call("commit_memory", scope="vault", key="Ann's desk", content="On the **second** floor", tags=["office"])
    page.goto("/memories?q=second+floor")
    page.get_by_role("list", name="Found").get_by_role("link", name="Ann's desk").click()
    article = page.get_by_role("article")
    expect(article.locator("strong", has_text="second")).to_be_visible()
    expect(article).to_contain_text(re.compile("A fact · written 20.* · last by you, in this web app"))
    expect(article.locator("pre")).to_be_hidden()
    assert_accessible(page)
    article.get_by_text("View source").click()
    expect(article.locator("pre")).to_contain_text('"content": "On the **second** floor"')

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Text", exact=True).fill("On the third floor")
    site.call("commit_memory", scope="vault", key="Ann's desk", content="In the attic", tags=["office"])
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert", name="Changed meanwhile")).to_contain_text("In the attic")
    page.get_by_role("button", name="Overwrite with mine").click()
    expect(article).to_contain_text("On the third floor")
    expect(article).to_contain_text("#office")

    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("/memories$"))
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("“Ann's desk” is restored")).to_be_visible()
    page.go_back()
    expect(article).to_contain_text("On the third floor")


def create_office(site: Site) -> None:
    """A project with two people, one of whom reports to the other."""
    site.call("create_project", name="office")
    people = [
        {"name": "Ann Ott", "entity_type": "person", "observations": ["likes *tea*", "works here\nsince 2020"]},
        {"name": "Bob", "entity_type": "person"},
    ]
    site.call("create_entities", project="office", entities=people)
    ties = [{"from": "Bob", "to": "Ann Ott", "relation_type": "reports to"}]
    site.call("create_relations", project="office", relations=ties)


def test_an_entity_is_read_corrected_connected_and_deleted_with_undo(page: Page, site: Site) -> None:
    create_office(site)
    page.goto("/memories?q=likes+tea&family=graph")
    page.get_by_role("list", name="Found").get_by_role("link", name="Ann Ott").click()
    article, observations = page.get_by_role("article"), page.get_by_role("list", name="Observations")
    expect(observations.locator("em", has_text="tea")).to_be_visible()
    expect(article).to_contain_text("person in office · written 20")
    expect(article.locator("pre")).to_be_hidden()
    assert_accessible(page)

    page.get_by_role("link", name="Edit").click()
    text = page.get_by_label("Observations, each in a line")
    expect(text).to_have_value("- likes *tea*\n- works here\n  since 2020")
    text.fill("- likes coffee\n- works here\n  since 2020")
    page.get_by_role("button", name="Save").click()
    expect(observations.get_by_role("listitem").filter(has_text="likes coffee")).to_be_visible()
    [known] = site.call("open_nodes", project="office", names=["Ann Ott"])["entities"]
    assert sorted(known["observations"]) == ["likes coffee", "works here\nsince 2020"]

    relations = page.get_by_role("list", name="Relations").get_by_role("listitem")
    page.get_by_role("button", name="Remove: Bob reports to Ann Ott").click()
    expect(relations).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(relations).to_have_count(1)
    form = page.get_by_role("form", name="New relation")
    form.get_by_label("Relation").fill("shares a desk with")
    form.get_by_label("Other entity").fill("Bob")
    page.keyboard.press("Enter")
    expect(relations).to_have_count(2)
    relations.first.get_by_role("link", name="Bob").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Bob")
    expect(article).to_contain_text("Nothing is known about it yet")

    page.go_back()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("status").get_by_role("button", name="Undo").last.click()
    expect(page.get_by_text("“Ann Ott” is restored")).to_be_visible()
    page.go_back()
    expect(observations).to_contain_text("likes coffee")
    expect(relations).to_have_count(2)
