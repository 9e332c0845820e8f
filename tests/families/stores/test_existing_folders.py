"""Folders that people have: an Obsidian vault and a basic-memory project work as they are, and stay as they are."""

import unicodedata
from pathlib import Path

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.conftest import Clock
from tests.families.stores.calls import (
    NOON,
    call,
    content,
    get,
    listed,
    metadata,
    recent,
    refused,
    subcategories,
    tree,
    update,
)
from tests.families.stores.test_cli import run

pytestmark = pytest.mark.anyio

NFD = unicodedata.normalize("NFD", "Übersicht é")
VAULT = {
    "Home.md": "# Home\n\nSee [[Projects/Garden 🌱|the garden]] and ![[image.png]].\n",
    "Daily/2026-01-02.md": "---\ntags: daily, winter\n---\n- [ ] water the plants ^block-1\n",
    "Daily/2026-01-03.md": (
        "---\ntags:\n- daily\n- '#snow'\ncreated: 2026-01-03 08:00\nmodified: 2026-01-03\n---\nsnow\n"
    ),
    "Projects/Garden 🌱.md": "---\naliases: [Yard, 'The green']\ntags: garden\ncssclasses:\nphone: +49123\n---\nrows\n",
    "Projects/Sub folder/Deep & wide (1).md": "%%comment%%\n==mark== $x^2$\n",
    f"Projects/{NFD}.md": "by a Mac\n",
    f"{NFD}/Notiz.md": "in a folder by a Mac\n",
    "Projects/empty.md": "",
    "Projects/crlf.md": "---\r\ntitle: Windows\r\n---\r\n\r\nline one\r\nline two\r\n",
    "Projects/bom.md": "\ufeff---\ntags: [bom]\n---\nwith a mark\n",
    "Projects/broken.md": "---\ntitle: [oops\n---\nstill a note\n",
    "Projects/no newline.md": "ends here",
    "Templates/t.md": "---\ndate: {{date}}\n---\n<% tp.file.title %>\n",
    "日本語/メモ.md": "こんにちは\n",
    "What?.md": "a name that Windows has not\n",
    "Excalidraw/drawing.excalidraw.md": "---\nexcalidraw-plugin: parsed\n---\n```json\n{}\n```\n",
}
OTHER = {
    ".obsidian/app.json": "{}",
    ".obsidian/plugins/x/README.md": "# not a note",
    ".trash/old.md": "thrown away",
    ".git/HEAD": "ref: refs/heads/main",
    "attachments/image.png": "\x89PNG",
    "Projects/board.canvas": "{}",
    "index.yaml": "someone: else\n",
}
BASIC = {
    "specs/Search Design.md": (
        "---\ntitle: Search Design\ntype: note\npermalink: specs/search-design\ntags:\n- design\n- search\n"
        "created: '2025-05-01T10:00:00+02:00'\nmodified: '2025-06-01T10:00:00.5+00:00'\n---\n\n# Search Design\n\n"
        "## Observations\n- [decision] Use FTS5 #sqlite (fast)\n\n## Relations\n- implements [[Roadmap]]\n"
    ),
    "Roadmap.md": "---\ntitle: Roadmap\ntype: note\npermalink: roadmap\n---\n\n- [goal] Ship it\n",
}


def made(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode("utf-8" if "PNG" not in text else "latin-1"))
    return folder


@pytest.fixture
def vault(tmp_path: Path, elsewhere: Path) -> Path:
    """Registered on the command line, while a server runs."""
    before = tree(made(elsewhere, {**VAULT, **OTHER}))
    assert run("stores", "add", "s", str(elsewhere), data_dir=tmp_path).returncode == 0
    assert tree(elsewhere) == before
    return elsewhere


@pytest.fixture
def paths() -> set[str]:
    return {unicodedata.normalize("NFC", path.removesuffix(".md")) for path in VAULT}


async def all_listed(client: Client, category: str | None = None) -> set[str]:
    found = set(await listed(client, category))
    for below in await subcategories(client, category):
        found |= await all_listed(client, below)
    return found


async def test_every_note_is_read_listed_and_recent_and_nothing_is_changed(
    client: Client, app: App, vault: Path, paths: set[str]
) -> None:
    before = tree(vault)
    assert await all_listed(client) == paths
    assert set(await recent(client, limit=100)) == paths
    for path in paths:
        await get(client, path)
    for category in await subcategories(client):
        await recent(client, category=category)
    assert tree(vault) == before


