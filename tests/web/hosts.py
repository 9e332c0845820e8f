"""Hosts that others wrote, with our viewer open in them: MCP Inspector, and the AppBridge that hosts are made of."""

import json
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    FrameLocator,
    Page,
    Route,
    expect,
)

from tests.compatibility.judges import Judges
from tests.events import eventually
from tests.processes import COMMAND, environment
from tests.web.conftest import PORTAL, Site
from tests.wire import MODERN

APP_BRIDGE = Path(__file__).with_name("app_bridge")
SANDBOX = "http://sandbox.invalid/"
# What MCP Apps prescribes for a resource that asks for nothing.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
SOON = 30.0  # seconds for the inspector to start


@dataclass
class Host:
    page: Page
    app: FrameLocator
    wrong: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Notice what an app must not do: fail, and try what its host's policy forbids."""
        self.page.on("pageerror", self._failed)
        self.page.on("console", self._note_console)

    def _failed(self, error: Error) -> None:
        self.wrong.append(error.message)

    def _note_console(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.wrong.append(message.text)

    @property
    def origin(self) -> Any:
        return self.page.frames[-1].evaluate("window.origin")


@contextmanager
def opened_page(browser: Browser) -> Iterator[Host]:
    context: BrowserContext = browser.new_context(
        locale="en-US", timezone_id="UTC", viewport={"width": 1400, "height": 1000}
    )
    page = context.new_page()
    host = Host(page, page.frame_locator("iframe").frame_locator("iframe"))
    host.watch()
    yield host
    context.close()


# MCP Inspector


@dataclass(frozen=True)
class Inspector:
    url: str
    token: str

    def show(self, host: Host, server: str) -> None:
        """Open the viewer as a person does."""
        page = host.page
        page.on("dialog", _agree)  # it asks before it saves a file
        page.goto(f"{self.url}?MCP_INSPECTOR_API_TOKEN={self.token}")
        page.get_by_role("switch", name=server).check(force=True)
        page.get_by_role("button", name="Close monitoring sidebar").click()  # drawing every message takes it seconds
        page.get_by_text("Apps", exact=True).click()
        expect(page.get_by_text("MCP Apps (1)")).to_be_visible()  # the viewer's helpers are none
        page.get_by_text("List tables").click()
        page.get_by_test_id("apps-form").get_by_role("textbox", name="portalUri").fill(PORTAL)
        page.get_by_test_id("open-app").click()
        expect(host.app.get_by_role("grid")).to_be_visible()


def _agree(dialog: Dialog) -> None:
    dialog.accept()


@contextmanager
def inspector(judges: Judges, site: Site, folder: Path) -> Iterator[Inspector]:
    """MCP Inspector, which knows the site's server by HTTP and starts another on the same data by stdio."""
    port, token = free_port(), secrets.token_hex()
    config, log = folder / "mcp.json", folder / "inspector.log"
    config.write_text(json.dumps({"mcpServers": servers(site)}), encoding="utf-8")
    settings = {
        "HOME": str(folder),
        "CLIENT_PORT": str(port),
        "MCP_SANDBOX_PORT": "0",
        "MCP_APP_ORIGIN_PORT": "0",
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_API_TOKEN": token,
        "MCP_INSPECTOR_SECRET_STORE": "memory",
    }
    command = judges.command("mcp-inspector", "--web", "--config", str(config))
    with (
        log.open("w", encoding="utf-8") as saying,
        subprocess.Popen(command, env=environment(**settings), stdout=saying, stderr=saying) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}/"
            _wait_until_up(process, url, log)
            yield Inspector(url, token)
        finally:
            process.terminate()


def servers(site: Site) -> dict[str, Any]:
    bearer = {"Authorization": f"Bearer {site.server.key}"}
    arguments = [*COMMAND[1:], "--data-dir", str(site.server.data_dir), "--embedder", "none"]
    inherited = {name: value for name, value in environment().items() if name == "PYTHONPATH"}  # it passes on few
    return {
        "http": {"type": "streamable-http", "url": f"{site.url}/mcp", "headers": bearer, "protocolEra": "modern"},
        "stdio": {"type": "stdio", "command": sys.executable, "args": arguments, "env": inherited},
    }


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    def is_up() -> bool:
        try:
            httpx.get(url)
        except httpx.TransportError:
            assert process.poll() is None, log.read_text("utf-8")
            return False
        return True

    eventually(is_up)


# The official AppBridge


def bundled(judges: Judges, folder: Path) -> str:
    """Our host's script with the official client and AppBridge, for a browser."""
    (folder / "host.js").write_bytes((APP_BRIDGE / "host.js").read_bytes())
    (folder / "node_modules").symlink_to(judges.packages)
    command = judges.command("rolldown", "host.js", "--file", "bundle.js", "--platform", "browser", "--format", "esm")
    subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=True)
    return (folder / "bundle.js").read_text("utf-8")


def show_by_app_bridge(host: Host, site: Site, script: str) -> None:
    """The host's own page is at the server's origin, so that a browser lets its client in; the sandbox is elsewhere."""
    page = host.page

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if name == "host.js":
            route.fulfill(body=script, content_type="text/javascript")
        else:
            route.fulfill(path=APP_BRIDGE / "host.html")

    page.route(f"{site.url}/test-host/*", answer)
    page.route(
        re.compile(re.escape(SANDBOX)),
        lambda route: route.fulfill(
            path=APP_BRIDGE / "sandbox.html", headers={"Content-Type": "text/html", "Content-Security-Policy": POLICY}
        ),
    )
    page.goto(f"{site.url}/test-host/")
    call = {
        "key": site.server.key,
        "era": MODERN,
        "tool": "portal_view",
        "input": {"portalUri": PORTAL},
        "sandbox": SANDBOX,
    }
    page.evaluate("call => window.show(call)", call)
    expect(host.app.get_by_role("grid")).to_be_visible()
