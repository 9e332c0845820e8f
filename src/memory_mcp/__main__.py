"""Start: `memory-mcp` and `python -m memory_mcp`.

Serving is on the fast path: a client waits for it at every start. Other verbs load the command line.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_mcp.settings import Settings

PEOPLES = [["--help"], ["-h"], ["--version"], ["--install-completion"], ["--show-completion"]]
COMPLETING = "_MEMORY_MCP_COMPLETE"  # what a shell sets to ask how a line could go on
DESCRIPTION = "Serve MCP over stdio, or over HTTP with --transport http."
HUB_SETTINGS = (
    *("host", "port", "data_dir", "public_url", "forwarded_allow_ips", "durability", "log_level"),
    *("read_threads", "write_threads", "queue_seconds", "header_seconds", "body_seconds", "address_connections"),
)
HUB_PORT = 8766  # beside a server's own
HUB_DESCRIPTION = "Serve the hub that nodes sync through, over plain HTTP. Its data directory is its own."


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["serve"]:
        sys.exit(serve(arguments[1:]))
    is_for_people = COMPLETING in os.environ or arguments[:1] in PEOPLES
    if not is_for_people and (not arguments or arguments[0].startswith("-")):
        sys.exit(serve(arguments))
    from memory_mcp.cli import command_line

    command_line(arguments)


def serve(argv: Sequence[str]) -> int:
    """Serve until the client leaves. 0: done, 1: refused or failed, 2: a setting makes no sense."""
    gc.disable()  # importing makes many objects and no garbage: a tenth of the start would go into looking for some
    from memory_mcp import settings

    arguments = settings.parser("memory-mcp serve", DESCRIPTION).parse_args(argv)
    return _serve(vars(arguments), _open_door)


def serve_hub(argv: Sequence[str]) -> int:
    """The same for a hub, whose data lies in a folder of its own unless told."""
    from memory_mcp import settings

    given = vars(settings.parser("memory-mcp hub", HUB_DESCRIPTION, HUB_SETTINGS).parse_args(argv))
    usual = {"data_dir": settings.default_data_dir("memory-mcp-hub"), "port": HUB_PORT}
    for name, value in usual.items():
        if given[name] is None and not os.environ.get(settings.env_name(name)):
            given[name] = value
    return _serve(given, _open_hub)


def _serve(given: dict[str, Any], open_door: Callable[["Settings"], None]) -> int:
    from memory_mcp import logs, settings
    from memory_mcp.errors import AppError

    try:
        chosen = settings.load(given).settings
    except AppError as exc:
        return _complain(exc.text_for_owner, 2)
    logs.configure(chosen.log_level)
    try:
        open_door(chosen)
    except AppError as exc:
        return _complain(exc.text_for_owner, 1)
    from memory_mcp.server import shutdown

    shutdown.end_process(0)
    return 0


def _open_door(chosen: "Settings") -> None:
    from memory_mcp.app import open_app

    if chosen.transport == "stdio":
        from memory_mcp.server.stdio import run
    else:
        from memory_mcp.server.http import run
    gc.freeze()
    gc.enable()
    with open_app(chosen) as app:
        run(app)


def _open_hub(chosen: "Settings") -> None:
    from memory_mcp.app import open_hub
    from memory_mcp.server.hub import run

    with open_hub(chosen) as app:
        run(app)


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"memory-mcp: {message}\n")
    return code


if __name__ == "__main__":
    main()
