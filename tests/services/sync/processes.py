"""Hubs as processes, nodes, and the command line."""

import io
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import httpx
import pytest

from memory_mcp import settings
from memory_mcp.app import open_access
from memory_mcp.caller import ALL_SCOPES, Scope
from memory_mcp.cli import command_line
from tests.events import eventually
from tests.processes import Process, environment

SECONDS = 30.0  # that something may take to arrive on a busy machine


@dataclass
class Hub:
    """A hub process and a plain HTTP client for it."""

    process: Process
    url: str
    data_dir: Path
    printed: str
    database_url: str | None = None

    def key(self, user: str = "local", scopes: Iterable[Scope] = ALL_SCOPES, *, is_confined: bool = False) -> str:
        """A new key for a user, who is created if needed. Not by the command line, which takes a second."""
        where = {"data_dir": self.data_dir, "database_url": self.database_url}
        with open_access(settings.load(where, environ={}).settings) as access:
            if user not in {one.name for one in access.users.all()}:
                access.users.add(user)
            owner = access.users.get(user).id
            made = access.keys.create(name="node", user=owner, scopes=frozenset(scopes), is_confined=is_confined)
        return made.raw

    def command(self, *words: str) -> None:
        """Run `memory-mcp` on the hub's data."""
        where = ["--data-dir", str(self.data_dir)]
        if self.database_url:
            command(*words, *where, MEMORY_MCP_DATABASE_URL=self.database_url)
        else:
            command(*words, *where)

    def post(self, verb: str, key: str | None, **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"node": "a", "ticket": None, "seal": None, **arguments}
        return httpx.post(f"{self.url}/api/sync/{verb}", json=body, headers=headers, timeout=SECONDS)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        cast(IO[str], self.process.stdout).close()


def start_hub(data_dir: Path, port: int = 0, database_url: str | None = None) -> Hub:
    where = ["--database-url", database_url] if database_url else []
    process = Process(["hub", "--port", port, "--data-dir", data_dir, *where], stdout=subprocess.PIPE)
    printed = ""
    for line in cast(IO[str], process.stdout):
        printed += line
        if "sync link" in line:
            break
    url = re.search(r"http://\S+?:\d+", printed)
    assert url is not None, printed
    hub = Hub(process, url[0], data_dir, printed, database_url)
    eventually(lambda: _is_up(hub))
    return hub


@contextmanager
def running_hub(data_dir: Path, port: int = 0, database_url: str | None = None) -> Iterator[Hub]:
    hub = start_hub(data_dir, port, database_url)
    try:
        yield hub
    finally:
        hub.stop()


def _is_up(hub: Hub) -> bool:
    try:
        return httpx.get(f"{hub.url}/healthz").is_success
    except httpx.TransportError:
        return False


def command(*words: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process: a new one takes a second to start."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patched,
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        for name in os.environ.keys() - environment().keys():
            patched.delenv(name)
        for name, value in env.items():
            patched.setenv(name, value)
        try:
            command_line(words)
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
    done = subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


@dataclass(frozen=True)
class Node:
    """A data directory, and `memory-mcp sync` on it."""

    data_dir: Path

    def run(self, *words: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        return command("sync", *words, "--data-dir", str(self.data_dir), check=check, **env)

    def run_json(self, *words: str, check: bool = True) -> Any:
        """The same with --json."""
        done = self.run(*words, "--json", check=check)
        return json.loads(done.stdout)

    def join(self, hub: Hub, key: str, *namespaces: str, link: tuple[str, ...] = ()) -> "Node":
        self.run("link", hub.url, "--key", key, *link)
        for namespace in namespaces:
            self.run("enable", namespace)
        return self
