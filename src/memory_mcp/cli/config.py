from typing import Annotated

import typer

from memory_mcp import settings
from memory_mcp.cli import settings_help
from memory_mcp.cli.common import report_as_usage_error
from memory_mcp.cli.output import print_json, print_table
from memory_mcp.relay.link import LOG

DESCRIPTION = "Print each setting, its value and where it came from."


def show(context: typer.Context) -> None:
    """Print each setting, its value and where it came from, and the path of the shared server's log."""
    if settings_help.is_wanted(context.args):
        as_json_option = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", show_default=False)]
        settings_help.show("config", DESCRIPTION, more={"as_json": as_json_option})
    parser = settings.parser("memory-mcp config")
    parser.add_argument("--json", action="store_true", dest="as_json")
    with report_as_usage_error():
        arguments = parser.parse(context.args)
        as_json = arguments.pop("as_json")
        loaded = settings.load(arguments)
    log = settings.SettingSource("server_log", loaded.settings.data_dir / LOG, "data_dir")
    origins = (*loaded.origins, log)
    if as_json:
        print_json({origin.name: {"value": origin.value, "source": origin.source} for origin in origins})
        return
    print_table(("setting", "value", "from"), [(origin.name, origin.value, origin.source) for origin in origins])
