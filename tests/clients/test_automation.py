"""Hooks and instructions of clients: added, added again, undone, beside what users have."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.clients import CLIENTS, ClientConfigurations, ClientProgram, Machine, Stdio, jsonc
from memory_mcp.clients.automation import AUTOMATIONS, READING, RECALLING, STORING, Automations
from memory_mcp.errors import Invalid
from memory_mcp.hooks.events import MOMENTS

OURS = Stdio("/opt/my venv/bin/memory-mcp", ("--data-dir", "/data", "--families", "notes,recall"))
THEIRS = """{
  // mine
  "theme": "dark",
  "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo hi"}]}]}
}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Machine("linux", tmp_path / "home", tmp_path / "project", {})


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(params=list(AUTOMATIONS))
def client(request: pytest.FixtureRequest) -> ClientProgram:
    return CLIENTS[request.param]


def apply(machine: Machine, records: Path, client: ClientProgram, *, undo: bool = False, **more: Any) -> list[Path]:
    """The files that were changed."""
    automations = Automations(machine, records)
    plans = automations.plan_undo(client, **more) if undo else automations.plan(client, OURS, **more)
    changed = [plan for plan in plans if plan.is_change]
    for plan in changed:
        assert plan.diff()
        ClientConfigurations(machine, records).apply(plan)
    return [plan.file for plan in changed]


def commands(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["command"]] if isinstance(value.get("command"), str) else []
        return own + [found for one in value.values() for found in commands(one)]
    return [found for one in value for found in commands(one)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("families", "lines"),
    [
        (None, [RECALLING, STORING["notes"], READING]),
        ("stores,recall", [RECALLING, STORING["stores"], READING]),
        ("graph", [STORING["graph"], READING]),
    ],
)
def test_instructions_name_tools_that_the_client_has(
    machine: Machine, records: Path, families: str | None, lines: list[str]
) -> None:
    command = Stdio("memory-mcp", ("--families", families) if families else ())
    _, instructions = Automations(machine, records).plan(CLIENTS["claude-code"], command)
    assert (instructions.after or b"").decode().splitlines()[1:-1] == lines


def test_hooks_of_an_installation_by_uvx_go_through_uv(machine: Machine, records: Path) -> None:
    command = Stdio("/bin/uv", ("tool", "run", "--from", "five-memories", "memory-mcp", "--data-dir", "/data"))
    hooks, _ = Automations(machine, records).plan(CLIENTS["codex"], command)
    assert commands(json.loads(hooks.after or b"{}"))[0] == (
        "/bin/uv tool run --from five-memories memory-mcp hook SessionStart --client codex --data-dir /data"
    )


@pytest.mark.parametrize("in_project", [False, True])
def test_hooks_are_added_once_and_undone(
    machine: Machine, records: Path, client: ClientProgram, in_project: bool
) -> None:
    written = apply(machine, records, client, in_project=in_project)
    hooks = jsonc.value(written[0].read_text())["hooks"]
    assert set(hooks) <= set(MOMENTS)
    assert {MOMENTS[event] for event in hooks} >= {"start", "capture"}
    for event, entry in hooks.items():
        [command] = commands(entry)
        assert command == f"'/opt/my venv/bin/memory-mcp' hook {event} --client {client.id} --data-dir /data"
    for file in written[1:]:
        assert all(line in file.read_text() for line in (RECALLING, STORING["notes"], READING))
    assert len(written) == (1 if client.id == "cursor" and not in_project else 2)
    assert apply(machine, records, client, in_project=in_project) == []
    assert apply(machine, records, client, undo=True, in_project=in_project) == written
    assert [file for file in written if file.exists()] == []
    assert apply(machine, records, client, undo=True, in_project=in_project) == []


def test_the_users_own_settings_stay(machine: Machine, records: Path) -> None:
    client = CLIENTS["claude-code"]
    settings = machine.home / ".claude" / "settings.json"
    instructions = machine.home / ".claude" / "CLAUDE.md"
    settings.parent.mkdir()
    settings.write_text(THEIRS)
    instructions.write_text("Be brief.")
    apply(machine, records, client)
    assert "// mine" in settings.read_text()
    assert commands(jsonc.value(settings.read_text())["hooks"]["SessionStart"])[0] == "echo hi"
    assert instructions.read_text().startswith("Be brief.\n\n<!-- memory-mcp -->\n")
    later = jsonc.put(settings.read_text(), ("model",), "opus")
    settings.write_text(later)
    instructions.write_text(instructions.read_text() + "Use tabs.\n")
    apply(machine, records, client, undo=True)
    assert jsonc.value(settings.read_text()) == jsonc.value(THEIRS) | {"model": "opus"}
    assert instructions.read_text() == "Be brief.\nUse tabs.\n"


def test_an_old_installation_is_replaced(machine: Machine, records: Path) -> None:
    client = CLIENTS["codex"]
    file = machine.home / ".codex" / "hooks.json"
    file.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/memory-mcp hook SessionStart", "timeout": 5}]}
    file.write_text(json.dumps({"hooks": {"SessionStart": [old]}}))
    apply(machine, records, client)
    [command] = commands(jsonc.value(file.read_text())["hooks"]["SessionStart"])
    assert command.startswith("'/opt/my venv")


@pytest.mark.parametrize("text", ["{", '{"hooks": []}', '{"hooks": {"SessionStart": {}}}'])
def test_a_malformed_file_is_refused(machine: Machine, records: Path, text: str) -> None:
    file = machine.home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(Invalid, match="cannot be parsed"):
        apply(machine, records, CLIENTS["claude-code"])
    assert file.read_text() == text


def test_a_client_without_hooks_is_refused(machine: Machine, records: Path) -> None:
    with pytest.raises(Invalid, match="Zed has no hooks"):
        apply(machine, records, CLIENTS["zed"])
    assert apply(machine, records, CLIENTS["zed"], undo=True) == []
