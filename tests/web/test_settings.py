"""The page Settings: downloading everything, and rebuilding all vectors."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.processes import run
from tests.services.embedding.fake_service import running_service
from tests.web.accessibility import assert_accessible
from tests.web.conftest import Site
from tests.wire import http_server


def cli(data_dir: Path, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--data-dir", data_dir, "--json", check=True).stdout)


@pytest.mark.parametrize(
    ("button", "taking_in"),
    [("Download my memories", ("import", "memory-mcp")), ("Download a backup of everything", ("restore",))],
)
def test_a_download_can_be_imported_elsewhere(
    page: Page, site: Site, tmp_path: Path, button: str, taking_in: tuple[str, ...]
) -> None:
    page.goto("/import")
    page.get_by_role("button", name=button).focus()
    with page.expect_download(timeout=60_000) as coming:
        page.keyboard.press("Enter")
    file = tmp_path / coming.value.suggested_filename
    coming.value.save_as(file)
    expect(page.get_by_role("status").filter(has_text="is downloaded")).to_be_visible()

    cli(tmp_path / "empty", *taking_in, str(file))
    assert "Disaster plan" in json.dumps(cli(tmp_path / "empty", "search", "disk dies"))
    page.goto("/settings")
    expect(page.get_by_role("region", name="Audit log")).to_contain_text(
        re.compile("(memories were|server was) downloaded")
    )


def test_a_download_is_watched_and_cancelled(page: Page) -> None:
    waiting: list[Route] = []
    page.route("**/api/export", lambda route: waiting.append(route))  # as slow as can be
    page.goto("/import")
    page.get_by_role("button", name="Download my memories").click()
    expect(page.get_by_role("progressbar", name="Creating the file")).to_be_visible()
    expect(page.get_by_role("button", name="Download a backup of everything")).to_be_disabled()
    assert_accessible(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status").filter(has_text="Nothing was saved")).to_be_visible()
    expect(page.get_by_role("button", name="Download my memories")).to_be_enabled()
    for route in waiting:
        route.abort()


def test_a_refused_download_says_why(page: Page) -> None:
    problem = {"detail": "Another download of yours is under way.", "error": "conflict"}
    page.route("**/api/export", lambda route: route.fulfill(status=409, json=problem))
    page.goto("/import")
    page.get_by_role("button", name="Download my memories").click()
    expect(page.get_by_role("status").filter(has_text="under way")).to_be_visible()


NOTES = 40


def test_making_all_vectors_again_is_watched_as_it_goes(browser: Browser, tmp_path: Path) -> None:
    with (
        running_service() as service,
        http_server(tmp_path, "--embedder", "ollama", "--embed-model", "tiny", "--ollama-host", service.url) as server,
        httpx.Client(base_url=server.url, timeout=60) as me,
    ):
        me.get(server.link)
        for number in range(NOTES):
            me.post("/api/tools/memory_create", json={"content": f"Note {number} about tea"})
        context = browser.new_context(base_url=server.url, locale="en-US")
        context.add_cookies([{"name": name, "value": value, "url": server.url} for name, value in me.cookies.items()])
        page = context.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.clock.install()
        page.goto("/settings")
        expect(page.get_by_text("ollama/tiny")).to_be_visible()
        expect(page.get_by_text(f"{NOTES} of {NOTES} notes have their vector")).to_be_visible()

        service.pause = 1.0
        page.get_by_role("button", name="Rebuild all vectors").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"Rebuild the vectors of {NOTES} notes?This takes up to a minute")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        assert not [url for url in requested if url.endswith("/reindex")]
        page.get_by_role("button", name="Rebuild all vectors").click()
        dialog.get_by_role("button", name="Rebuild").click()
        expect(page.get_by_text(re.compile(r"; \d+ are queued"))).to_be_visible()
        expect(page.get_by_text(re.compile(rf"^[1-9]\d? of {NOTES} notes .* are queued"))).to_be_visible()
        expect(page.get_by_text(f"{NOTES} of {NOTES} notes have their vector")).to_be_visible()
        expect(page.get_by_text(re.compile("are queued"))).to_have_count(0)
        stats_requests = len([url for url in requested if url.endswith("/embed-stats")])
        page.clock.run_for(2500)
        assert len([url for url in requested if url.endswith("/embed-stats")]) == stats_requests  # no needless requests
        context.close()
