"""A real server with something in it, and a real browser that is signed in to it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, expect, sync_playwright

from tests.processes import run
from tests.web import browser as browsers
from tests.wire import Http, http_server

ROWS = 100_000
PORTAL = "mem://tests/shop"
REQUIRED = "MEMORY_MCP_REQUIRE_BROWSER"

expect.set_options(timeout=60_000)  # a busy machine is no bug


@dataclass
class Site:
    """The server, as the person whose data it has."""

    server: Http
    me: httpx.Client

    @property
    def url(self) -> str:
        return self.server.url

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.me.post(f"/api/tools/{tool}", json=arguments)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, chromium: browsers.Chromium) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("web")
    with http_server(folder, "--embedder", "none") as server, httpx.Client(base_url=server.url, timeout=60) as me:
        here = signed_in(server, me)
        fill(here, folder)
        yield here


def signed_in(server: Http, me: httpx.Client) -> Site:
    assert me.get(server.link).status_code == 303
    return Site(server, me)


def run_users_command(server: Http, *arguments: str, stdin: str = "") -> str:
    return run("users", *arguments, "--data-dir", server.data_dir, stdin=stdin, check=True).stdout


def sign_in_link(server: Http, *user: str) -> str:
    found = re.search(r"/sign-in\?token=\S+", run_users_command(server, "link", *user))
    assert found is not None
    return found[0]


def fill(site: Site, folder: Path) -> None:
    fill_notes(site)
    site.call("commit_memory", scope="vault", key="favourite-tea", content="Darjeeling, first flush")
    site.call("add_memory", store="default", path="people/ann", content="# Ann\n\nLikes *tea*.", tags=["people"])
    site.call("add_memory", store="default", path="people/team/bob", content="Bob leads the team.")
    fill_graph(site)
    fill_portal(site, folder)


def fill_notes(site: Site) -> None:
    plan = site.call("memory_create", title="Disaster plan", content="What to do when a disk dies. #ops")
    text = "We back up **nightly**, to two places. See [[Disaster plan]] and [[Off-site]] #ops\n\n- disk\n- tape"
    note = site.call("memory_create", title="Backups", content=text, importance=0.8)
    site.call("memory_update", id=note["id"], content=text + "\n- paper")
    site.call("memory_link", source_id=plan["id"], target_id=note["id"])
    for number in range(30):
        about = f"Note {number} about topic {number % 5}. See [[Note {number // 2}]] #topic{number % 5}"
        site.call("memory_create", title=f"Note {number}", content=about, namespace=f"area{number % 3}")


def fill_graph(site: Site) -> None:
    site.call("create_project", name="house")
    site.call(
        "create_entities",
        project="house",
        entities=[
            {"name": name, "entity_type": "place", "observations": ["has a window"]} for name in ("Kitchen", "Hall")
        ],
    )
    site.call(
        "create_relations", project="house", relations=[{"from": "Kitchen", "to": "Hall", "relation_type": "opens to"}]
    )


def fill_portal(site: Site, folder: Path) -> None:
    (folder / "imports").mkdir(exist_ok=True)
    lines = (
        f"{n},{['Ann', 'Bob', 'Cleo', 'Dan'][n % 4]},{n * 7 % 1000 / 10},2026-0{n % 9 + 1}-01T00:00:00Z,order {n}"
        for n in range(ROWS)
    )
    (folder / "imports" / "orders.csv").write_text("id,buyer,price,bought_at,text\n" + "\n".join(lines), "utf-8")
    site.call("portal_import", portalUri=PORTAL, source="orders.csv", format="csv")
    refunds = [{"id": n, "order_id": n * 10, "reason": "late" if n % 2 else None} for n in range(20)]
    site.call("portal_write", portalUri=PORTAL, table="refunds", data=refunds)


@pytest.fixture
def here(site: Site) -> Iterator[Site]:
    """With the tables as they were."""
    yield site
    for table in site.call("portal_view", portalUri=PORTAL)["tables"]:
        if table["name"] not in ("orders", "refunds"):
            site.call("portal_delete", portalUri=PORTAL, table=table["name"], confirm=True)


@pytest.fixture(scope="session")
def chromium() -> browsers.Chromium:
    try:
        return browsers.find()
    except browsers.NoBrowser as exc:
        if os.environ.get(REQUIRED) == "1":
            raise
        pytest.skip(str(exc))


@pytest.fixture(scope="session")
def browser(chromium: browsers.Chromium) -> Iterator[Browser]:
    with launched(chromium) as started:
        yield started


@contextmanager
def launched(chromium: browsers.Chromium | None = None) -> Iterator[Browser]:
    found = chromium or browsers.find()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found.path, args=list(browsers.ARGUMENTS), env={**os.environ, **found.environment}
        )
        yield started
        started.close()


@pytest.fixture
def new_account(site: Site) -> Iterator[Site]:
    """A user of the same server whose only notes are those of fill_notes: for tests that count.

    Other tests write notes on `site` and leave them there, in any order.
    """
    name = f"counting-{uuid4().hex[:8]}"
    run_users_command(site.server, "add", name)
    with httpx.Client(base_url=site.url, timeout=60) as me:
        assert me.get(sign_in_link(site.server, name)).status_code == 303
        account = Site(site.server, me)
        fill_notes(account)
        yield account


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    with open_context(browser, site) as opened:
        yield opened


@contextmanager
def open_context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    opened = browser.new_context(
        base_url=site.url, locale="en-US", timezone_id="UTC", viewport={"width": 1200, "height": 800}
    )
    opened.add_cookies([{"name": name, "value": value, "url": site.url} for name, value in site.me.cookies.items()])
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, site: Site) -> Iterator[Page]:
    with open_page(context, site) as opened:
        yield opened


@pytest.fixture
def new_account_page(browser: Browser, new_account: Site) -> Iterator[Page]:
    with open_context(browser, new_account) as context, open_page(context, new_account) as opened:
        yield opened


@contextmanager
def open_page(context: BrowserContext, site: Site) -> Iterator[Page]:
    """Fails a test whose page reports an error, breaks its policy, or sends a request to another host."""
    opened = context.new_page()
    watched = Watched(site.url)
    watched.watch(opened)
    yield opened
    assert watched.wrong == []


class Watched:
    def __init__(self, url: str) -> None:
        self._url = url
        self.wrong: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("pageerror", self._failed)
        page.on("console", self._note_console)
        page.on("request", self._note_request)

    def _failed(self, error: Error) -> None:
        self.wrong.append(error.message)

    def _note_console(self, message: ConsoleMessage) -> None:
        is_refusal = "status of 4" in message.text or "status of 503" in message.text  # which the page shows
        if message.type == "error" and not is_refusal:
            self.wrong.append(message.text)

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self._url, "blob:", "data:", "about:")):
            self.wrong.append(f"requested {request.url}")
