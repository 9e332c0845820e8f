"""Start: `memory-mcp` and `python -m memory_mcp`.

Serving is on the fast path: a client waits for it at every start. Other verbs load the command line.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_mcp.settings import Settings

DESCRIPTION = "Serve MCP over stdio, or over HTTP with --transport http."


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["serve"]:
        sys.exit(serve(arguments[1:]))
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("--help", "-h", "--version")):
        sys.exit(serve(arguments))
    from memory_mcp.cli import command_line

    command_line(arguments)


def serve(argv: Sequence[str]) -> int:
    from memory_mcp import logs, settings
    from memory_mcp.errors import AppError

    try:
        loaded, _ = settings.from_argv("memory-mcp serve", DESCRIPTION, argv)
        logs.configure(loaded.settings.log_level)
        _open_door(loaded.settings)
    except AppError as exc:
        sys.stderr.write(f"memory-mcp: {exc.message}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _open_door(chosen: "Settings") -> None:
    from memory_mcp.app import open_app

    with open_app(chosen) as app:
        if chosen.transport == "stdio":
            from memory_mcp.doors import stdio

            stdio.run(app)
        else:
            from memory_mcp.doors import http

            http.run(app)


if __name__ == "__main__":
    main()
