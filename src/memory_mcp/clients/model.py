"""The supported clients: where each keeps its configuration, and the format of a server's entry in it.

The only list of clients: `memory-mcp connect`, the startup message and docs/clients.md use it.
"""

import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memory_mcp import DISTRIBUTION
from memory_mcp.system import installation, operating_system
from memory_mcp.system.installation import PROGRAM
from memory_mcp.system.paths import expand_home

NAME = "memory"
BRIDGE_HEADER = "MEMORY_MCP_AUTHORIZATION"
_COMMAND = re.compile(r"(?:(?<=`)|(?<=: ))memory-mcp(?= )")
LOOPBACK = {"localhost", "127.0.0.1", "::1"}

Entry = dict[str, Any]
"""One server in a client's configuration."""


@dataclass(frozen=True)
class Machine:
    """What the location of a client's configuration depends on."""

    system: operating_system.SystemName
    home: Path
    current_dir: Path
    environ: Mapping[str, str]

    def variable(self, name: str, otherwise: Path) -> Path:
        given = self.environ.get(name)
        return expand_home(given) if given else otherwise

    @property
    def app_data(self) -> Path:
        """The system's folder for the application data of a user."""
        if self.system == "windows":
            return self.variable("APPDATA", self.home / "AppData" / "Roaming")
        if self.system == "macos":
            return self.home / "Library" / "Application Support"
        return self.variable("XDG_CONFIG_HOME", self.home / ".config")

    def which(self, program: str) -> str | None:
        return shutil.which(program, path=self.environ.get("PATH", ""))


def this_machine(environ: Mapping[str, str]) -> Machine:
    return Machine(operating_system.THIS.name, Path.home(), Path.cwd(), environ)


@dataclass(frozen=True)
class Stdio:
    """The client starts its own server process."""

    command: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Http:
    """The client connects to a running server. Without a key this works only if the server has --auth none."""

    url: str
    key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


ServerEndpoint = Stdio | Http


def own_command(*more: str) -> Stdio:
    """The command that starts this installation, independent of PATH and the current folder.

    An installation of `uvx` is in uv's cache, which may be cleaned: the command is then the one that installs it again.
    """
    if uv := installation.uv_of_uvx():
        return Stdio(uv, ("tool", "run", "--from", _requirement(), PROGRAM, *more))
    script = Path(sysconfig.get_path("scripts")) / operating_system.THIS.program_name(PROGRAM)
    if script.is_file():
        return Stdio(str(script), more)
    return Stdio(sys.executable, ("-m", "memory_mcp", *more))


def shown_command() -> str:
    """How a person starts this installation at a terminal: its name if that is on PATH, else the whole command."""
    if installation.uv_of_uvx() and shutil.which("uvx"):
        wanted = _requirement()
        return shlex.join(["uvx", *([wanted] if wanted == DISTRIBUTION else ["--from", wanted, PROGRAM])])
    own = own_command()
    found = shutil.which(PROGRAM)
    if not own.args and found is not None and Path(found).resolve() == Path(own.command).resolve():
        return PROGRAM
    return shlex.join([own.command, *own.args])


def as_typed(text: str) -> str:
    """A text for people, whose commands, in backticks or after a colon, are as this installation takes them: after
    `uvx`, there is no `memory-mcp` on PATH."""
    return _COMMAND.sub(lambda _: shown_command(), text) if installation.uv_of_uvx() else text


def _requirement() -> str:
    """What this installation was made from, with portals, if it has them."""
    return installation.requirement("portals" if find_spec("chdb") else "")


@dataclass(frozen=True)
class ClientProgram:
    """An MCP client. Its fields describe the format of its configuration."""

    id: str
    title: str
    file: Callable[[Machine], Path]
    project_file: str | None
    programs: tuple[str, ...]
    next_step: str
    section: str = "mcpServers"
    names_type: bool = False
    url_field: str | None = "url"  # None: it only starts programs, and mcp-remote connects to URLs
    headers_field: str = "headers"
    install_paths: Callable[[Machine], tuple[Path, ...]] | None = None
    """Files and folders that show that it is installed. None: the folder of its configuration."""

    def seems_installed(self, machine: Machine) -> bool:
        install_paths = self.install_paths(machine) if self.install_paths else (self.file(machine).parent,)
        return any(machine.which(program) for program in self.programs) or any(path.exists() for path in install_paths)

    def entry(self, endpoint: ServerEndpoint, npx: str = "npx") -> Entry:
        """This server's entry in this client's configuration."""
        if isinstance(endpoint, Stdio):
            return self._typed("stdio") | {"command": endpoint.command, "args": list(endpoint.args)}
        if self.url_field is None:
            return _bridged(endpoint, npx)
        headers = {self.headers_field: endpoint.headers} if endpoint.headers else {}
        return self._typed("http") | {self.url_field: endpoint.url} | headers

    def _typed(self, kind: str) -> Entry:
        return {"type": kind} if self.names_type else {}


