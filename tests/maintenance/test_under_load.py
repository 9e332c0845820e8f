"""A backup that is made while several servers write has every write that was acknowledged before it began."""

import json
import os
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.engines.files.file_tree import Tree
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.families.graph.model import Entity
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.maintenance.backup import Backup
from tests.events import eventually
from tests.families.portals.calls import query_operation
from tests.maintenance.sample_data import LOCAL, PORTAL, fill, maintenance_of, opened, run
from tests.processes import environment
from tests.wire import Stdio

WRITERS = 3
ROUNDS = 3


class Writer:
    """A real server, and a thread that writes to every family until it is stopped."""

    def __init__(self, data_dir: Path, number: int) -> None:
        self.number = number
        more = {"MEMORY_MCP_EMBEDDER": "none", "MEMORY_MCP_PORTAL_ENGINE_IDLE": "20"}
        self.server = Stdio.start(data_dir, env=environment(**more))
        self.acknowledged: dict[str, list[str]] = {name: [] for name in self.ways()}
        self.errors: list[object] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def ways(self) -> dict[str, Callable[[str], Any]]:
        call = self._call
        return {
            "vault": lambda key: call("commit_memory", scope="vault", key=key, content=f"content {key}"),
            "notes": lambda key: call("memory_create", content=f"note {key}", title=key),
            "stores": lambda key: call("add_memory", store="load", path=f"{self.number}/{key}", content=key),
            "elsewhere": lambda key: call("add_memory", store="away", path=f"{self.number}/{key}", content=key),
            "graph": lambda key: call(
                "create_entities", project="load", entities=[{"name": key, "entity_type": "t", "observations": [key]}]
            ),
            "portals": lambda key: call("portal_write", portalUri=PORTAL, table="load", data=[{"key": key}]),
        }

    def _call(self, tool: str, **arguments: Any) -> None:
        answer = self.server.call(tool, **arguments)
        assert "error" not in answer, answer

    def start(self) -> None:
        self._thread.start()

    def _write(self) -> None:
        count = 0
        try:
            while not self._over.is_set():
                for name, write in self.ways().items():
                    key = f"w{self.number}-{count}"
                    write(key)
                    self.acknowledged[name].append(key)
                # A moved memory is always in exactly one place.
                if count % 5 == 0:
                    self.server.call(
                        "move_memory", store="load", from_path=f"{self.number}/{key}", to_path=f"moved/{key}"
                    )
                count += 1
        except Exception as exc:  # noqa: BLE001  # the test wants to know, whatever it is
            self.errors.append(exc)

    def has_written(self, count: int) -> bool:
        """Whether it has written this many rows, or failed."""
        return bool(self.errors) or len(self.acknowledged["portals"]) >= count

    def so_far(self) -> dict[str, set[str]]:
        return {name: set(keys) for name, keys in self.acknowledged.items()}

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self.server.close()


