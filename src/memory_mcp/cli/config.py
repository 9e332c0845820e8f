import typer
from rich.console import Console
from rich.table import Table

from memory_mcp import settings
from memory_mcp.cli.common import print_json, report_as_usage_error

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""For verbs whose flags are the settings: settings.py parses them, so that they are defined once."""


def show(context: typer.Context) -> None:
    """Print each setting, its value and where it came from."""
    parser = settings.parser("memory-mcp config", "Print each setting, its value and where it came from.")
    parser.add_argument("--json", action="store_true", dest="as_json", help="Print JSON for programs.")
    arguments = vars(parser.parse_args(context.args))
    as_json = arguments.pop("as_json")
    with report_as_usage_error():
        origins = settings.load(arguments).origins
    if as_json:
        print_json({origin.name: {"value": origin.value, "source": origin.source} for origin in origins})
        return
    table = Table("setting", "value", "from", box=None)
    for origin in origins:
        value = ",".join(origin.value) if isinstance(origin.value, tuple) else origin.value
        table.add_row(origin.name, "" if value is None else str(value), origin.source)
    Console().print(table)
