"""A new user's first steps with an installed product."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from tools.install_ways import User

from memory_mcp import __version__
from tests.wire import HELLO, Stdio, http_server

WEB = Path(__file__).parents[2] / "src" / "memory_mcp" / "web" / "app"


def try_out(user: User, command: Sequence[str]) -> None:
    """Every step that the README names, as a process with the user's home and PATH."""
    assert user.run(*command, "--version") == f"memory-mcp {__version__}\n"
    ref = user.run(*command, "add", "We back up nightly").strip()
    assert "We back up nightly" in user.run(*command, "search", "nightly")
    assert ref in user.run(*command, "list")
    talk_over_stdio(user, command)
    open_web_app(user, command)
    connect_client(user, command)


def talk_over_stdio(user: User, command: Sequence[str], **variables: str) -> None:
    """What a client does."""
    with stdio_server(user, command, **variables) as server:
        listed = {tool["name"] for tool in server.ask("tools/list")["result"]["tools"]}
        assert {"recall_memories", "memory_create", "commit_memory", "add_memory", "create_entities"} <= listed
        created = server.call("memory_create", content="The hub is in Ghent")
        found = server.call("memory_search", query="Ghent")
        assert created["id"] in json.dumps(found)


def use_portals(user: User, command: Sequence[str]) -> None:
    with stdio_server(user, command) as server:
        rows = [{"city": "Ghent", "people": 270_000}]
        server.call("portal_write", portalUri="mem://home/cities", table="cities", data=rows)
        found = server.call(
            "portal_query", portalUri="mem://home/cities", sql="SELECT sum(people) AS total FROM cities"
        )
        assert "270000" in json.dumps(found)


def connect_client(user: User, command: Sequence[str]) -> None:
    """The command in the client's configuration starts the server, also when uv's cache was cleaned."""
    user.run(*command, "connect", "claude-code", "--yes")
    written = json.loads((user.home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["memory"]
    assert "archive-v" not in written["command"]
    talk_over_stdio(user, [written["command"], *written["args"]])


@contextmanager
def stdio_server(user: User, command: Sequence[str], **variables: str) -> Iterator[Stdio]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=user.environment(**variables),
        encoding="utf-8",
    )
    server = Stdio(process)
    try:
        assert server.ask("initialize", HELLO)["result"]["serverInfo"]["version"] == __version__
        server.send({"method": "notifications/initialized"})
        yield server
        assert server.close() == 0
        user.run(*command, "stop", **variables)  # the shared server, which waits for the next client
    finally:
        server.kill()


def open_web_app(user: User, command: Sequence[str]) -> None:
    data_dir = user.home / ".local" / "share" / "memory-mcp"
    with http_server(data_dir, command=command, env=user.environment()) as server:
        signed_in = httpx.get(server.link, follow_redirects=True)
        assert signed_in.text == (WEB / "index.html").read_text(encoding="utf-8")
        for asset in (WEB / "assets").iterdir():
            assert server.client.get(f"/assets/{asset.name}").content == asset.read_bytes()
        assert server.stop() == 0