async def test_notes_are_read_as_their_authors_wrote_them(client: Client, vault: Path) -> None:
    assert await content(client, "Home") == VAULT["Home.md"].removesuffix("\n")
    assert (await metadata(client, "Daily/2026-01-02"))["tags"] == ["daily", "winter"]
    found = await metadata(client, "Daily/2026-01-03")
    assert found == {
        "created_at": "2026-01-03T08:00:00Z",
        "updated_at": "2026-01-03T00:00:00Z",
        "tags": ["daily", "#snow"],
        "source": None,
        "expires_at": None,
        "citations": [],
    }
    assert await content(client, "Projects/crlf") == "line one\r\nline two"
    assert await content(client, "Projects/bom") == "with a mark"
    assert (await metadata(client, "Projects/bom"))["tags"] == ["bom"]
    assert await content(client, "Projects/broken") == VAULT["Projects/broken.md"].removesuffix("\n")
    assert await content(client, "Projects/empty") == ""
    assert await content(client, "日本語/メモ") == "こんにちは"


async def test_hidden_and_other_files_are_not_listed(client: Client, vault: Path) -> None:
    assert "attachments" in await subcategories(client)
    assert not [name for name in await subcategories(client) if name.startswith(".")]
    for path in (".obsidian/plugins/x/README", ".trash/old"):
        await refused(client, "get_memory", "invalid", path=path)
    for path in ("attachments/image.png", "attachments/image", "Projects/board"):
        await refused(client, "get_memory", "not_found", path=path)


@pytest.mark.parametrize("name", [name for name in VAULT if "broken" not in name])
async def test_an_update_changes_that_very_file(client: Client, vault: Path, name: str) -> None:
    before = tree(vault)
    path = unicodedata.normalize("NFC", name.removesuffix(".md"))
    was = (vault / name).read_bytes().decode()
    if "{{" in was:
        return
    content_before = await content(client, path)
    await update(client, path, tags=["new"])
    after = tree(vault)
    changed = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
    assert {one for one in changed if not one.endswith("index.yaml")} == {name}
    assert (vault / "index.yaml").read_text() == OTHER["index.yaml"]
    assert await content(client, path) == content_before
    found = await metadata(client, path)
    assert (found["tags"], found["updated_at"]) == (["new"], NOON)
    now = (vault / name).read_bytes().decode()
    kept = [line for line in was.splitlines(keepends=True) if not line.startswith(("tags:", "- daily", "- '#snow'"))]
    assert [line for line in kept if line not in now.splitlines(keepends=True)] == []


async def test_files_that_cannot_be_changed_safely_are_not(client: Client, vault: Path) -> None:
    (vault / "latin.md").write_bytes("---\nauthor: José\n---\ncafé\n".encode("latin-1"))
    before = tree(vault)
    await refused(client, "update_memory", "conflict", path="Projects/broken", tags=["x"])
    await refused(client, "update_memory", "conflict", path="Projects/broken", content="x")
    assert "caf" in await content(client, "latin")
    await refused(client, "update_memory", "conflict", path="latin", tags=["x"])
    await refused(client, "update_memory", "conflict", path="latin", content="would lose the author's name")
    assert tree(vault) == before


async def test_an_update_that_changes_nothing_touches_nothing(client: Client, vault: Path, clock: Clock) -> None:
    before = tree(vault)
    await update(client, "Daily/2026-01-02", tags=["daily", "winter"], content="- [ ] water the plants ^block-1")
    await update(client, "Home", content=VAULT["Home.md"].removesuffix("\n"), citations=[], clear_expiry=True)
    await update(client, "Home", content=VAULT["Home.md"])
    assert tree(vault) == before


async def test_moving_changes_no_byte(client: Client, vault: Path) -> None:
    for name in ("Projects/crlf.md", "Projects/broken.md", "Projects/Garden 🌱.md"):
        was = (vault / name).read_bytes()
        target = f"Moved/{Path(name).stem}"
        await call(client, "move_memory", store="s", from_path=name.removesuffix(".md"), to_path=target)
        assert (vault / f"{target}.md").read_bytes() == was


async def test_a_basic_memory_project_works_as_it_is(client: Client, tmp_path: Path, elsewhere: Path) -> None:
    before = tree(made(elsewhere, BASIC))
    assert run("stores", "add", "s", str(elsewhere), data_dir=tmp_path).returncode == 0
    assert await all_listed(client) == {"specs/Search Design", "Roadmap"}
    [design] = (await call(client, "list_memories", store="s", category="specs"))["memories"]
    assert (design["summary"], design["updated_at"]) == ("Search Design", "2025-06-01T10:00:00.500Z")
    found = await metadata(client, "specs/Search Design")
    assert (found["created_at"], found["tags"]) == ("2025-05-01T08:00:00Z", ["design", "search"])
    assert list(await recent(client)) == ["specs/Search Design", "Roadmap"]
    assert tree(elsewhere) == before

    await update(client, "specs/Search Design", tags=["design"])
    now = (elsewhere / "specs" / "Search Design.md").read_text()
    assert now == BASIC["specs/Search Design.md"].replace("- search\n", "").replace(
        "+00:00'\n---", f"+00:00'\nupdated_at: '{NOON}'\n---"
    )
