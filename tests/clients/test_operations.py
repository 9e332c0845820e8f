"""Connecting and undoing, on real files of every shape."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.clients import CLIENTS, ClientConfigurations, ClientProgram, Http, Machine, Stdio, jsonc, toml
from memory_mcp.clients.operations import ConfigPlan
from memory_mcp.errors import Conflict, Invalid, Unavailable
from memory_mcp.system import operating_system

KEY = "mmcp_abcdefghijkl_" + "s" * 43
OURS = Stdio("/opt/venv/bin/memory-mcp", ("--data-dir", "/data"))
RUNNING = Http("http://127.0.0.1:8765/mcp", KEY)
SERVER_MEMORY = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {"SECRET": "s3cret"}}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Machine("linux", tmp_path / "home", tmp_path / "project", {"PATH": str(tmp_path / "bin")})


@pytest.fixture
def connections(machine: Machine, tmp_path: Path) -> ClientConfigurations:
    return ClientConfigurations(machine, tmp_path / "state" / "connections")


@pytest.fixture(params=CLIENTS.values(), ids=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> ClientProgram:
    chosen: ClientProgram = request.param
    return chosen


@pytest.fixture
def cursor() -> ClientProgram:
    return CLIENTS["cursor"]


def parse(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8-sig")
    return toml.value(text) if file.suffix == ".toml" else jsonc.value(text)


def made(client: ClientProgram, machine: Machine, text: str | bytes) -> Path:
    file = client.file(machine)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def files_of(client: ClientProgram) -> list[str]:
    """Configurations as people have them, in this client's format."""
    if client.id == "codex":
        return ["", '# mine\nmodel = "x"\n', '[mcp_servers.other]\ncommand = "o" # why\n\n[tui]\ntheme = "x"\n', "\r\n"]
    other = {client.section: {"other": {"command": "o", "args": []}}, "theme": "dark"}
    return [
        "",
        "{}",
        json.dumps(other),
        json.dumps(other, indent=2) + "\n",
        json.dumps(other, indent="\t").replace("\n", "\r\n"),
        '// mine\n{\n  "a": 1, // b\n  "SECTION": { /* none */ },\n}\n'.replace("SECTION", client.section),
    ]


def test_connect_and_undo_restore_every_clients_file_to_the_byte(
    connections: ClientConfigurations, client: ClientProgram, machine: Machine
) -> None:
    for way in (OURS, RUNNING, Http("https://memory.example.com/mcp")):
        for text in files_of(client):
            file = made(client, machine, text)
            before = parse(file)
            assert connections.apply(connections.plan(client, way))
            entry = parse(file)[client.section]["memory"]
            assert entry == client.entry(way)
            assert parse(file) == before | {client.section: before.get(client.section, {}) | {"memory": entry}}
            assert not connections.plan(client, way).is_change
            connections.apply(connections.plan_undo(client))
            assert file.read_bytes() == text.encode()
            assert not connections.plan_undo(client).is_change


