"""memory-mcp open, and the link that a starting server prints."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from memory_mcp.server.tcp_peers import uid_of
from tests import processes
from tests.processes import environment
from tests.terminal import Terminal

OTHER_ACCOUNT = 65534


def run(data_dir: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "", "MEMORY_MCP_EMBEDDER": "none", "MEMORY_MCP_PORT": "0"}
    return processes.run("open", *arguments, "--data-dir", data_dir, env=environment(**(plain | env)))


def person(link: str) -> str:
    """The name of the person who is signed in after following a link, as a browser does."""
    with httpx.Client(base_url=link.partition("/sign-in")[0]) as browser:
        assert browser.get(link).status_code == 303
        return str(browser.get("/api/me").json()["name"])


def status_for_another_account(url: str) -> int:
    """Of a request over a socket that belongs to another account."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = HTTPConnection(host)
    connection.connect()
    os.fchown(connection.sock.fileno(), OTHER_ACCOUNT, -1)
    connection.request("GET", f"/{path}")
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows it")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_the_account_of_a_connection_is_known(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server(("::" if ":" in host else host, 0), family=family, dualstack_ipv6=":" in host) as server,
        socket.create_connection((host.removeprefix("::ffff:"), server.getsockname()[1])) as client,
        server.accept()[0] as accepted,
    ):
        assert uid_of(accepted.getpeername()[:2], accepted.getsockname()[:2]) == os.getuid()
        assert uid_of(("127.0.0.1", 1), client.getpeername()[:2]) is None


def test_open_starts_a_server_once_and_signs_in(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    first = run(data_dir, "--json")
    assert first.returncode == 0, first.stderr
    opened = json.loads(first.stdout)
    try:
        assert opened["started"]
        assert "mmcp_" in first.stderr
        assert stat.S_IMODE((data_dir / "server.log").stat().st_mode) == 0o600
        assert "token" not in (data_dir / "server.log").read_text()
        again = json.loads(run(data_dir, "--json").stdout)
        assert (again["address"], again["started"], again["pid"]) == (opened["address"], False, opened["pid"])
        assert again["link"] != opened["link"]
        port = opened["address"].rpartition(":")[2]
        busy = processes.run("serve", "--transport", "http", "--port", port, "--data-dir", data_dir, env=environment())
        assert (busy.returncode, busy.stdout) == (1, "")
        assert f"A server of this data directory already runs at {opened['address']}" in busy.stderr
        assert person(again["link"]) == "local"
        linked = processes.run("users", "link", "--data-dir", data_dir, env=environment())
        assert (linked.stdout.startswith(f"{opened['address']}/sign-in?token="), linked.stderr) == (True, "")
        printed = run(data_dir)
        assert (printed.returncode, printed.stderr) == (0, "")
        assert printed.stdout.startswith(f"{opened['address']}/sign-in?token=")
        seen = tmp_path / "seen"
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
        browser.chmod(0o700)
        shown = run(data_dir, BROWSER=str(browser))
        assert shown.stdout == f"Opened {opened['address']}/ in your browser.\n"
        link = seen.read_text().strip()
        assert link.startswith(f"{opened['address']}/sign-in?token=")
        if os.getuid() == 0:  # another account, which has seen the command line of the browser, is faster
            assert status_for_another_account(link) == 401
        assert person(link) == "local"
    finally:
        os.kill(opened["pid"], signal.SIGTERM)


def test_a_link_for_no_running_server_says_how_to_start_one(tmp_path: Path) -> None:
    processes.run("add", "x", "--data-dir", tmp_path, env=environment(MEMORY_MCP_EMBEDDER="none"), check=True)
    linked = processes.run("users", "link", "--data-dir", tmp_path, env=environment(MEMORY_MCP_PORT="9000"))
    assert linked.stdout.startswith("http://127.0.0.1:9000/sign-in?token=")
    assert "No server runs over HTTP now" in linked.stderr
    assert "`memory-mcp open` starts one" in linked.stderr


def test_open_says_why_a_server_does_not_start(tmp_path: Path) -> None:
    refused = run(tmp_path, "--json", MEMORY_MCP_HOST="192.0.2.1")
    assert refused.returncode == 1
    assert "192.0.2.1" in json.loads(refused.stderr)["message"]


def test_a_start_at_a_terminal_prints_a_link_while_no_browser_is_signed_in(tmp_path: Path) -> None:
    processes.run("users", "password", "--stdin", "--data-dir", tmp_path, stdin="correct horse battery", check=True)
    for link, without in (("/sign-in?token=", "memory-mcp open"), ("memory-mcp open", "/sign-in?token=")):
        terminal = Terminal("serve", "--transport", "http", "--port", "0", "--data-dir", tmp_path, columns=400)
        shown = terminal.read_until("Or by hand:")
        assert link in shown
        assert without not in shown
        if "token=" in link:
            [url] = [word for word in shown.split() if link in word]
            assert person(url) == "local"
        terminal.process.terminate()
        terminal.finish()
