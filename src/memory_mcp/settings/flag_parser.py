import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from memory_mcp.errors import Invalid


class FlagParser(argparse.ArgumentParser):
    """argparse that raises Invalid, where the original prints and exits. The command line shows the help."""

    def parse(self, arguments: Sequence[str]) -> dict[str, Any]:
        given, unknown = self.parse_known_args(arguments)
        if unknown:
            self._refuse(unknown[0].partition("=")[0])
        return vars(given)

    def _refuse(self, name: str) -> NoReturn:
        from memory_mcp.text.nearness import did_you_mean, nearest  # only errors need it

        near = nearest(name, self._option_string_actions) if name.startswith("-") else ()
        self.error(f"{name!r} is not an option of this command. {did_you_mean(near)}")

    def error(self, message: str) -> NoReturn:
        ended = message if message.endswith("?") else f"{message.strip(' .')}."
        raise Invalid(f"{ended} `{self.prog} --help` lists the options.")
