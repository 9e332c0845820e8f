"""The part of memory-mcp connect that sets up hooks and instructions, so that a client uses its memory by itself."""

from collections.abc import Iterable
from typing import Any

from memory_mcp.cli.diffs import confirm_change, print_diff
from memory_mcp.cli.output import confirm, print_text
from memory_mcp.clients import ClientConfigurations, ClientProgram
from memory_mcp.clients.automation import AUTOMATIONS, HOOKS
from memory_mcp.clients.model import Http, ServerEndpoint, Stdio
from memory_mcp.clients.operations import ConfigPlan
from memory_mcp.errors import Invalid

WHAT_IT_DOES = (
    "Hooks give {title} what this memory knows about a project, and keep what was said, without secrets, for 90 days "
    "(docs/hooks.md). Set them up, too?"
)


def is_wanted(client: ClientProgram, given: bool | None, *, is_interactive: bool) -> bool:
    """The flag or, in a terminal, the answer to a question: no, unless it is yes."""
    if given is not None or not is_interactive or client.id not in AUTOMATIONS:
        return bool(given)
    return confirm(WHAT_IT_DOES.format(title=client.title))


def command_of(endpoint: ServerEndpoint) -> Stdio:
    """Raises Invalid for a running server: hooks start this program on this machine."""
    if isinstance(endpoint, Http):
        raise Invalid("--auto cannot be used with --http: hooks use the data directory of this machine.")
    return endpoint


def check(endpoint: ServerEndpoint, wanted: bool | None) -> None:
    """Raises Invalid if hooks are wanted and cannot be set up."""
    if wanted:
        command_of(endpoint)


def apply_all(connections: ClientConfigurations, plans: Iterable[ConfigPlan], *, dry_run: bool, yes: bool) -> None:
    """Show each change, and write it once the user agrees."""
    for plan in plans:
        if not plan.is_change:
            print_text(f"Nothing to do: {plan.file} has our {plan.name} already.")
            continue
        print_diff(plan.diff())
        if dry_run:
            print_text("Nothing was written (--dry-run).")
            continue
        if not yes:
            confirm_change(plan)
        connections.apply(plan)
        verb = "Removed" if plan.is_undo else "Added"
        hint = " `memory-mcp hook --explain` shows what they do." if plan.name == HOOKS and not plan.is_undo else ""
        print_text(f"{verb} our {plan.name} in {plan.file}.{hint}")


def apply_as_json(
    connections: ClientConfigurations, plans: Iterable[ConfigPlan], *, dry_run: bool
) -> list[dict[str, Any]]:
    shown = []
    for plan in plans:
        is_written = plan.is_change and not dry_run
        if is_written:
            connections.apply(plan)
        changed = {"changed": plan.is_change, "written": is_written, "diff": "\n".join(plan.diff())}
        shown.append({"name": plan.name, "file": plan.file} | changed)
    return shown
