"""The page Import and export: a folder is checked, imported and undone."""

import json
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.accessibility import assert_accessible


def vault(folder: Path) -> Path:
    made = folder / "My vault"
    (made / "People").mkdir(parents=True)
    (made / "Größe.md").write_text("Ask [[Ann Berg]]. #later\n", encoding="utf-8")
    (made / "People" / "Ann Berg.md").write_text("Leads the team.\n", encoding="utf-8")
    (made / "picture.png").write_bytes(b"png")
    return made


def test_a_folder_is_checked_imported_and_undone(new_account_page: Page, tmp_path: Path) -> None:
    page = new_account_page
    page.goto("/import")
    page.get_by_label("Choose a folder").set_input_files(vault(tmp_path))
    effects = page.get_by_role("list", name="What will happen")
    expect(effects).to_contain_text("2 notes will be added")
    expect(effects).to_contain_text("1 item is left out")
    expect(page.get_by_role("region", name="Import", exact=True)).to_contain_text("My vault is a folder of markdown")
    assert_accessible(page)
    page.get_by_label("Into the namespace").fill("vault")
    page.get_by_role("button", name="Check again").click()
    page.get_by_role("button", name="Import 2 notes").click()
    expect(page.get_by_role("status").filter(has_text="My vault is imported: 2 new memories")).to_be_visible()
    page.get_by_role("link", name="See them").first.click()
    expect(page.get_by_role("link", name="Ann Berg").first).to_be_visible()
    expect(page.get_by_role("link", name="Größe").first).to_be_visible()

    page.go_back()
    page.get_by_role("region", name="Imports").get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo the import").click()
    expect(page.get_by_role("status").filter(has_text="2 memories are removed")).to_be_visible()
    expect(page.get_by_role("region", name="Imports")).to_contain_text("undone")


def test_our_own_export_is_checked_imported_and_undone(page: Page, tmp_path: Path) -> None:
    note = "---\nid: 0b6e2c1e-8f5c-4a0e-9d7e-0a4f5f1f7a11\ntitle: Lighthouse\n---\n\nIt blinks twice.\n"
    with zipfile.ZipFile(tmp_path / "memory-export.zip", "w") as archive:
        archive.writestr("export.json", json.dumps({"format": "memory-mcp-export/1"}))
        archive.writestr("README.md", "An export")
        archive.writestr("notes/default/Lighthouse.md", note)
    page.goto("/import")
    page.get_by_label("Choose a file").set_input_files(tmp_path / "memory-export.zip")
    expect(page.get_by_text("is an export of Memory MCP")).to_be_visible()
    expect(page.get_by_text("New: 1 note.")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Import 1 memory").click()
    expect(page.get_by_text("memory-export.zip is imported: 1 new memory.")).to_be_visible()
    page.get_by_role("region", name="Imports").get_by_role("button", name="Undo").first.click()
    page.get_by_role("button", name="Undo the import").click()
    expect(page.get_by_text("The import of memory-export.zip is undone: 1 memory is removed")).to_be_visible()


def test_a_file_of_no_format_says_so_and_another_can_be_chosen(new_account_page: Page, tmp_path: Path) -> None:
    page = new_account_page
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    page.goto("/import")
    page.get_by_label("Choose a file").set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("wrong.json: No format fits this file")
    page.get_by_label("Read as").select_option("mem0")
    expect(page.get_by_role("alert")).to_contain_text("mem0")
    expect(page.get_by_role("alert")).not_to_contain_text("No format fits")
    export = tmp_path / "mem0.json"
    export.write_text(json.dumps([{"id": "1", "memory": "Likes tea"}]))
    page.get_by_label("Choose a file").set_input_files(export)
    expect(page.get_by_role("list", name="What will happen")).to_contain_text("1 note will be added")
    page.get_by_role("button", name="Choose another file").click()
    expect(page.get_by_label("Choose a file")).to_be_attached()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_a_phone_in_both_themes(page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]  # one of its names
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/import")
    button = page.locator("label.button").first
    expect(button).to_be_visible()
    box = button.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_text("What can be imported").click()
    assert_accessible(page)
