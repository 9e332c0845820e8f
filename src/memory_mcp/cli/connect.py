"""memory-mcp connect [CLIENT]."""

import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import platformdirs
import typer
from rich.prompt import Prompt

from memory_mcp import settings
from memory_mcp.cli import automation
from memory_mcp.cli.common import AsJson, DataDir, is_given, report_as_usage_error
from memory_mcp.cli.diffs import confirm_change, print_diff
from memory_mcp.cli.output import print_json, print_table, print_text
from memory_mcp.clients import CLIENTS, ClientConfigurations, ClientProgram, Http
from memory_mcp.clients.automation import Automations
from memory_mcp.clients.model import NAME, Machine, ServerEndpoint, own_command, this_machine
from memory_mcp.clients.operations import ClientStatus, ConfigPlan
from memory_mcp.clients.profiles import PROFILES, Profile
from memory_mcp.engines.files import data_directory
from memory_mcp.errors import Invalid
from memory_mcp.families.registry import FAMILIES, select

EPILOG = "Examples: " + " · ".join(
    f"memory-mcp connect{example}"
    for example in (
        "",
        " claude-code",
        " cursor --project",
        " vscode --profile notes",
        " claude-code --auto",
        " codex --http http://127.0.0.1:8765 --key - --yes",
        " zed --undo",
    )
)
OPTIONS_OF_LIST = ("data_dir", "as_json")  # without a client


