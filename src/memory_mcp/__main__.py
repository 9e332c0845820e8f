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

CLI_FLAGS = [["--help"], ["-h"], ["--version"], ["--install-completion"], ["--show-completion"]]
COMPLETION_VARIABLE = "_MEMORY_MCP_COMPLETE"  # set by a shell that wants completions
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
    is_for_cli = COMPLETION_VARIABLE in os.environ or arguments[:1] in CLI_FLAGS
    if not is_for_cli and (not arguments or arguments[0].startswith("-")):
        sys.exit(serve(arguments))
    from memory_mcp.cli import command_line

    command_line(arguments)


def serve(argv: Sequence[str]) -> int:
    """Serve until the client disconnects. Returns 0 when done, 1 for an error, 2 for an invalid setting."""
    gc.disable()  # imports make many objects and no garbage: collections would take a tenth of the start
    from memory_mcp import settings

    arguments = settings.parser("memory-mcp serve", DESCRIPTION).parse_args(argv)
    return _serve(vars(arguments), _run_server)


def serve_hub(argv: Sequence[str]) -> int:
    """The same for a hub, which has its own default data directory and port."""
    from memory_mcp import settings

    given = vars(settings.parser("memory-mcp hub", HUB_DESCRIPTION, HUB_SETTINGS).parse_args(argv))
    usual = {"data_dir": settings.default_data_dir("memory-mcp-hub"), "port": HUB_PORT}
    for name, value in usual.items():
        if given[name] is None and not os.environ.get(settings.env_name(name)):
            given[name] = value
    return _serve(given, _run_hub)


def _serve(given: dict[str, Any], run: Callable[["Settings"], None]) -> int:
    from memory_mcp import logs, settings
    from memory_mcp.errors import AppError

    try:
        chosen = settings.load(given).settings
    except AppError as exc:
        return _print_error(exc.text_for_owner, 2)
    logs.configure(chosen.log_level)
    try:
        run(chosen)
    except AppError as exc:
        return _print_error(exc.text_for_owner, 1)
    from memory_mcp.server import shutdown

    shutdown.end_process(0)
    return 0


def _run_server(chosen: "Settings") -> None:
    from memory_mcp.app import open_app

    if chosen.transport == "stdio":
        from memory_mcp.server.stdio import run
    else:
        from memory_mcp.server.http import run
    gc.freeze()
    gc.enable()
    with open_app(chosen) as app:
        run(app)


def _run_hub(chosen: "Settings") -> None:
    from memory_mcp.app import open_hub
    from memory_mcp.server.hub import run

    with open_hub(chosen) as app:
        run(app)


def _print_error(message: str, code: int) -> int:
    sys.stderr.write(f"memory-mcp: {message}\n")
    return code


if __name__ == "__main__":
    main()
