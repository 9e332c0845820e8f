"""Work on foreign files in a child process: limits of time, memory, size and place, and callers who leave."""

import json
import os
import select
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from memory_mcp.engines.chdb import archive
from memory_mcp.engines.isolation.landlock import version as landlock_version
from memory_mcp.engines.isolation.worker_process import ProcessLimits, WorkerProcess
from memory_mcp.errors import Invalid, LimitExceeded, Unavailable
from memory_mcp.families.portals import inspection

MIB = 1024 * 1024


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A portal file that takes minutes to read through: its one part is as long as it says, and a hole on the disk."""
    path = tmp_path / "endless.db"
    entry = tarfile.TarInfo("data/x")
    entry.size = 2**40
    with path.open("wb") as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        manifest = tarfile.TarInfo(archive.MANIFEST)
        manifest.size = 2
        file.seek(entry.size + tarfile.BLOCKSIZE)
        file.write(manifest.tobuf() + b"{}" + bytes(510))
        end = file.tell() + 2 * tarfile.BLOCKSIZE
        file.truncate(end + -end % tarfile.RECORDSIZE)
    return path


def test_a_function_gives_json_and_raises_its_own_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[{"a": 1}, {"a": 2}]')
    with WorkerProcess(ProcessLimits(60), readable=[tmp_path]) as worker:
        seen = worker.call(inspection.inspect_json, path, {}, {}, {}, [], 10, 10**9)
        new = [["a", "Nullable(Int64)"]]
        assert seen == {"found": {"a": "Nullable(Int64)"}, "columns": {"a": "a"}, "new": new, "widened": {}}
        with pytest.raises(archive.DamagedArchive, match="not a portal file"):
            worker.call(archive.verify, path)
        with pytest.raises(Invalid) as caught:
            worker.call(inspection.inspect_json, path, {}, {}, {}, [], 1, 10**9)
        assert (caught.value.code, caught.value.data) == ("too_large", {"field": "source"})
        assert worker.call(inspection.inspect_json, path, {}, {}, {}, [], 2, 10**9) == seen  # it goes on after an error


def test_the_limit_of_time_ends_it(endless: Path) -> None:
    with WorkerProcess(ProcessLimits(1.0), readable=[endless.parent]) as worker:
        with pytest.raises(LimitExceeded) as caught:
            worker.call(archive.verify, endless)
        assert caught.value.limit == "time"
    assert worker._process.returncode is not None


def test_the_limit_of_memory_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"a": [[]] * 3_000_000}]))
    with WorkerProcess(ProcessLimits(60, memory_bytes=100 * MIB), readable=[tmp_path]) as worker:
        with pytest.raises(LimitExceeded) as caught:
            worker.call(inspection.inspect_json, path, {}, {}, {}, [], 10, 10**9)
        assert caught.value.limit == "memory"


def test_the_size_limit_of_its_files_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\ne\u0301\n" * 1000)
    with WorkerProcess(ProcessLimits(60, file_bytes=100), writable=[tmp_path]) as worker:
        with pytest.raises(LimitExceeded) as caught:
            worker.call(inspection.prepare, path, "csv")
        assert caught.value.limit == "size"
    assert [one.name for one in tmp_path.iterdir()] == ["x.csv"]


def test_a_caller_who_leaves_ends_it(endless: Path) -> None:
    cancelled = threading.Event()
    with WorkerProcess(ProcessLimits(600), readable=[endless.parent], cancelled=cancelled) as worker:
        threading.Timer(0.2, cancelled.set).start()
        with pytest.raises(Unavailable):
            worker.call(archive.verify, endless)
    assert worker._process.returncode == -signal.SIGKILL


@pytest.mark.skipif(not landlock_version(), reason="the kernel has no Landlock")
def test_it_can_open_only_the_given_paths(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "x.csv").write_text("a\ne\u0301\n")
    reader = WorkerProcess(ProcessLimits(60, file_bytes=1000), readable=[allowed])
    with reader, pytest.raises(RuntimeError, match="PermissionError"):  # it may read there, and not write
        reader.call(inspection.prepare, allowed / "x.csv", "csv")
    with WorkerProcess(ProcessLimits(60, file_bytes=1000), writable=[allowed]) as worker:
        worker.call(inspection.prepare, allowed / "x.csv", "csv")
        with pytest.raises(RuntimeError, match="PermissionError"):
            worker.call(inspection.prepare, other / "x.csv", "csv")
    assert (allowed / "x.csv").read_text() == "a\n\u00e9\n"


def test_no_key_of_the_server_is_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with WorkerProcess(ProcessLimits(60)) as worker:
        with pytest.raises(archive.DamagedArchive):  # once it has answered, it is there
            worker.call(archive.verify, tmp_path / "none")
        environment = Path(f"/proc/{worker._process.pid}/environ").read_bytes()
    assert b"PYTHONPATH" in environment
    assert b"secret" not in environment


def test_only_functions_of_this_program_are_called() -> None:
    with WorkerProcess(ProcessLimits(60)) as worker, pytest.raises(RuntimeError, match="ValueError"):
        worker.call(os.path.exists, "/")


OF_A_DYING_SERVER = """
import sys
from pathlib import Path
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.isolation.worker_process import ProcessLimits, WorkerProcess
path = Path(sys.argv[1])
with WorkerProcess(ProcessLimits(600), readable=[path.parent]) as worker:
    print(worker._process.pid, flush=True)
    worker.call(archive.verify, path)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems end it when its time is over")
def test_it_ends_with_a_server_that_is_killed(endless: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", OF_A_DYING_SERVER, str(endless)], stdout=subprocess.PIPE)
    assert server.stdout is not None
    with server, os.fdopen(os.pidfd_open(int(server.stdout.readline())), "rb") as worker:
        server.kill()
        waiting = select.poll()
        waiting.register(worker, select.POLLIN)
        assert waiting.poll(20_000)
