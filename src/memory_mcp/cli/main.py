import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import takewhile
from typing import Annotated, Any

import typer

from memory_mcp import __version__
from memory_mcp.cli import (
    browser,
    cells,
    config,
    connect,
    edits,
    graph,
    hook,
    imports,
    keys,
    maintenance,
    memories,
    models,
    portal,
    servers,
    settings_help,
    stores,
    sync,
    users,
    writes,
)
from memory_mcp.cli.common import report_bad_usage, report_errors
from memory_mcp.cli.interrupts import raise_on_signals
from memory_mcp.cli.output import end_at_closed_pipe, print_text
from memory_mcp.cli.verbs import Verbs

cli = Verbs(
    name="memory-mcp",
    help="The memory every AI agent plugs in. Without a command it serves MCP over stdio; "
    "`memory-mcp serve --help` lists the settings.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
cli.command("connect", epilog=connect.EPILOG)(connect.connect)  # help lists the verbs in this order
cli.command("open")(browser.open_web_app)
cli.command()(memories.add)
cli.command()(memories.search)
cli.command("list")(edits.list_memories)
cli.command()(memories.show)
cli.command()(edits.edit)
cli.command()(edits.rm)
cli.command()(memories.stats)
cli.command("import", epilog=imports.EXAMPLES)(imports.import_memories)
cli.command("export")(maintenance.export)
cli.command("backup")(maintenance.backup)
cli.command("restore")(maintenance.restore)
cli.command("doctor")(maintenance.doctor)
cli.command("migrate")(maintenance.migrate)
cli.command()(servers.ps)
cli.command()(servers.stop)
cli.command("config", context_settings=settings_help.CONTEXT, add_help_option=False)(config.show)
cli.command("hook")(hook.hook)
cli.add_typer(writes.cli, name="writes")
cli.add_typer(users.cli, name="users")
cli.add_typer(cells.cli, name="cells")
cli.add_typer(keys.cli, name="keys")
cli.add_typer(models.cli, name="models")
cli.add_typer(stores.cli, name="stores")
cli.add_typer(graph.cli, name="graph")
cli.add_typer(portal.cli, name="portal")
cli.add_typer(sync.cli, name="sync")


def command_line(arguments: Sequence[str]) -> None:
    """Run one verb. Exit codes: 0 done, 1 refused or failed, 2 bad usage, 130 interrupted."""
    as_json = "--json" in list(takewhile(lambda argument: argument != "--", arguments))
    with end_at_closed_pipe(), report_errors(as_json=as_json), raise_on_signals():
        if not as_json:
            command()(args=list(arguments), prog_name="memory-mcp")
        with report_bad_usage():
            sys.exit(command()(args=list(arguments), prog_name="memory-mcp", standalone_mode=False))


@cache
def command() -> Callable[..., Any]:
    """All verbs. `cli` itself would put them together for every call, which takes half the time of most verbs."""
    return typer.main.get_command(cli)


def _version(wanted: bool) -> None:
    if wanted:
        print_text(f"memory-mcp {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


@cli.command(context_settings=settings_help.CONTEXT, add_help_option=False)
def serve(context: typer.Context) -> None:
    """Serve MCP over stdio, or over HTTP with --transport http."""
    from memory_mcp import start

    if settings_help.is_wanted(context.args):
        settings_help.show("serve", start.DESCRIPTION)
    raise typer.Exit(start.serve(context.args))


@cli.command(context_settings=settings_help.CONTEXT, add_help_option=False)
def hub(context: typer.Context) -> None:
    """Serve the hub that nodes sync through, with a data directory of its own."""
    from memory_mcp import start

    if settings_help.is_wanted(context.args):
        settings_help.show("hub", start.HUB_DESCRIPTION, start.HUB_SETTINGS, start.hub_defaults())
    raise typer.Exit(start.serve_hub(context.args))