def test_missing_files_and_folders_are_created_and_deleted_again(
    connections: ClientConfigurations, client: ClientProgram, machine: Machine
) -> None:
    file = client.file(machine)
    assert connections.apply(connections.plan(client, OURS)) is None
    assert parse(file) == {client.section: {"memory": client.entry(OURS)}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    connections.apply(connections.plan_undo(client))
    assert list(machine.home.iterdir()) == []


def test_undo_keeps_later_changes_of_the_user(
    connections: ClientConfigurations, client: ClientProgram, machine: Machine
) -> None:
    file = client.file(machine)
    connections.apply(connections.plan(client, OURS))
    editor: Any = toml if file.suffix == ".toml" else jsonc
    text = editor.put(file.read_text(), (client.section, "theirs"), {"command": "x"})
    comment = "# a comment\n" if file.suffix == ".toml" else "// a comment\n"
    file.write_text(comment + text)
    connections.apply(connections.plan_undo(client))
    assert parse(file) == {client.section: {"theirs": {"command": "x"}}}
    assert file.read_text().startswith(comment)


def test_an_empty_file_of_ours_is_deleted(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    connections.apply(connections.plan(cursor, OURS))
    file = cursor.file(machine)
    file.write_text(json.dumps(parse(file), indent=8))
    connections.apply(connections.plan_undo(cursor))
    assert not file.exists()


def test_switching_from_stdio_to_http_keeps_the_users_fields(
    connections: ClientConfigurations, client: ClientProgram, machine: Machine
) -> None:
    file = client.file(machine)
    connections.apply(connections.plan(client, OURS))
    editor: Any = toml if file.suffix == ".toml" else jsonc
    file.write_text(editor.put(file.read_text(), (client.section, "memory", "disabled"), True))
    connections.apply(connections.plan(client, RUNNING))
    assert parse(file)[client.section]["memory"] == client.entry(RUNNING) | {"disabled": True}
    connections.apply(connections.plan(client, OURS))
    assert parse(file)[client.section]["memory"] == client.entry(OURS) | {"disabled": True}
    connections.apply(connections.plan_undo(client))
    assert not file.exists() or client.section not in parse(file)


def test_another_server_of_that_name_is_kept_without_replace(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    text = json.dumps({"mcpServers": {"memory": SERVER_MEMORY}, "a": 1}, indent=2)
    file = made(cursor, machine, text)
    with pytest.raises(Conflict, match=r"server-memory.*--name.*--replace") as refused:
        connections.plan(cursor, OURS)
    assert "s3cret" not in refused.value.message
    with pytest.raises(Conflict, match="not ours"):
        connections.plan_undo(cursor)
    assert file.read_text() == text

    connections.apply(connections.plan(cursor, OURS, replacing=True))
    file.write_text(file.read_text().replace('"a": 1', '"a": 2'))
    connections.apply(connections.plan_undo(cursor))
    assert parse(file) == {"mcpServers": {"memory": SERVER_MEMORY}, "a": 2}


def test_two_names_can_coexist(connections: ClientConfigurations, cursor: ClientProgram, machine: Machine) -> None:
    connections.apply(connections.plan(cursor, OURS, "work"))
    connections.apply(connections.plan(cursor, RUNNING, "home"))
    [status] = [status for status in connections.all() if status.client is cursor]
    assert status.names == ("work", "home")
    connections.apply(connections.plan_undo(cursor, "work"))
    assert list(parse(cursor.file(machine))["mcpServers"]) == ["home"]
    connections.apply(connections.plan_undo(cursor, "home"))


def test_our_entry_is_recognized_without_a_record(
    connections: ClientConfigurations, client: ClientProgram, machine: Machine
) -> None:
    for way in (OURS, RUNNING, Stdio("C:\\tools\\memory-mcp.exe"), Stdio("python3", ("-m", "memory_mcp"))):
        section = {client.section: {"memory": client.entry(way), "other": {"command": "o"}}}
        file = made(client, machine, toml.put("", (client.section, "memory"), client.entry(way)))
        if file.suffix == ".json":
            file.write_text(json.dumps(section))
        connections.apply(connections.plan_undo(client))
        assert "memory" not in parse(file).get(client.section, {})


BROKEN = {
    "a brace is missing": '{"mcpServers": {',
    "no object": "[]",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "another kind of section": '{"mcpServers": [], "servers": 1, "context_servers": "x"}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_malformed_file_is_not_changed_and_the_error_shows_what_to_add(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine, text: str | bytes
) -> None:
    file = made(cursor, machine, text)
    before = file.read_bytes()
    with pytest.raises(Invalid, match=r"Nothing was changed. Correct it, or add this yourself.") as refused:
        connections.plan(cursor, RUNNING)
    assert '"memory"' in refused.value.message
    assert KEY not in refused.value.message
    with pytest.raises(Invalid, match=r"Nothing was changed. Correct it, or remove memory from it."):
        connections.plan_undo(cursor)
    assert file.read_bytes() == before
    [status] = [status for status in connections.all() if status.client is cursor]
    assert status.problem


def test_a_duplicate_name_is_not_half_removed(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    entry = '"memory": {"command": "/x/memory-mcp"}'
    made(cursor, machine, f'{{"mcpServers": {{{entry}, {entry}}}}}')
    with pytest.raises(Invalid, match="remove memory from it"):
        connections.plan_undo(cursor)


def test_a_malformed_toml_is_not_changed(connections: ClientConfigurations, machine: Machine) -> None:
    file = made(CLIENTS["codex"], machine, "model = \n")
    with pytest.raises(Invalid, match=r"line 1[\s\S]*\[mcp_servers.memory\]"):
        connections.plan(CLIENTS["codex"], OURS)
    assert file.read_text() == "model = \n"


def test_a_folder_in_the_way_is_explained(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    cursor.file(machine).mkdir(parents=True)
    with pytest.raises(Invalid, match="folder"):
        connections.plan(cursor, OURS)


def test_a_read_only_file_stays_as_it_is(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    file = made(cursor, machine, "{}")
    file.chmod(0o444)
    with pytest.raises(Unavailable, match="read-only"):
        connections.apply(connections.plan(cursor, OURS))
    assert file.read_text() == "{}"


def test_a_failed_write_keeps_the_record_of_the_one_before(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    file = made(cursor, machine, "{ }")
    connections.apply(connections.plan(cursor, Http("http://127.0.0.1:1/mcp")))
    file.chmod(0o444)
    with pytest.raises(Unavailable):
        connections.apply(connections.plan(cursor, Http("http://127.0.0.1:2/mcp")))
    file.chmod(0o644)
    connections.apply(connections.plan_undo(cursor))
    assert file.read_text() == "{ }"


def test_a_symlinked_file_is_followed_and_keeps_its_permissions(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    file = cursor.file(machine)
    file.parent.mkdir(parents=True)
    file.symlink_to(os.path.relpath(real, file.parent))
    copy = connections.apply(connections.plan(cursor, OURS))
    assert file.is_symlink()
    assert parse(real)["mcpServers"]["memory"] == cursor.entry(OURS)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert copy is not None
    assert copy.read_text() == "{}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    connections.apply(connections.plan_undo(cursor))
    assert file.is_symlink()
    assert real.read_text() == "{}"


def test_a_loop_of_symlinks_is_explained(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    file = cursor.file(machine)
    file.parent.mkdir(parents=True)
    file.symlink_to(file)
    with pytest.raises(Unavailable, match="cannot be read"):
        connections.plan(cursor, OURS)


def test_a_byte_order_mark_stays(connections: ClientConfigurations, cursor: ClientProgram, machine: Machine) -> None:
    file = made(cursor, machine, b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n')
    connections.apply(connections.plan(cursor, OURS))
    assert file.read_bytes().startswith(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n  "mcpServers": {\r\n')
    assert b"\xef\xbb\xbf" not in file.read_bytes()[3:]


def _change(file: Path) -> None:
    file.write_text('{"mcpServers": {}, "new": true}')


@pytest.mark.parametrize("change", [_change, Path.unlink], ids=["changed", "removed"])
def test_a_concurrent_change_wins(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine, change: Callable[[Path], None]
) -> None:
    file = made(cursor, machine, "{}")
    plan = connections.plan(cursor, OURS)
    change(file)
    left = file.read_bytes() if file.exists() else None
    with pytest.raises((Conflict, Unavailable)):
        connections.apply(plan)
    assert (file.read_bytes() if file.exists() else None) == left


def test_a_file_that_appears_in_between_is_not_overwritten(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine
) -> None:
    plan = connections.plan(cursor, OURS)
    file = made(cursor, machine, '{"theirs": 1}')
    with pytest.raises(Conflict):
        connections.apply(plan)
    assert file.read_text() == '{"theirs": 1}'


def test_without_the_copy_undo_restores_all_but_the_layout(
    connections: ClientConfigurations, cursor: ClientProgram, machine: Machine, tmp_path: Path
) -> None:
    file = made(cursor, machine, '{"a": 1}')
    copy = connections.apply(connections.plan(cursor, OURS))
    assert copy is not None
    copy.unlink()
    connections.apply(connections.plan_undo(cursor))
    assert parse(file) == {"a": 1}


def test_keys_are_not_shown(connections: ClientConfigurations, client: ClientProgram) -> None:
    shown = "\n".join(connections.plan(client, RUNNING).diff())
    assert KEY not in shown
    assert KEY[:13] in shown


def test_a_project_has_its_own_file(connections: ClientConfigurations, client: ClientProgram, machine: Machine) -> None:
    if client.project_file is None:
        with pytest.raises(Invalid, match="--project"):
            connections.plan(client, OURS, in_project=True)
        return
    plan: ConfigPlan = connections.plan(client, OURS, in_project=True)
    connections.apply(plan)
    assert parse(machine.current_dir / client.project_file)[client.section]["memory"] == client.entry(OURS)
    [status] = [status for status in connections.all() if status.client is client]
    assert (status.names, status.project_names) == ((), ("memory",))
    connections.apply(connections.plan_undo(client, in_project=True))
    assert list(machine.current_dir.iterdir()) == []


def test_the_list_shows_installed_and_connected_clients_and_problems(
    connections: ClientConfigurations, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    gemini = tmp_path / "bin" / "gemini"
    gemini.write_text("#!/bin/sh\n")
    gemini.chmod(0o755)
    connections.apply(connections.plan(CLIENTS["zed"], OURS))
    found = {status.client.id: status for status in connections.all()}
    assert list(found) == list(CLIENTS)
    assert {name for name, status in found.items() if status.is_installed} == {"gemini-cli", "zed"}
    assert {name for name, status in found.items() if status.names} == {"zed"}
    assert found["zed"].problem == "/opt/venv/bin/memory-mcp is missing; connect again"


WINDOWS = {
    "claude-desktop": "AppData/Roaming/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": "AppData/Roaming/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": "AppData/Roaming/Zed/settings.json",
    "gemini-cli": ".gemini/settings.json",
    "codex": ".codex/config.toml",
}
MACOS = WINDOWS | {
    "claude-desktop": "Library/Application Support/Claude/claude_desktop_config.json",
    "vscode": "Library/Application Support/Code/User/mcp.json",
    "zed": ".config/zed/settings.json",
}
LINUX = MACOS | {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "vscode": ".config/Code/User/mcp.json",
}


@pytest.mark.parametrize(("system", "files"), [("windows", WINDOWS), ("macos", MACOS), ("linux", LINUX)])
def test_each_system_has_its_own_paths(system: operating_system.SystemName, files: dict[str, str]) -> None:
    home = Path("/home/ann")
    machine = Machine(system, home, home, {})
    assert {id_: client.file(machine) for id_, client in CLIENTS.items()} == {
        id_: home / file for id_, file in files.items()
    }


def test_variables_move_the_files(tmp_path: Path) -> None:
    environ = {
        "XDG_CONFIG_HOME": "/xdg",
        "CODEX_HOME": "/codex",
        "CLAUDE_CONFIG_DIR": "/claude",
        "GEMINI_CLI_HOME": "/gemini",
    }
    machine = Machine("linux", tmp_path, tmp_path, environ)
    files = {id_: str(client.file(machine)) for id_, client in CLIENTS.items()}
    assert files["zed"] == "/xdg/zed/settings.json"
    assert files["vscode"] == "/xdg/Code/User/mcp.json"
    assert files["codex"] == "/codex/config.toml"
    assert files["claude-code"] == "/claude/.claude.json"
    assert files["gemini-cli"] == "/gemini/.gemini/settings.json"


def test_the_packaged_claude_desktop_of_windows_has_its_own_folder(tmp_path: Path) -> None:
    local = tmp_path / "Local"
    packaged = local / "Packages" / "Claude_pzs8sxrjxfjjc"
    packaged.mkdir(parents=True)
    machine = Machine("windows", tmp_path, tmp_path, {"LOCALAPPDATA": str(local), "APPDATA": str(tmp_path / "Roaming")})
    file = CLIENTS["claude-desktop"].file(machine)
    assert file == packaged / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"


def test_the_bridge_allows_plain_http_only_where_it_must() -> None:
    claude = CLIENTS["claude-desktop"]
    assert "--allow-http" in claude.entry(Http("http://nas.local:8765/mcp", KEY))["args"]
    assert "--allow-http" not in claude.entry(RUNNING)["args"]
    assert KEY not in " ".join(claude.entry(RUNNING)["args"])
