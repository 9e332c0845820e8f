"""deploy/memory-mcp.service: what it names is there, and the server accepts its command."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from memory_mcp import settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "memory-mcp.service"


def options(unit: str) -> dict[str, list[str]]:
    """Every value of each option of [Service], in order."""
    service = unit.partition("[Service]\n")[2].partition("\n[Install]")[0]
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", service, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def served(arguments: list[str]) -> settings.Settings:
    """The settings that these arguments of `memory-mcp` give. Ends the test if they are refused."""
    assert arguments[0] == "serve"
    flags = settings.parser("memory-mcp serve").parse(arguments[1:])
    return settings.load(flags, environ={}).settings


def test_the_unit_starts_a_server_that_believes_its_proxy() -> None:
    [start] = options(UNIT.read_text(encoding="utf-8"))["ExecStart"]
    program, *arguments = shlex.split(start)
    assert Path(program).name == "memory-mcp"
    chosen = served(arguments)
    assert (chosen.transport, chosen.host, chosen.forwarded_allow_ips) == ("http", "127.0.0.1", ("127.0.0.1",))
    assert str(chosen.public_url).startswith("https://")


def test_the_unit_keeps_data_where_it_may_write() -> None:
    unit = options(UNIT.read_text(encoding="utf-8"))
    chosen = served(shlex.split(unit["ExecStart"][0])[1:])
    assert unit["ProtectSystem"] == ["strict"]
    assert chosen.data_dir == Path("/var/lib") / unit["StateDirectory"][0]
    assert chosen.models_dir is not None
    assert chosen.models_dir.is_relative_to(chosen.data_dir)
    assert f"XDG_RUNTIME_DIR=/run/{unit['RuntimeDirectory'][0]}" in unit["Environment"]


def test_the_unit_lets_the_engines_of_portals_do_what_they_must() -> None:
    unit = options(UNIT.read_text(encoding="utf-8"))
    allowed = unit["SystemCallFilter"][0].split()
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= set(allowed)
    assert "AF_UNIX" in unit["RestrictAddressFamilies"][0].split()
    assert "MemoryDenyWriteExecute" not in unit


def test_systemd_knows_every_word_of_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine.")
    program, user = tmp_path / "memory-mcp", "root"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    unit = UNIT.read_text(encoding="utf-8").replace("/opt/memory-mcp/.venv/bin/memory-mcp", str(program))
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^(User|Group)=.*$", rf"\1={user}", unit, flags=re.MULTILINE), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    output = [line for line in done.stderr.splitlines() if UNIT.name in line]  # other units are not our business
    assert output == []


def test_systemd_calls_the_unit_well_hardened() -> None:
    analyze = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(UNIT)]
    if shutil.which("systemd-analyze") is None or "--offline" not in _help():
        pytest.skip("systemd-analyze is not on this machine, or too old to look at a file.")
    done = subprocess.run(analyze, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout.splitlines()[-1:]


def _help() -> str:
    return subprocess.run(["systemd-analyze", "--help"], capture_output=True, text=True).stdout
