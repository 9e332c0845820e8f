"""The rules for Linux, macOS and Windows, and the whole server with the parts that Windows lacks taken away."""

import ctypes
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from memory_mcp.changes import Change
from memory_mcp.engines.files import atomic_write, data_directory
from memory_mcp.errors import Invalid
from memory_mcp.families.stores import paths
from memory_mcp.peers import SocketPeers
from memory_mcp.system import operating_system
from memory_mcp.system.operating_system import OperatingSystem
from tests.processes import environment
from tests.wire import HELLO, Stdio, http_server

LINUX, MACOS, WINDOWS = (
    OperatingSystem("linux", has_unix_sockets=True),
    OperatingSystem("macos", has_unix_sockets=True),
    OperatingSystem("windows", has_unix_sockets=False),
)
AS_ON_WINDOWS = [sys.executable, "-m", "tests.as_on_windows"]


@pytest.mark.parametrize(
    ("system", "platform"), [("linux", "linux"), ("linux", "freebsd14"), ("macos", "darwin"), ("windows", "win32")]
)
def test_the_system_is_known_by_its_platform(system: str, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert operating_system.current().name == system


def test_paths_of_windows_are_relative_only_elsewhere() -> None:
    for system in (LINUX, MACOS, WINDOWS):
        assert system.is_relative("notes/today")
        assert not system.is_relative("/etc/passwd")
    for path in ("C:/x", "C:x", "..\\x", "\\\\server\\share"):
        assert [system.is_relative(path) for system in (LINUX, MACOS, WINDOWS)] == [True, True, False]


def test_a_store_on_windows_refuses_drives_and_backslashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "THIS", WINDOWS)
    assert paths.parse("notes/today") == ("notes", "today")
    for path in ("C:/x", "a\\..\\..\\b"):
        with pytest.raises(Invalid, match="relative to the store"):
            paths.parse(path)


def test_names_that_windows_reserves_are_files_elsewhere() -> None:
    assert WINDOWS.is_file_name("a b.md")
    for name in ("a:b", "a?b", "a\\b", 'a"b'):
        assert [system.is_file_name(name) for system in (LINUX, MACOS, WINDOWS)] == [True, True, False]


def test_programs_start_in_the_systems_form() -> None:
    assert [one.program_name("memory-mcp") for one in (LINUX, WINDOWS)] == ["memory-mcp", "memory-mcp.exe"]
    assert [list(one.background_options) for one in (LINUX, WINDOWS)] == [["start_new_session"], ["creationflags"]]


def test_only_linux_can_be_without_a_display() -> None:
    assert [system.has_display({}) for system in (LINUX, MACOS, WINDOWS)] == [False, True, True]
    assert LINUX.has_display({"WAYLAND_DISPLAY": "wayland-0"})


def test_without_permissions_and_sockets_nothing_is_changed_or_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating_system, "THIS", WINDOWS)
    tmp_path.chmod(0o755)
    data_directory.prepare(tmp_path)
    atomic_write.sync(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    peers = SocketPeers(tmp_path / "servers")
    peers.listen(lambda change: None)
    peers.publish(Change("local", (), list_changed=True))
    peers.close()
    assert not (tmp_path / "servers").exists()


def run(command: Sequence[str], *arguments: str, data_dir: Path) -> str:
    whole = [*command, *arguments, "--data-dir", str(data_dir)]
    return subprocess.run(whole, env=environment(), capture_output=True, text=True, check=True).stdout


def test_every_family_works_without_the_parts_that_windows_lacks(tmp_path: Path) -> None:
    run(AS_ON_WINDOWS, "add", "We back up nightly", data_dir=tmp_path)
    pipe = subprocess.PIPE
    command = [*AS_ON_WINDOWS, "--data-dir", str(tmp_path), "--families", "vault,notes,stores,graph,recall"]
    server = Stdio(subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(), encoding="utf-8"))
    try:
        server.ask("initialize", HELLO)
        server.send({"method": "notifications/initialized"})
        server.call("commit_memory", scope="vault", key="city", content="Ghent")
        server.call("memory_create", content="The hub is in Ghent")
        server.call("add_memory", store="default", path="places/ghent", content="Ghent has canals")
        server.call("create_project", name="places")
        server.call("create_entities", entities=[{"name": "Ghent", "entityType": "city", "observations": ["old"]}])
        found = json.dumps(server.call("recall_memories", query="Ghent"))
        assert all(family in found for family in ('"vault"', '"notes"', '"stores"', '"graph"'))
        assert server.close() == 0
    finally:
        server.kill()
    assert "No problems" in run(AS_ON_WINDOWS, "doctor", data_dir=tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux has priorities of threads")
def test_the_priority_of_one_thread_is_lowered_alone() -> None:
    def lower() -> int:
        operating_system.lower_thread_priority(3)
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor() as threads:
        assert threads.submit(lower).result() == min(before + 3, operating_system.MAX_NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_the_web_app_works_without_the_parts_that_windows_lacks(tmp_path: Path) -> None:
    with http_server(tmp_path, "--families", "notes", command=AS_ON_WINDOWS) as server:
        assert server.modern_call("memory_create", content="over HTTP")["id"]
        assert re.search(r"<script[^>]+assets/app.js", httpx.get(server.link, follow_redirects=True).text)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_what_the_c_library_has_free_is_returned() -> None:
    count, size = 20_000, 2_000
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    blocks = [libc.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
        libc.free(block)
    before = resident_bytes()
    operating_system.release_free_memory()
    assert before - resident_bytes() > count * size / 2
    libc.free(blocks[-1])
