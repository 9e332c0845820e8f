"""The start of a server in this process."""

import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from memory_mcp.system import garbage

if TYPE_CHECKING:
    from memory_mcp.settings import Settings

log = logging.getLogger(__name__)

DESCRIPTION = "Serve MCP over stdio, or over HTTP with --transport http."
HUB_SETTINGS = (
    *("host", "port", "data_dir", "public_url", "forwarded_allow_ips", "durability", "log_level"),
    *("read_threads", "write_threads", "queue_seconds", "header_seconds", "body_seconds", "address_connections"),
    *("drain_seconds", "database_url", "direct_database_url"),
)
HUB_PORT = 8766  # beside a server's own
HUB_DESCRIPTION = "Serve the hub that nodes sync through, over plain HTTP. Its data directory is its own."
INTRODUCTION = """\
Memory MCP {version}: the memory every AI agent plugs in.

MCP clients start this program and talk to it over stdin.
At a terminal, type one of these:

  {command} connect          add it to a client
  {command} open             open the web app
  {command} add "TEXT"       store a memory
  {command} search "WORDS"   find memories
  {command} list             list the latest memories
  {command} --help           show all commands
"""
AT_TERMINAL = (
    "memory-mcp: Serving MCP over stdin and stdout: this terminal is the client now. Ctrl-C ends it. "
    "`memory-mcp connect` adds this server to a client, and `memory-mcp open` opens the web app.\n"
)


def serve(argv: Sequence[str], *, is_bare: bool = False, not_shared: str | None = None) -> int:
    """Serve until the client disconnects. Returns 0 when done, 1 for an error, 2 for an invalid setting.

    `is_bare`: the command line is empty. A person who types that at a terminal gets an introduction instead.
    `not_shared`: why this client is not served by a shared server.
    """
    gc.disable()  # imports make many objects and no garbage: collections would take a tenth of the start
    run = _introduce if is_bare and _is_at_terminal() else partial(_run_server, not_shared=not_shared)
    return _serve("memory-mcp serve", argv, run)


def check(argv: Sequence[str]) -> int:
    """Print what is wrong with the arguments of `serve`. Returns 2 then, else 0."""
    return _settings_or_code("memory-mcp serve", argv, None, {})[1]


def serve_hub(argv: Sequence[str]) -> int:
    """The same for a hub, which has its own default data directory and port."""
    return _serve("memory-mcp hub", argv, _run_hub, HUB_SETTINGS, hub_defaults())


def hub_defaults() -> dict[str, Any]:
    from memory_mcp import settings

    return {"data_dir": settings.default_data_dir("memory-mcp-hub"), "port": HUB_PORT}


def _serve(
    prog: str,
    argv: Sequence[str],
    run: Callable[["Settings"], None],
    names: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> int:
    from memory_mcp import logs
    from memory_mcp.errors import AppError

    chosen, code = _settings_or_code(prog, argv, names, defaults or {})
    if chosen is None:
        return code
    logs.configure(chosen.log_level)
    try:
        run(chosen)
    except AppError as exc:
        return _print_error(exc.text_for_owner, 1)
    from memory_mcp.server import shutdown

    shutdown.end_process(0)
    return 0


def _settings_or_code(
    prog: str, argv: Sequence[str], names: Sequence[str] | None, defaults: Mapping[str, Any]
) -> tuple["Settings | None", int]:
    """The settings and 0, or None and the exit code after the error was printed. A folder of other files is no data
    directory."""
    from memory_mcp import settings
    from memory_mcp.engines.files import data_directory
    from memory_mcp.errors import AppError

    try:
        given = settings.parser(prog, names).parse(argv)
        for name, value in defaults.items():
            if given[name] is None and not os.environ.get(settings.env_name(name)):
                given[name] = value
        chosen = settings.load(given).settings
        data_directory.require_no_other_files(chosen.data_dir)
    except AppError as exc:
        return None, _print_error(exc.text_for_owner, 2)
    return chosen, 0


def answer_hook(data_dir: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one event of a client, without a server. Raises AppError, or OSError for a file that cannot be read."""
    from memory_mcp import app, logs, settings

    chosen = settings.load({"data_dir": data_dir}).settings
    logs.configure("error")
    with app.open_app(chosen, serving=False) as opened:
        return app.answer_hook(opened, call["event"], call["payload"], call["client"])


def _is_at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _introduce(chosen: "Settings") -> None:
    """Print what this program is, unless the settings say that it serves over HTTP."""
    if chosen.transport != "stdio":
        _run_server(chosen)
        return
    from memory_mcp import __version__
    from memory_mcp.clients.model import shown_command

    sys.stdout.write(INTRODUCTION.format(version=__version__, command=shown_command()))
    sys.stdout.flush()


def _run_server(chosen: "Settings", not_shared: str | None = None) -> None:
    from memory_mcp.app import open_app

    if chosen.transport == "stdio":
        from memory_mcp.server.stdio import run

        if _is_at_terminal():
            from memory_mcp.system.terminal import wrap

            sys.stderr.write(wrap(AT_TERMINAL, sys.stderr))
    else:
        from memory_mcp.server.http import run
    garbage.start_collection()
    with open_app(chosen) as app:
        if not_shared and chosen.transport == "stdio":
            log.info("This client has a server of its own: %s.", not_shared)
        run(app)


def _run_hub(chosen: "Settings") -> None:
    from memory_mcp.app import open_hub
    from memory_mcp.server.hub import run

    with open_hub(chosen) as app:
        run(app)


def _print_error(message: str, code: int) -> int:
    from memory_mcp.system.terminal import wrap

    sys.stderr.write(wrap(f"memory-mcp: {message}\n", sys.stderr))
    return code
