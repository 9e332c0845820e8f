"""The Typer of all verbs."""

from collections.abc import Callable
from typing import Any

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from memory_mcp.cli.narrow_help import print_help
from memory_mcp.text.validation import sentence


class Verbs(typer.Typer):
    """A Typer whose help fits narrow terminals, and shows no type for flags: they take no value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=_Command, **options)


class _WithReadableHelp:
    def format_help(self, ctx: Any, formatter: Any) -> None:
        print_help(self, ctx)

    def print_columns(self, ctx: Any) -> None:
        """Print Typer's help."""
        super().format_help(ctx, ctx.make_formatter())  # type: ignore[misc]  # of the class that it is mixed into

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class that it is mixed into
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Group(_WithReadableHelp, TyperGroup): ...


class _Command(_WithReadableHelp, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises BadParameter that says what to give, in the words of all other messages about values."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as exc:
            if isinstance(exc.__cause__, ValidationError):
                exc.message = f"{sentence(exc.__cause__.errors()[0])}."
            raise