Client = Annotated[
    str | None,
    typer.Argument(
        metavar="CLIENT",
        help=f"One of {', '.join(CLIENTS)}. Without it, all of them are listed.",
        autocompletion=lambda: list(CLIENTS),
    ),
]
HttpUrl = Annotated[
    str | None, typer.Option("--http", metavar="<URL>", help="Use a running server, instead of starting one.")
]
RawKey = Annotated[
    str | None, typer.Option("--key", help="The key for that server; - reads it from stdin. Stored in the file.")
]
Name = Annotated[str, typer.Option("--name", help="The name of this server in the client.")]
InProject = Annotated[bool, typer.Option("--project", help="Write the current folder's configuration, not the user's.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace another server of that name.")]
ChosenProfile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar=f"<{'|'.join(PROFILES)}>",
        help="Which tools the client gets. Fewer of them take fewer tokens of each conversation.",
        autocompletion=lambda: list(PROFILES),
    ),
]
Auto = Annotated[
    bool | None,
    typer.Option(
        "--auto/--no-auto",
        help="Add hooks and instructions, so that the client uses its memory by itself. In a terminal you are asked.",
        show_default="no",
    ),
]
Undo = Annotated[bool, typer.Option("--undo", help="Restore the configuration as it was before.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def connect(
    context: typer.Context,
    client: Client = None,
    http: HttpUrl = None,
    key: RawKey = None,
    name: Name = NAME,
    project: InProject = False,
    replace: Replace = False,
    profile: ChosenProfile = None,
    auto: Auto = None,
    undo: Undo = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add this server to a client's configuration, or remove it again. Shows the change and asks first."""
    machine = this_machine(os.environ)
    records = platformdirs.user_state_path("memory-mcp", appauthor=False) / "connections"
    connections = ClientConfigurations(machine, records)
    if client is None:
        _list(context, connections.all(), as_json=as_json)
        return
    with report_as_usage_error():
        program = _client(client)
        is_interactive = not (yes or dry_run or undo or as_json) and http is None and sys.stdin.isatty()
        endpoint = _endpoint(http, key, data_dir, _profile(profile, is_interactive=is_interactive), yes=yes or dry_run)
        _check_name(name)
        _check_answers(as_json=as_json, is_answered=yes or dry_run)
        automation.check(endpoint, auto)
    select = _Choice(program, endpoint, name, project, undo)
    plan = select.plan(connections, replacing=replace)
    automatic = partial(select.automatic, Automations(machine, records), auto, is_interactive=is_interactive)
    if as_json:
        shown = _apply_as_json(connections, plan, dry_run=dry_run)
        print_json(shown | {"auto": automation.apply_as_json(connections, automatic(), dry_run=dry_run)})
        return
    is_done = _confirm_and_apply(connections, plan, dry_run=dry_run, yes=yes)
    automation.apply_all(connections, automatic(), dry_run=dry_run, yes=yes)
    if is_done and not undo:
        _print_hints(program, endpoint, machine, in_project=project)


def _refuse_options_for_client(context: typer.Context) -> None:
    """Raises BadParameter if an option was given that needs a client."""
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name not in OPTIONS_OF_LIST and is_given(context, str(option.name))
    ]
    if given:
        raise typer.BadParameter(
            f"{given[0]} needs a client, such as `memory-mcp connect claude-code {given[0]}`. "
            "`memory-mcp connect` lists the clients and says which are connected."
        )


@dataclass(frozen=True)
class _Choice:
    client: ClientProgram
    endpoint: ServerEndpoint
    name: str
    in_project: bool
    undo: bool

    def plan(self, connections: ClientConfigurations, *, replacing: bool) -> ConfigPlan:
        if self.undo:
            return connections.plan_undo(self.client, self.name, in_project=self.in_project)
        return connections.plan(self.client, self.endpoint, self.name, in_project=self.in_project, replacing=replacing)

    def automatic(self, automations: Automations, wanted: bool | None, *, is_interactive: bool) -> list[ConfigPlan]:
        """Hooks and instructions. They are planned after the entry is written: both may be in one file."""
        if self.undo:
            return automations.plan_undo(self.client, in_project=self.in_project)
        if not automation.is_wanted(self.client, wanted, is_interactive=is_interactive):
            return []
        return automations.plan(self.client, automation.command_of(self.endpoint), in_project=self.in_project)


def _check_answers(*, as_json: bool, is_answered: bool) -> None:
    if as_json and not is_answered:
        raise Invalid("Give --yes or --dry-run with --json, which asks no questions.")


def _apply_as_json(connections: ClientConfigurations, plan: ConfigPlan, *, dry_run: bool) -> dict[str, Any]:
    is_written = plan.is_change and not dry_run
    return _shown(plan, connections.apply(plan) if is_written else None, written=is_written)


def _confirm_and_apply(connections: ClientConfigurations, plan: ConfigPlan, *, dry_run: bool, yes: bool) -> bool:
    """Whether anything was written."""
    title = plan.client.title
    if not plan.is_change:
        state = f"has no {plan.name}" if plan.is_undo else f"is connected already, as {plan.name}"
        print_text(f"Nothing to do: {title} {state} in {plan.file}")
        return False
    print_diff(plan.diff())
    if dry_run:
        print_text("Nothing was written (--dry-run).")
        return False
    if not yes:
        confirm_change(plan)
    copy = connections.apply(plan)
    if plan.is_undo:
        print_text(f"Undone: {title} is as it was in {plan.file}")
    else:
        print_text(f"Connected: {title} has this server as {plan.name!r}. {plan.client.next_step}")
    if copy is not None:
        print_text(f"A copy of the file before the change: {copy}")
    return True


def _print_hints(client: ClientProgram, endpoint: ServerEndpoint, machine: Machine, *, in_project: bool) -> None:
    if not client.seems_installed(machine):
        print_text(f"{client.title} does not seem to be installed here.")
    if in_project:
        print_text(f"{client.title} may ask first whether you trust this folder.")
        what = "your key" if isinstance(endpoint, Http) and endpoint.key else "paths of this machine"
        print_text(f"The file contains {what}: consider that before you commit it.")


def _list(context: typer.Context, found: list[ClientStatus], *, as_json: bool) -> None:
    _refuse_options_for_client(context)
    if as_json:
        print_json({"clients": [_stated(status) for status in found]})
        return
    rows = [
        (
            status.client.id,
            "yes" if status.is_installed else "no",
            [*status.names, *(f"{name} (project)" for name in status.project_names)] or "no",
            _short(status.file),
        )
        for status in found
    ]
    print_table(("client", "installed", "connected", "configuration"), rows, last_optional=True)
    for status in found:
        if status.problem:
            print_text(f"{status.client.id}: {status.problem}")
    print_text("`memory-mcp connect CLIENT` shows the change, and asks before it writes.")


def _short(file: Path) -> str:
    return f"~{os.sep}{file.relative_to(Path.home())}" if file.is_relative_to(Path.home()) else str(file)


def _stated(status: ClientStatus) -> dict[str, Any]:
    return {
        "client": status.client.id,
        "title": status.client.title,
        "file": status.file,
        "project_file": status.project_file,
        "installed": status.is_installed,
        "connected": bool(status.names or status.project_names),
        "names": status.names,
        "project_names": status.project_names,
        "problem": status.problem,
    }


def _shown(plan: ConfigPlan, copy: Path | None, *, written: bool) -> dict[str, Any]:
    return {
        "client": plan.client.id,
        "name": plan.name,
        "file": plan.file,
        "undo": plan.is_undo,
        "changed": plan.is_change,
        "written": written,
        "diff": "\n".join(plan.diff()),
        "copy": copy,
        "next": None if plan.is_undo else plan.client.next_step,
    }


def _client(wanted: str) -> ClientProgram:
    try:
        return CLIENTS[wanted]
    except KeyError as exc:
        raise Invalid(f"There is no client named {wanted}. There are {', '.join(CLIENTS)}.") from exc


def _profile(wanted: str | None, *, is_interactive: bool) -> Profile | None:
    if wanted is None:
        return _prompt_for_profile() if is_interactive else None
    if wanted not in PROFILES:
        raise Invalid(f"There is no profile named {wanted}. There are {', '.join(PROFILES)}.")
    return PROFILES[wanted]


def _prompt_for_profile() -> Profile:
    from memory_mcp.server.tool_list import ToolList  # loads the SDK's types, which take a sixth of every verb's start

    rows = []
    for profile in PROFILES.values():
        tools, tokens = ToolList(select(FAMILIES, profile.families), in_spec=False).size()
        rows.append((profile.name, tools, f"about {round(tokens, -2):,}", profile.purpose))
    print_table(("profile", "tools", "tokens", "for"), rows, numbers=["tools", "tokens"], last_optional=True)
    return PROFILES[Prompt.ask("Which tools does it get?", choices=list(PROFILES), default="everything")]


def _endpoint(
    http: str | None, key: str | None, data_dir: Path | None, profile: Profile | None, *, yes: bool
) -> ServerEndpoint:
    if http is None:
        if key is not None:
            raise Invalid("--key goes with --http URL: a server that the client starts itself needs none.")
        return own_command(*_data_dir(data_dir), *(profile.arguments if profile else ()))
    if profile is not None:
        raise Invalid("--profile cannot be used with --http: there the key decides (`keys create --families`).")
    parts = urlsplit(http)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Invalid(f"--http takes a URL such as http://127.0.0.1:8765, not {http}.")
    if data_dir is not None:
        raise Invalid("--data-dir cannot be used with --http: the running server has its own data directory.")
    if key == "-":
        if not yes:
            raise Invalid("Give --yes with --key -: stdin holds the key and cannot answer questions.")
        key = sys.stdin.readline().strip()
    if key is not None and not re.fullmatch(r"[!-~]+", key):
        raise Invalid("--key: this is not a key. It is empty, or contains spaces or line breaks.")
    return Http(http if parts.path.strip("/") else f"{http.rstrip('/')}/mcp", key)


def _data_dir(given: Path | None) -> list[str]:
    """The flag, unless it is the default. The client does not see this shell's variables."""
    [origin] = [origin for origin in settings.load({"data_dir": given}).origins if origin.name == "data_dir"]
    data_directory.require_no_other_files(Path(origin.value))
    return [] if origin.source == "default" else ["--data-dir", str(origin.value)]


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise Invalid("--name takes letters, digits, - and _: clients build the names of tools from it.")
