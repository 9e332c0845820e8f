"""Pictures of every page, in light and dark, on a desktop and a phone, for docs/pictures: `make pictures`.

`python -m tests.web.pictures home keys` takes only those of some pages.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.processes import run
from tests.services.sync.processes import running_hub
from tests.web import demo
from tests.web.conftest import Site, launched, signed_in
from tests.wire import http_server

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZES: dict[Literal["", "-phone"], ViewportSize] = {
    "": {"width": 1100, "height": 720},
    "-phone": {"width": 390, "height": 780},
}
STYLE = PICTURES.parents[1] / "src" / "memory_mcp" / "web" / "app" / "assets" / "app.css"
SPECIMEN = Path(__file__).with_name("specimen.html")
COLORS = ("--fg", "--mut", "--accent", "--ok", "--warn", "--bad", "--num", "--line", "--bg2")
CLIENTS = ("claude-code", "cursor", "claude-desktop")


def as_it_is(page: Page) -> None:
    """Most pages need nothing done to them."""


def with_rows(page: Page) -> None:
    expect(page.locator("#row0 input")).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)


def compared(page: Page) -> None:
    expect(page.get_by_role("button", name="Keep both")).to_be_visible()


def drawn(page: Page) -> None:
    expect(page.get_by_role("img", name=re.compile("^Chart of"))).to_be_visible()


def settled(page: Page) -> None:
    page.wait_for_timeout(3_000)  # a picture of notes moves until it has found its shape


# A page more is a line more: its picture's name, its address, what to do before the picture is taken.
SHOWN: dict[str, tuple[str, Callable[[Page], None]]] = {
    "home": ("/", as_it_is),
    "memories": ("/memories?q=when+do+we+back+up", as_it_is),
    "note": ("/memories/note/{note}", as_it_is),
    "editor": ("/memories/note/{note}?edit=1", as_it_is),
    "similar": ("/memories/pairs", compared),
    "fact": ("/memories/open?ref=memory%3A%2F%2Fvault%2Ffavourite-tea", as_it_is),
    "entity": ("/memories/open?ref=graph%3Ashop%2Fbilling", as_it_is),
    "conversations": ("/conversations", as_it_is),
    "graph": ("/graph", settled),
    "stores": ("/stores/default/people/ann?file=1", as_it_is),
    "portals": ("/portals/shop/orders?table=orders&sort=-price", with_rows),
    "sql": ("/portals/shop/orders?tab=sql&query={query}", drawn),
    "charts": ("/portals/shop/orders?tab=charts&by=thing", drawn),
    "import": ("/import", as_it_is),
    "people": ("/people", as_it_is),
    "keys": ("/keys", as_it_is),
    "sessions": ("/sessions", as_it_is),
    "sync": ("/sync", as_it_is),
    "settings": ("/settings", as_it_is),
}
QUERY = """
SELECT toStartOfWeek(bought_at) AS week, sum(price) AS sales, count() AS orders
FROM orders GROUP BY week ORDER BY week
""".strip()


def main(wanted: Collection[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="memory-mcp-pictures-") as folder, lively_site(Path(folder)) as site:
        note = site.call("memory_search", query="Backups", limit=1)["memories"][0]["id"]
        with launched() as browser:
            for theme in THEMES:
                take_design(browser, theme)
                for size in SIZES:
                    take(browser, site, theme, size, wanted or SHOWN, {"note": note, "query": quote(QUERY)})


@contextmanager
def lively_site(folder: Path) -> Iterator[Site]:
    data_dir = folder / "data"
    demo.live_a_month(data_dir)
    with (
        running_hub(folder / "hub") as hub,
        http_server(data_dir) as server,
        httpx.Client(base_url=server.url, timeout=60) as me,
    ):
        site = signed_in(server, me)
        for command in (["link", hub.url, "--key", hub.key()], ["enable", "work"], ["enable", "research"], ["now"]):
            run("sync", *command, "--data-dir", data_dir, check=True)
        demo.fill(site)
        for client in CLIENTS:
            server.handshake({"name": client, "version": "1"})
        yield site


def take_design(browser: Browser, theme: Literal["light", "dark"]) -> None:
    """The parts that pages are made of, with the style sheet of the app."""
    page = browser.new_page(viewport={"width": 1000, "height": 640}, color_scheme=theme)
    page.set_content(SPECIMEN.read_text("utf-8").replace("SWATCHES", "".join(map(_swatch, COLORS))))
    page.add_style_tag(content=STYLE.read_text("utf-8"))
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    page.screenshot(path=PICTURES / f"design-{theme}.png", full_page=True)
    page.close()


def _swatch(color: str) -> str:
    chip = f"width:96px;height:40px;border:1px solid var(--line);border-radius:8px;background:var({color})"
    return f'<div style="display:inline-block;margin:4px 0"><div style="{chip}"></div><code>{color}</code></div>'


def take(
    browser: Browser,
    site: Site,
    theme: Literal["light", "dark"],
    size: Literal["", "-phone"],
    wanted: Collection[str],
    words: dict[str, str],
) -> None:
    context: BrowserContext = browser.new_context(
        base_url=site.url,
        locale="en-US",
        timezone_id="UTC",
        color_scheme=theme,
        reduced_motion="reduce",
        viewport=SIZES[size],
        is_mobile=bool(size),
        has_touch=bool(size),
    )
    context.add_cookies([{"name": name, "value": value, "url": site.url} for name, value in site.me.cookies.items()])
    page = context.new_page()
    for name, (address, prepare) in SHOWN.items():
        if name not in wanted:
            continue
        page.goto(address.format(**words))
        expect(page.get_by_role("heading", level=1)).to_be_attached()
        expect(page.get_by_label("Loading")).to_have_count(0)
        prepare(page)
        file = PICTURES / f"{name}{size}-{theme}.png"
        page.screenshot(path=file, animations="disabled")
        print(f"{file.name}: {file.stat().st_size // 1024} kB", flush=True)
    context.close()


if __name__ == "__main__":
    main(sys.argv[1:])