def _bridged(endpoint: Http, npx: str) -> Entry:
    """An entry that uses mcp-remote. The header is in a variable: on Windows, spaces in arguments get lost."""
    entry: Entry = {"command": npx, "args": ["-y", "mcp-remote", endpoint.url]}
    parts = urlsplit(endpoint.url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        entry["args"].append("--allow-http")
    if endpoint.key:
        entry["args"] += ["--header", f"Authorization:${{{BRIDGE_HEADER}}}"]
        entry["env"] = {BRIDGE_HEADER: f"Bearer {endpoint.key}"}
    return entry


def _claude_desktop(machine: Machine) -> Path:
    """On Windows the packaged app has its own folder in place of %APPDATA%, and does not see %APPDATA%."""
    if machine.system == "windows":
        packages = machine.variable("LOCALAPPDATA", machine.home / "AppData" / "Local") / "Packages"
        for package in sorted(packages.glob("Claude_*")):
            return package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
    return machine.app_data / "Claude" / "claude_desktop_config.json"


def _zed(machine: Machine) -> Path:
    if machine.system == "windows":
        return machine.app_data / "Zed" / "settings.json"
    if machine.system == "macos":
        return machine.home / ".config" / "zed" / "settings.json"
    return machine.variable("FLATPAK_XDG_CONFIG_HOME", machine.app_data) / "zed" / "settings.json"


def _claude_code(machine: Machine) -> Path:
    return machine.variable("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json"


CLIENTS: dict[str, ClientProgram] = {
    client.id: client
    for client in (
        ClientProgram(
            id="claude-desktop",
            title="Claude Desktop",
            file=_claude_desktop,
            project_file=None,
            programs=("claude-desktop",),
            next_step="Quit Claude Desktop and start it again.",
            url_field=None,
        ),
        ClientProgram(
            id="claude-code",
            title="Claude Code",
            file=_claude_code,
            project_file=".mcp.json",
            programs=("claude",),
            next_step="`claude mcp list` checks it; /mcp shows it in a session.",
            names_type=True,
            install_paths=lambda machine: (_claude_code(machine), machine.home / ".claude"),
        ),
        ClientProgram(
            id="cursor",
            title="Cursor",
            file=lambda machine: machine.home / ".cursor" / "mcp.json",
            project_file=".cursor/mcp.json",
            programs=("cursor", "cursor-agent"),
            next_step="Cursor Settings, Tools & MCP, shows it; switch it on there if it is off.",
        ),
        ClientProgram(
            id="vscode",
            title="VS Code",
            file=lambda machine: machine.app_data / "Code" / "User" / "mcp.json",
            project_file=".vscode/mcp.json",
            programs=("code",),
            next_step="Run «MCP: List Servers» in VS Code and start it; it asks once whether you trust it.",
            section="servers",
            names_type=True,
        ),
        ClientProgram(
            id="windsurf",
            title="Windsurf",
            file=lambda machine: machine.home / ".codeium" / "windsurf" / "mcp_config.json",
            project_file=None,
            programs=("windsurf",),
            next_step="Refresh the MCP servers in Windsurf's Cascade panel.",
            url_field="serverUrl",
        ),
        ClientProgram(
            id="zed",
            title="Zed",
            file=_zed,
            project_file=".zed/settings.json",
            programs=("zed", "zeditor"),
            next_step="Zed starts it at once; its agent panel's settings show it with a green dot.",
            section="context_servers",
        ),
        ClientProgram(
            id="gemini-cli",
            title="Gemini CLI",
            file=lambda machine: machine.variable("GEMINI_CLI_HOME", machine.home) / ".gemini" / "settings.json",
            project_file=".gemini/settings.json",
            programs=("gemini",),
            next_step="`gemini mcp list` checks it, in a folder that Gemini CLI trusts.",
            url_field="httpUrl",
        ),
        ClientProgram(
            id="codex",
            title="Codex",
            file=lambda machine: machine.variable("CODEX_HOME", machine.home / ".codex") / "config.toml",
            project_file=".codex/config.toml",
            programs=("codex",),
            next_step="`codex mcp list` shows it; /mcp in a session checks it.",
            section="mcp_servers",
            headers_field="http_headers",
        ),
    )
}