def test_a_backup_under_load_has_every_acknowledged_write(tmp_path: Path) -> None:
    data_dir, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with opened(data_dir) as app:
        app.stores.register(LOCAL, "away", elsewhere)
        app.graph.add_graph(LOCAL, "load", [], [])
    writers = [Writer(data_dir, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    taken: list[tuple[Path, dict[str, set[str]]]] = []
    for round_ in range(ROUNDS):
        wanted = 10 * (round_ + 1)
        eventually(lambda wanted=wanted: all(writer.has_written(wanted) for writer in writers))  # type: ignore[misc]
        before: dict[str, set[str]] = {}
        for writer in writers:
            for name, keys in writer.so_far().items():
                before.setdefault(name, set()).update(keys)
        done = run("backup", tmp_path / f"{round_}.zip", "--data-dir", data_dir, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["left_out"] == []
        taken.append((tmp_path / f"{round_}.zip", before))
    for writer in writers:
        writer.stop()
    assert [writer.errors for writer in writers] == [[]] * WRITERS

    for file, before in taken:
        data = tmp_path / f"restored-{file.stem}"
        with maintenance_of(data, alone=True) as maintenance:
            maintenance.restore.run(file)
        found = contents(data)
        for name, keys in before.items():
            assert keys, name
            assert keys <= set(found[name]), name
            assert len(found[name]) == len(set(found[name])), name  # no duplicates
        check_one_moment(found)
        with maintenance_of(data) as maintenance:
            assert maintenance.doctor.check(repair=False).problems == []


def contents(data_dir: Path) -> dict[str, list[str]]:
    with opened(data_dir) as app:
        return {
            "vault": [memory.key for memory, _ in app.vault.everything(LOCAL)],
            "notes": [one.note.title for one in app.notes.transfer.everything(LOCAL)],
            "stores": [path.stem for path in (data_dir / "stores" / "load").rglob("*.md")],
            "elsewhere": [path.stem for path in (data_dir / "elsewhere" / "local" / "away").rglob("*.md")],
            "graph": [one.name for one in app.graph.everything(LOCAL, "load") if isinstance(one, Entity)],
            "portals": [row["key"] for row in query_operation(app, "SELECT key FROM load", portal=PORTAL)],
        }


def check_one_moment(found: dict[str, list[str]]) -> None:
    """Each writer writes to the families in order: at one moment each is at most one ahead of the next."""
    order = ("vault", "notes", "stores", "elsewhere", "graph")
    for number in range(WRITERS):
        counts = [sum(key.startswith(f"w{number}-") for key in found[name]) for name in order]
        assert counts == sorted(counts, reverse=True), counts
        assert counts[0] - counts[-1] <= 1, counts


def test_writers_do_not_wait_while_a_backup_copies(tmp_path: Path) -> None:
    """During each copy a write succeeds: if the backup held its lock, it would be refused."""
    data_dir = tmp_path / "data"
    with opened(data_dir) as app:
        fill(app, LOCAL, "local")
    server = Stdio.start(data_dir, env=environment(MEMORY_MCP_EMBEDDER="none"))
    seen = set()

    def write(what: str, done: int, total: int | None) -> None:
        if what not in seen:
            seen.add(what)
            key = f"while-{len(seen)}"
            assert "error" not in server.call("commit_memory", scope="vault", key=key, content=what)
            assert "error" not in server.call("memory_create", content=what, title=key)
            assert "error" not in server.call("add_memory", store="ours", path=key, content=what)
            assert "error" not in server.call("create_entities", project="work", entities=[entity(key)])

    with maintenance_of(data_dir) as maintenance:
        assert maintenance.backup.make(tmp_path / "b.zip", write).left_out == ()
    server.close()
    assert {"portals", "stores", "server.db", "memory.db", "notes.db", "files"} <= seen


def entity(name: str) -> dict[str, Any]:
    return {"name": name, "entity_type": "t", "observations": []}


def test_a_backup_waiting_for_one_writer_does_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one writer holds its lock for long and the backup waits, others can write."""
    data_dir = tmp_path / "data"
    with opened(data_dir) as app:
        fill(app, LOCAL, "local")
    attempts: list[Any] = []
    really = Backup._inspect

    def attempt(backup: Backup, *arguments: Any) -> Any:
        attempts.append(arguments)
        return really(backup, *arguments)

    monkeypatch.setattr(Backup, "_inspect", attempt)
    with opened(data_dir) as app, maintenance_of(data_dir) as maintenance, ThreadPoolExecutor(1) as beside:
        with FileLock(data_dir / "notes.db.lock").acquire():
            under_way = beside.submit(maintenance.backup.make, tmp_path / "b.zip")
            count = 0
            while len(attempts) < 4 and not under_way.done():
                memory = NewMemory("vault", f"k{count}", "c")
                app.vault.import_memory(LOCAL, memory, "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
                count += 1
            assert not under_way.done()
        assert under_way.result().left_out == ()
    assert count > 3  # it released the locks between its attempts


def test_a_store_registered_while_a_backup_begins_is_in_it(tmp_path: Path) -> None:
    data_dir, late = tmp_path / "data", tmp_path / "late"
    late.mkdir()
    (late / "mine.md").write_text("late", encoding="utf-8")
    with opened(data_dir) as app, maintenance_of(data_dir) as maintenance:
        fill(app, LOCAL, "local")

        def register(what: str, done: int, total: int | None) -> None:
            if what == "stores" and done == total:
                app.stores.register(LOCAL, "late", late)

        maintenance.backup.make(tmp_path / "b.zip", register)
    with zipfile.ZipFile(tmp_path / "b.zip") as made:
        assert "late" in made.read("stores.yaml").decode()
        assert made.read("elsewhere/local/late/mine.md") == b"late"


def test_unreadable_settings_are_left_out_and_reported(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with opened(data_dir), maintenance_of(data_dir) as maintenance:
        (data_dir / "config.toml").mkdir()
        made = maintenance.backup.make(tmp_path / "b.zip")
    assert [(one.path, one.why) for one in made.left_out] == [("config.toml", "it cannot be read (Is a directory)")]


def test_unchanged_files_are_copied_once_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir = tmp_path / "data"
    with opened(data_dir) as app:
        fill(app, LOCAL, "local")
    for path in (data_dir / "stores").rglob("*"):
        os.utime(path, (0, 0))
    copied: list[str] = []
    really = Tree._copy

    def copy(tree: Tree, path: str) -> bool:
        copied.append(path)
        return really(tree, path)

    monkeypatch.setattr(Tree, "_copy", copy)
    with maintenance_of(data_dir) as maintenance:
        maintenance.backup.make(tmp_path / "b.zip")
    assert "ours/a/memory.md" in copied
    assert len(copied) == len(set(copied))
