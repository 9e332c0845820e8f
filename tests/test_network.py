"""Importing the package and starting a server reach for no network: not even a name is looked up."""

import json
import subprocess
import sys
from pathlib import Path

from tests.processes import environment

# An audit hook sees every attempt of Python's own sockets, and ends the process at the first that leaves the machine.
GUARD = """
import os, runpy, sys

def guard(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0]
        if host not in (None, "localhost", "127.0.0.1", "::1", ""):
            sys.stderr.write(f"NETWORK {event} {arguments}\\n")
            os._exit(99)
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in ("127.0.0.1", "::1"):
        sys.stderr.write(f"NETWORK {event} {arguments[1]}\\n")
        os._exit(99)

sys.addaudithook(guard)
"""


def test_a_start_over_stdio_reaches_for_no_network(tmp_path: Path) -> None:
    start = f"{GUARD}\nsys.argv = ['memory-mcp', '--data-dir', {str(tmp_path / 'data')!r}]\n"
    start += "runpy.run_module('memory_mcp', run_name='__main__')"
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    done = subprocess.run(
        [sys.executable, "-c", start], input=line, capture_output=True, text=True, env=environment(), check=False
    )
    assert "NETWORK" not in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "memory-mcp"


def test_no_module_reaches_for_the_network_when_it_is_imported() -> None:
    everything = f"""{GUARD}
import importlib, pkgutil, memory_mcp
for found in pkgutil.walk_packages(memory_mcp.__path__, "memory_mcp."):
    if not found.name.endswith("__main__") and ".postgres" not in found.name and not found.name.endswith("child"):
        importlib.import_module(found.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", everything], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_guard_sees_an_attempt() -> None:
    attempt = f"{GUARD}\nimport socket\nsocket.getaddrinfo('example.invalid', 80)"
    assert subprocess.run([sys.executable, "-c", attempt], capture_output=True, check=False).returncode == 99
