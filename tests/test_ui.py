"""The web app is committed as built. Without Node, the stamp of its sources shows whether that is up to date."""

import re
from pathlib import Path

from tools import api_types, ui

ADDRESSES = re.compile(rb"https?://([A-Za-z0-9.-]+)")
WORDS = {b"www.w3.org", b"json-schema.org", b"github.com"}  # names of languages; no request is sent to them


def test_the_committed_files_were_built_from_these_sources() -> None:
    assert ui.STAMP.read_text(encoding="utf-8").strip() == ui.digest(), "run `make ui` and commit its output"


def test_the_types_of_the_api_are_those_of_the_server() -> None:
    assert api_types.is_current(), "run `make ui` and commit its output"


LATER_PAGES = (
    "conversations",
    "graph",
    "import",
    "keys",
    "people",
    "portals",
    "sessions",
    "settings",
    "stores",
    "sync",
    "write-review",
)
"""Pages of the web app that are loaded when they are opened."""


def test_the_viewer_is_one_file_that_needs_no_other() -> None:
    page = (ui.WEB / "viewer.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)


def test_the_web_app_requests_only_its_own_files() -> None:
    page = (ui.WEB / "app" / "index.html").read_text(encoding="utf-8")
    assert all(address.startswith("/assets/") for address in re.findall(r'(?:src|href)="([^"]+)"', page))
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]*src=)", page)


def test_nothing_built_names_another_host() -> None:
    for path in ui.WEB.rglob("*"):
        if path.is_file() and not path.name.endswith("licenses.md"):
            assert set(ADDRESSES.findall(path.read_bytes())) <= WORDS, path


def test_the_lock_file_names_no_registry() -> None:
    lock = (ui.UI / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert lock.count('"node_modules/@rolldown/binding-') == 15  # every platform, not only the one it was made on


def test_the_app_has_few_files_with_names_that_stay() -> None:
    built = {path.relative_to(ui.WEB).as_posix() for path in Path(ui.WEB).rglob("*") if path.is_file()}
    assert built == {
        "sources.sha256",
        "viewer.html",
        "viewer-licenses.md",
        "app/index.html",
        "app/licenses.md",
        *(f"app/assets/{name}" for name in ("app.css", "icon.svg")),
        *(f"app/assets/{name}.js" for name in ("api", "app", "bridge", "copy-text", "graph-picture", "resource")),
        *(f"app/assets/{page}.js" for page in LATER_PAGES),
    }
