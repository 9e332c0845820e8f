"""The help of the verbs whose options are the settings, which memory_mcp.settings parses: serve, hub and config."""

import inspect
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from memory_mcp import settings
from memory_mcp.cli.verbs import Verbs
from memory_mcp.settings import Settings

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""For these verbs: memory_mcp.settings gets their arguments, so that each setting is defined once."""
FLAGS = ("--help", "-h")
BY_NAME = inspect.Parameter.KEYWORD_ONLY
ELSEWHERE = (
    "Each setting can also be a variable of the environment, such as MEMORY_MCP_DATA_DIR for --data-dir, or, except "
    "that one, a line in config.toml in the data directory. A flag wins over both."
)


def is_wanted(arguments: Iterable[str]) -> bool:
    return any(argument in FLAGS for argument in arguments)


def show(
    verb: str,
    description: str,
    names: Collection[str] | None = None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    more: Mapping[str, Any] = MappingProxyType({}),
) -> NoReturn:
    """Print the help and exit. `names` are the verb's settings (None: all), `defaults` those that are its own, and
    `more` has options beside the settings."""
    options = [
        _option(name, field, defaults.get(name, field.get_default(call_default_factory=True)))
        for name, field in Settings.model_fields.items()
        if name not in settings.SECRETS and (names is None or name in names)
    ]
    options += [inspect.Parameter(name, BY_NAME, default=None, annotation=option) for name, option in more.items()]

    def run(**given: Any) -> None: ...

    run.__doc__ = f"{description}\n\n{ELSEWHERE}"
    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # which Typer reads
    helper = Verbs(add_completion=False, context_settings={"help_option_names": list(FLAGS)})
    helper.command()(run)
    helper(args=[FLAGS[0]], prog_name=f"memory-mcp {verb}")
    raise typer.Exit


def _option(name: str, field: FieldInfo, default: Any) -> inspect.Parameter:
    option = typer.Option(settings.flag(name), help=field.description, metavar=_values(field.annotation))
    return inspect.Parameter(name, BY_NAME, default=_shown(default) or None, annotation=Annotated[str | None, option])


def _values(annotation: Any) -> str:
    """As Typer shows those of other options."""
    if get_origin(annotation) is Literal:
        return f"<{'|'.join(map(str, get_args(annotation)))}>"
    if annotation is Path or Path in get_args(annotation):
        return "<path>"
    return {bool: "<true|false>", int: "<int>", float: "<float>"}.get(annotation, "<str>")


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Path) and default.is_relative_to(Path.home()):
        return f"~/{default.relative_to(Path.home()).as_posix()}"
    return ",".join(map(str, default)) if isinstance(default, tuple) else "" if default is None else str(default)
