"""The few settings that the relay reads itself. The shared server reads all of them, and may refuse the client."""

import os
import sys

CONFIG_FILE = "config.toml"
MARKER = ".memory-mcp"  # in every data directory that a server has used
ENV_PREFIX = "MEMORY_MCP_"
OTHER_VARIABLES = ("MCP_EMBED_MODEL", "OLLAMA_HOST", "OPENAI_BASE_URL", "OPENAI_API_KEY")


class NotShared(Exception):
    """The client needs a server in its own process. The text says why."""


class RelayOptions:
    def __init__(self, arguments: list[str], environ: dict[str, str]) -> None:
        """Raises NotShared."""
        self.arguments = arguments
        self.environ = {
            name: value for name, value in environ.items() if name.startswith(ENV_PREFIX) or name in OTHER_VARIABLES
        }
        self.data_dir = os.path.abspath(os.path.expanduser(self._value("data_dir") or default_data_dir(environ)))
        config = _config(self.data_dir)
        for name, expected in (("transport", "stdio"), ("shared", "auto")):
            found = self._value(name) or config.get(name) or expected
            if found != expected:
                raise NotShared(f"the setting {name} is {found}")

    @property
    def server_arguments(self) -> list[str]:
        """The arguments with the absolute path of the data directory: the server runs in another folder."""
        return [*self.arguments, "--data-dir", self.data_dir]

    def _value(self, name: str) -> str:
        """From a flag or the environment; empty if neither sets it."""
        flag = "--" + name.replace("_", "-")
        found = self.environ.get(ENV_PREFIX + name.upper(), "")
        for number, argument in enumerate(self.arguments):
            if argument.startswith(flag + "="):
                found = argument.partition("=")[2]
            elif argument == flag:
                found = self.arguments[number + 1] if number + 1 < len(self.arguments) else ""
            else:
                continue
            if not found:
                raise NotShared(f"{flag} has no value")
        return found


def default_data_dir(environ: dict[str, str]) -> str:
    """As platformdirs has it on the systems with Unix sockets."""
    home = environ.get("XDG_DATA_HOME", "").strip()
    if not home:
        home = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return os.path.join(home, "memory-mcp")


def _config(data_dir: str) -> dict[str, object]:
    path = os.path.join(data_dir, CONFIG_FILE)
    if not os.path.exists(path):
        return {}
    import tomllib  # most data directories have no such file

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        raise NotShared(f"{CONFIG_FILE} cannot be read") from None
