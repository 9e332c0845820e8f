"""memory-mcp open: the web app in the browser, signed in."""

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from memory_mcp.app import open_access
from memory_mcp.caller import LOCAL_USER
from memory_mcp.cli.common import AsJson, DataDir, chosen_settings
from memory_mcp.cli.output import print_json, print_text
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.errors import Unavailable
from memory_mcp.relay.link import LOG
from memory_mcp.services.access.sign_ins import sign_in_url
from memory_mcp.services.sessions import ServerAddress
from memory_mcp.settings import Settings
from memory_mcp.system import operating_system

START_TIMEOUT_S = 60.0
MAX_MESSAGE_BYTES = 65_536
NEW_KEY = re.compile(r"^ +(mmcp_\S+)$", re.MULTILINE)


def open_web_app(
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link only.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Open the web app in the browser, signed in. Starts a server in the background if none runs.

    Without a browser or a display it prints the link, which works once, within a day.
    """
    chosen = chosen_settings(data_dir, creates=True)
    server = _running(chosen)
    is_new = server is None
    if server is None:
        pid, message = _start(chosen)
        server = _running(chosen)
        _print_start(pid, message, data_dir)
    if server is None:
        raise Unavailable(f"The server does not respond. Its log is {chosen.data_dir / LOG}")
    base = server.url
    has_browser = not (no_browser or as_json) and _has_display()
    # Every account of the machine sees the command line of a browser that is started.
    is_opened = has_browser and webbrowser.open(_link(chosen, base, is_for_own_account=True))
    link = "" if is_opened else _link(chosen, base)
    if as_json:
        print_json({"address": base, "link": link, "started": is_new, "pid": server.pid})
    else:
        print_text(f"Opened {base}/ in your browser." if is_opened else link)


def _running(chosen: Settings) -> ServerAddress | None:
    """A running server of the data directory that is reached over HTTP."""
    with open_access(chosen) as access:
        return next(iter(access.addresses()), None)


def _link(chosen: Settings, base: str, *, is_for_own_account: bool = False) -> str:
    if chosen.auth == "none":
        return f"{base}/"
    with open_access(chosen) as access:
        token = access.sign_ins.create_link_token(LOCAL_USER, is_for_own_account=is_for_own_account)
        return sign_in_url(base, token)


def _start(chosen: Settings) -> tuple[int, str]:
    """Start a server in the background. Returns its process id and what it printed at its start."""
    port = chosen.port if _is_free(chosen) else 0
    command = [sys.executable, "-m", "memory_mcp", "serve", "--transport", "http"]
    command += ["--data-dir", str(chosen.data_dir), "--port", str(port)]
    make_private_folder(chosen.data_dir)
    reading, writing = os.pipe()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with os.fdopen(os.open(chosen.data_dir / LOG, flags, 0o600), "wb") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=log,
            cwd=chosen.data_dir,
            **operating_system.THIS.background_options,
        )
    os.close(writing)
    late = threading.Timer(START_TIMEOUT_S, server.kill)  # which ends the reading: Windows cannot wait for a pipe
    late.start()
    printed = os.read(reading, MAX_MESSAGE_BYTES)  # the server writes it at once
    late.cancel()
    os.close(reading)
    if not printed:
        server.kill()
        server.wait()
        raise Unavailable(f"The server did not start. {_last_line(chosen.data_dir / LOG)}".strip())
    return server.pid, printed.decode(errors="replace")


def _is_free(chosen: Settings) -> bool:
    host = chosen.host.strip("[]")
    try:
        family = socket.getaddrinfo(host, chosen.port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, chosen.port), family=family).close()
    except OSError:
        return False
    return True


def _last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""])[-1]


def _print_start(pid: int, message: str, data_dir: Path | None) -> None:
    """To stderr, so that stdout has the link alone."""
    end = "memory-mcp stop" if data_dir is None else f"memory-mcp stop --data-dir {shlex.quote(str(data_dir))}"
    print_text(f"A server runs in the background now (process {pid}). This ends it: `{end}`", err=True)
    if key := NEW_KEY.search(message):
        print_text(f"A key for clients over HTTP, shown this once: {key[1]}", err=True)


def _has_display() -> bool:
    """Without one, `webbrowser` would start a browser for terminals."""
    return operating_system.THIS.has_display(os.environ)
