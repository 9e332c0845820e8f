"""A backup has everything, and a restore brings it back; an invalid backup is refused, and nothing is changed."""

import errno
import json
import os
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_mcp.app.older_servers import database_kinds
from memory_mcp.engines.files import atomic_write, data_dir_lock
from memory_mcp.errors import AppError, Conflict, Invalid, Unavailable, Unusable
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.maintenance import archive, finish_restore
from memory_mcp.maintenance.model import ManifestEntry
from tests.events import eventually
from tests.maintenance.sample_data import LOCAL, answer, fill, furnish, maintenance_of, opened, run, state, tree
from tests.processes import Process, environment
from tests.wire import Stdio

KINDS = database_kinds(FAMILIES.values())

Change = Callable[[dict[str, bytes], dict[str, Any]], object]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with data of every family except portals, to be copied."""
    data_dir = tmp_path_factory.mktemp("model") / "data"
    furnish(data_dir)
    return data_dir


@pytest.fixture
def furnished(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "data")


@pytest.fixture(scope="module")
def made(model: Path) -> Path:
    """A backup of `model`."""
    with maintenance_of(model) as maintenance:
        assert maintenance.backup.make(model.parent / "b.zip").left_out == ()
    return model.parent / "b.zip"


def restored(file: Path, data_dir: Path, **more: Any) -> Any:
    with maintenance_of(data_dir, alone=True, **more) as maintenance:
        return maintenance.restore.run(file)


def test_a_restore_brings_back_two_tenants_and_every_family(tmp_path: Path) -> None:
    data_dir, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    other = furnish(data_dir, elsewhere, portals=True)
    before = [state(data_dir, caller, portals=True) for caller in (LOCAL, other)]

    made = answer("backup", tmp_path / "b.zip", "--data-dir", data_dir)
    assert made["left_out"] == []
    assert made["sha256"] == sha256((tmp_path / "b.zip").read_bytes()).hexdigest()
    assert stat.S_IMODE((tmp_path / "b.zip").stat().st_mode) == 0o600
    done = answer("restore", tmp_path / "b.zip", "--data-dir", tmp_path / "new")

    assert done["aside"] is None
    assert [state(tmp_path / "new", caller, portals=True) for caller in (LOCAL, other)] == before
    assert (tmp_path / "new" / "config.toml").read_text() == 'log_level = "warning"\n'
    assert "was not touched" in done["notices"][0]
    assert "revoked after the backup" in done["notices"][-1]
    for path in (data_dir / "stores").rglob("*.md"):
        again = tmp_path / "new" / path.relative_to(data_dir)
        assert again.stat().st_mtime_ns == path.stat().st_mtime_ns
    copy = tmp_path / "new" / "elsewhere" / "local" / "vault-of-mine"
    assert tree(copy) == {"mine.md": b"written by hand\n"}
    diagnosis = answer("doctor", "--data-dir", tmp_path / "new")
    assert diagnosis["findings"] == []


def test_a_store_whose_folder_is_gone_is_restored_in_the_data_directory(tmp_path: Path) -> None:
    data_dir, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    furnish(data_dir, elsewhere)
    with maintenance_of(data_dir) as maintenance:
        maintenance.backup.make(tmp_path / "b.zip")
    shutil.rmtree(elsewhere)
    done = restored(tmp_path / "b.zip", data_dir)
    assert "is in stores/vault-of-mine now" in done.notices[0]
    with opened(data_dir) as app:
        assert app.stores.get(LOCAL, "vault-of-mine", "mine", include_expired=False).content == "written by hand"
    assert not (data_dir / "elsewhere").exists()


def test_former_data_is_moved_aside_with_its_wal(furnished: Path, made: Path, tmp_path: Path) -> None:
    data_dir = furnished
    connection = apsw.Connection(str(data_dir / "memory.db"))  # with a WAL, as a killed server leaves it
    connection.execute("UPDATE vault_memories SET content = 'later'")
    wal = (data_dir / "memory.db-wal").read_bytes()
    before = tree(data_dir)
    done = restored(made, data_dir)
    connection.close()

    assert {name: before[name] for name in before if name != "memory.db-shm"}.items() <= tree(done.aside).items()
    assert wal
    with opened(data_dir) as app:
        assert app.vault.get(LOCAL, "k").content == "content of local"


def test_the_vaults_file_may_be_elsewhere(tmp_path: Path) -> None:
    data_dir, vault = tmp_path / "data", tmp_path / "disk" / "v.db"
    with opened(data_dir, db_path=vault) as app:
        fill(app, LOCAL, "local")
    with maintenance_of(data_dir, db_path=vault) as maintenance:
        maintenance.backup.make(tmp_path / "b.zip")
    with opened(data_dir, db_path=vault) as app:
        app.vault.import_memory(LOCAL, archive_memory("later"), "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
    done = restored(tmp_path / "b.zip", data_dir, db_path=vault)
    with opened(data_dir, db_path=vault) as app:
        assert not app.vault.has(LOCAL, "later")
        assert app.vault.has(LOCAL, "k")
    assert (done.aside / "memory-of-db-path.db").exists()
    assert not (data_dir / "memory.db").exists()


def archive_memory(key: str) -> Any:
    return NewMemory("vault", key, "content")


def test_settings_in_a_backup_do_not_hide_the_vault(tmp_path: Path) -> None:
    data_dir, vault = tmp_path / "data", tmp_path / "disk" / "v.db"
    data_dir.mkdir()
    (data_dir / "config.toml").write_text(f'db_path = "{vault}"\nlog_level = "error"\n')
    with opened(data_dir) as app:
        fill(app, LOCAL, "local")
    assert vault.exists()
    with maintenance_of(data_dir) as maintenance:
        maintenance.backup.make(tmp_path / "b.zip")
    done = restored(tmp_path / "b.zip", tmp_path / "new")
    assert "is a comment now" in done.notices[0]
    assert (tmp_path / "new" / "config.toml").read_text() == f'# db_path = "{vault}"\nlog_level = "error"\n'
    with opened(tmp_path / "new") as app:
        assert app.vault.has(LOCAL, "k")


def test_current_settings_do_not_hide_a_restored_vault(made: Path, tmp_path: Path) -> None:
    data_dir, vault = tmp_path / "data", tmp_path / "disk" / "v.db"
    data_dir.mkdir()
    (data_dir / "config.toml").write_text(f'db_path = "{vault}"\n')
    with opened(data_dir) as app:
        app.vault.import_memory(LOCAL, archive_memory("former"), "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
    (data_dir / "memory.db").write_bytes(b"one that --db-path left behind")
    done = answer("restore", made, "--data-dir", data_dir)
    with opened(data_dir) as app:
        assert app.vault.has(LOCAL, "k")
        assert not app.vault.has(LOCAL, "former")
    assert not vault.exists()
    aside = Path(done["aside"])
    assert (aside / "memory.db").read_bytes() == b"one that --db-path left behind"
    shutil.copytree(aside, tmp_path / "before")
    with opened(tmp_path / "before", db_path=tmp_path / "before" / "memory-of-db-path.db") as app:
        assert app.vault.has(LOCAL, "former")


def test_an_empty_data_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    assert answer("backup", tmp_path / "b.zip", "--data-dir", data_dir)["files"] == 0
    assert answer("restore", tmp_path / "b.zip", "--data-dir", data_dir)["files"] == 0
    found = answer("doctor", "--data-dir", data_dir)
    assert ([one["state"] for one in found["findings"]], found["well"]) == (["notice"], False)  # nothing is here
    assert run("backup", tmp_path / "b.zip", "--data-dir", data_dir).returncode == 0  # overwrites a former one


def test_every_file_is_in_a_backup_or_can_be_rebuilt(furnished: Path, tmp_path: Path) -> None:
    """A new kind of file declares which: DatabaseKind."""
    data_dir = furnished
    with maintenance_of(data_dir) as maintenance:
        maintenance.backup.make(tmp_path / "b.zip")
    kept = set(zipfile.ZipFile(tmp_path / "b.zip").namelist())
    caches = {kind.file for kind in KINDS if kind.is_cache}
    for path in data_dir.rglob("*.db"):
        assert path.relative_to(data_dir).as_posix() in kept or path.name in caches


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "thesis.txt").write_text("years of work")
    with maintenance_of(tmp_path / "data") as maintenance, pytest.raises(Conflict, match="not a backup"):
        maintenance.backup.make(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("listed", ['{"manifest_version": 3, "name": "ext"}', '{"format": "other/1"}', "[]", "rubbish"])
def test_a_zip_of_another_program_is_not_overwritten(tmp_path: Path, listed: str) -> None:
    """Browser extensions also have a manifest.json."""
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile(tmp_path / "ext.zip", "w") as foreign:
        foreign.writestr("manifest.json", listed)
    before = (tmp_path / "ext.zip").read_bytes()
    with maintenance_of(tmp_path / "data") as maintenance, pytest.raises(Conflict, match="not a backup"):
        maintenance.backup.make(tmp_path / "ext.zip")
    assert (tmp_path / "ext.zip").read_bytes() == before


def test_a_damaged_database_is_left_out_and_reported(furnished: Path, tmp_path: Path) -> None:
    data_dir = furnished
    (data_dir / "notes.db").write_bytes(b"no database at all" * 1000)
    done = run("backup", tmp_path / "b.zip", "--data-dir", data_dir, "--json")
    assert done.returncode == 1
    assert [one["path"] for one in json.loads(done.stdout)["left_out"]] == ["notes.db"]
    assert "Left out: notes.db" in done.stderr
    assert "memory.db" in zipfile.ZipFile(tmp_path / "b.zip").namelist()


def test_an_incomplete_backup_does_not_replace_a_former_one(furnished: Path, tmp_path: Path) -> None:
    assert run("backup", tmp_path / "b.zip", "--data-dir", furnished).returncode == 0
    before = (tmp_path / "b.zip").read_bytes()
    for beside in ("", "-wal", "-shm"):
        (furnished / f"notes.db{beside}").unlink(missing_ok=True)
    (furnished / "notes.db").touch(0o600)  # as a full disk leaves it
    made = answer("backup", tmp_path / "b.zip", "--data-dir", furnished, code=1)
    assert made["file"].endswith("b-incomplete.zip")
    assert "empty" in made["left_out"][0]["why"]
    assert (tmp_path / "b.zip").read_bytes() == before
    assert "is empty" in run("doctor", "--data-dir", furnished).stdout


# Refusals


def rewritten(source: Path, target: Path, change: Change) -> Path:
    """A backup that was changed, with a new seal."""
    with zipfile.ZipFile(source) as reading:
        parts = {name: reading.read(name) for name in reading.namelist() if name != archive.LIST}
        contents = json.loads(reading.read(archive.LIST))
    contents.pop("seal")
    change(parts, contents)
    contents.setdefault("seal", archive._digest(contents))
    with zipfile.ZipFile(target, "w") as writing:
        for name, data in parts.items():
            writing.writestr(name, data)
        writing.writestr(archive.LIST, json.dumps(contents))
    return target


def add(name: str, kind: str, data: bytes = b"x") -> Change:
    def change(parts: dict[str, bytes], contents: dict[str, Any]) -> None:
        parts[name] = data
        entry = {"path": name, "kind": kind, "size": len(data), "sha256": sha256(data).hexdigest(), "schema": None}
        contents["files"] = [*(one for one in contents["files"] if one["path"] != name), entry]

    return change


def replaced_list(**fields: Any) -> Change:
    return lambda parts, contents: contents.update(fields)


def newer_schema(parts: dict[str, bytes], contents: dict[str, Any]) -> None:
    data = bytearray(parts["notes.db"])
    data[60:64] = (99).to_bytes(4, "big")  # user_version
    add("notes.db", "notes", bytes(data))(parts, contents)


def damaged_pages(parts: dict[str, bytes], contents: dict[str, Any]) -> None:
    data = bytearray(parts["notes.db"])
    data[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    add("notes.db", "notes", bytes(data))(parts, contents)


def another_kind(parts: dict[str, bytes], contents: dict[str, Any]) -> None:
    add("notes.db", "notes", parts["memory.db"])(parts, contents)


CHANGED: dict[str, tuple[Change, str]] = {
    "out of the folder": (add("../escaped.md", "file"), "no backup does"),
    "absolute": (add("/escaped.md", "file"), "no backup does"),
    "deep out of the folder": (add("stores/a/../../../x.md", "file"), "no backup does"),
    "a log": (add("notes.db-wal", "file"), "no backup does"),
    "a log of a project": (add("projects/x.db-wal", "file"), "no backup does"),
    "a lock": (add("servers/x.lock", "file"), "no backup does"),
    "our marker": (add("restore.json", "file"), "no backup does"),
    "hidden": (add(".restoring-x/y", "file"), "no backup does"),
    "of a strange tenant": (add("users/../x/notes.db", "notes"), "no backup does"),
    "as another kind": (add("config.toml", "notes"), "no backup does"),
    "a folder that is a file": (add("stores/ours/a", "file"), "no backup does"),
    "no portal": (add("portals/a/b.db", "portal", b"tar?"), "cannot be used"),
    "a store somewhere": (
        replaced_list(elsewhere=[{"user": "local", "name": "..", "folder": "/", "path": "elsewhere/local/.."}]),
        "no backup does",
    ),
    "newer format": (replaced_list(format="memory-mcp-backup/2"), "newer Memory MCP"),
    "another format": (replaced_list(format="something/1"), "not a backup of Memory MCP"),
    "no seal": (replaced_list(seal="0"), "changed or damaged"),
    "not listed": (lambda parts, contents: parts.update({"stores/x.md": b""}), "other parts"),
    "missing": (lambda parts, contents: parts.pop("notes.db"), "other parts"),
    "other bytes": (lambda parts, contents: parts.update({"notes.db": parts["notes.db"][:-1] + b"!"}), "is damaged"),
    "newer schema": (newer_schema, "newer Memory MCP wrote it"),
    "damaged pages": (damaged_pages, "damaged"),
    "another kind": (another_kind, "another kind"),
    "odd list": (replaced_list(files=[{"path": 1}]), "cannot be read"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_backup_is_refused_and_changes_nothing(
    furnished: Path, made: Path, tmp_path: Path, name: str
) -> None:
    change, words = CHANGED[name]
    data_dir = furnished
    before = tree(tmp_path)
    file = rewritten(made, tmp_path / "changed.zip", change)
    with pytest.raises(AppError, match=words):
        restored(file, data_dir)
    file.unlink()
    assert tree(tmp_path) == before
    assert not list(data_dir.glob(".restoring*"))
    assert not Path("/escaped.md").exists()


def test_a_truncated_or_foreign_file_is_refused(furnished: Path, made: Path, tmp_path: Path) -> None:
    data_dir = furnished
    before = tree(data_dir)
    whole = made.read_bytes()
    for count, data in enumerate((b"", b"hello", whole[:100], whole[: len(whole) // 2], whole[:-1], whole[1000:])):
        (tmp_path / f"{count}.zip").write_bytes(data)
        with pytest.raises(Invalid):
            restored(tmp_path / f"{count}.zip", data_dir)
    done = run("restore", tmp_path / "3.zip", "--data-dir", data_dir)
    assert done.returncode == 1
    assert done.stderr == "memory-mcp: 3.zip is not a backup, or is incomplete. Nothing was changed.\n"
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as foreign:
        foreign.writestr("a.txt", "a")
    for file in (tmp_path / "foreign.zip", tmp_path / "missing.zip"):
        with pytest.raises(Invalid):
            restored(file, data_dir)
    assert tree(data_dir) == before


def test_a_flipped_bit_is_detected_or_harmless(made: Path, tmp_path: Path) -> None:
    whole = made.read_bytes()
    with zipfile.ZipFile(made) as reading:
        parts = reading.infolist()
        contents = {part.filename: reading.read(part) for part in parts}
    refused = 0
    for part in parts:
        names = sum(int.from_bytes(whole[part.header_offset + at :][:2], "little") for at in (26, 28))
        data = bytearray(whole)
        data[part.header_offset + 30 + names + part.compress_size // 2] ^= 0x10
        (tmp_path / "bit.zip").write_bytes(data)
        try:
            restored(tmp_path / "bit.zip", tmp_path / "data")
        except AppError:
            refused += 1
        else:  # all zeros are the same
            with zipfile.ZipFile(tmp_path / "bit.zip") as reading:
                assert reading.read(part.filename) == contents[part.filename]
    assert refused > len(parts) / 2


@pytest.mark.parametrize(
    ("path", "kind", "allowed"),
    [
        ("stores/a/b.md", "file", True),
        ("users/u1/stores/a/.obsidian/x.json", "file", True),
        ("users/u1/server.db", "server", False),
        ("users/u1/notes.db", "notes", True),
        ("stores//a.md", "file", False),
        ("stores/./a.md", "file", False),
        ("stores/a\0.md", "file", False),
        ("readme.md", "file", False),
        ("projects/00000000-0000-4000-8000-000000000000.db", "project", True),
        ("projects/x.db", "project", False),
    ],
)
def test_allowed_names_of_parts(path: str, kind: Any, allowed: bool) -> None:
    assert archive.is_allowed(ManifestEntry(path, kind, 1, ""), KINDS) is allowed


def test_a_list_that_expands_too_much_is_not_read(furnished: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr(archive.LIST, " " * 100_000_000)
    before = tree(furnished)
    with pytest.raises(archive.DamagedBackup, match="too large"):
        restored(tmp_path / "bomb.zip", furnished)
    assert tree(furnished) == before


def test_a_restore_does_not_wait_for_servers(made: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    server = Stdio.start(data_dir, env=environment(MEMORY_MCP_EMBEDDER="none"))
    server.call("commit_memory", scope="vault", key="mine", content="c")
    done = run("restore", made, "--data-dir", data_dir)
    assert done.returncode == 1
    assert f"process {server.process.pid}" in done.stderr
    assert server.call("search_memories", query="mine")["results"]
    server.close()
    assert run("restore", made, "--data-dir", data_dir).returncode == 0


# Kill


class Killed(BaseException):
    """As if the process was killed here."""


@pytest.mark.parametrize("way", ["killed", "interrupted"])
@pytest.mark.parametrize("steps", range(1, 44, 3))
def test_a_killed_restore_leaves_the_old_or_the_new_data(
    furnished: Path, made: Path, way: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rename, and every sync after the swap is recorded, is a step; after any step, the next process finds a
    complete data directory. A killed process cleans nothing up, an interrupted one does."""
    data_dir = furnished
    with opened(data_dir) as app:
        app.vault.import_memory(LOCAL, archive_memory("only old"), "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
    done = 0
    really = Path.rename, Path.replace, atomic_write.sync

    def stepping(which: int) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            nonlocal done
            done += which < 2 or (data_dir / data_dir_lock.RESTORING).exists()
            if done > steps:
                raise Killed
            return really[which](*given)

        return step

    swapping = False
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stepping(0))
        patch.setattr(Path, "replace", stepping(1))
        patch.setattr("memory_mcp.maintenance.restore.sync", stepping(2))
        if way == "killed":
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        try:
            restored(made, data_dir)
        except Killed:
            swapping = (data_dir / data_dir_lock.RESTORING).exists()

    is_whole_old = not swapping and done > steps
    with opened(data_dir) as app:
        assert app.vault.has(LOCAL, "only old") is is_whole_old
        assert app.vault.has(LOCAL, "k")
        assert {project.name for project in app.graph.every_project(LOCAL)} == {"work", "old"}
    assert not (data_dir / data_dir_lock.RESTORING).exists()
    assert problems_after_repair(data_dir) == []
    assert not list(data_dir.glob(".restoring*"))


def half_restored(data_dir: Path, **state: str) -> None:
    swap = {"staged": ".restoring-x", "aside": "before-restore-x", "outer_vault": "", "former_vault": "", **state}
    (data_dir / data_dir_lock.RESTORING).write_text(json.dumps(swap))


def test_without_staged_files_the_old_data_returns(furnished: Path, tmp_path: Path) -> None:
    vault = tmp_path / "disk" / "v.db"
    before = {name: data for name, data in tree(furnished).items() if not name.startswith("servers/")}
    half_restored(furnished, half="aside", former_vault=str(vault))
    (furnished / "before-restore-x").mkdir()
    for name in ("notes.db", "stores"):
        (furnished / name).rename(furnished / "before-restore-x" / name)
    (furnished / "before-restore-x" / "memory-of-db-path.db").write_bytes(b"the vault")
    vault.parent.mkdir()
    assert finish_restore(furnished)
    assert tree(furnished) == before
    assert vault.read_bytes() == b"the vault"


def test_an_unfinished_restore_says_what_to_do(furnished: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really, is_full = Path.rename, True

    def failing(path: Path, target: Path) -> Any:
        if is_full and path.parent.name.startswith(".restoring") and path.name == "notes.db":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return really(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(Unusable, match=r"No space left on device.*start again.*before-restore-"):
        restored(made, furnished)
    with pytest.raises(Unusable, match="start again"), opened(furnished):
        pass
    is_full = False
    with opened(furnished) as app:
        assert app.vault.has(LOCAL, "k")


@pytest.mark.parametrize("text", ["{", "[]", '{"half": "in"}', "\udcff"])
def test_an_unreadable_restore_state_is_reported(furnished: Path, text: str) -> None:
    (furnished / data_dir_lock.RESTORING).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Unusable, match=r"cannot be read.*restore the backup again"), opened(furnished):
        pass


def test_a_restore_that_lost_new_data_says_so(furnished: Path) -> None:
    half_restored(furnished, half="in")
    done = run("stats", "--data-dir", furnished)
    assert done.returncode == 1
    assert "is gone. The former data is in" in done.stderr


def problems_after_repair(data_dir: Path) -> list[Any]:
    """The problems that a doctor cannot repair."""
    with maintenance_of(data_dir) as maintenance:
        return maintenance.doctor.check(repair=True).problems


def test_kill_9_during_restore(made: Path, model: Path, tmp_path: Path) -> None:
    for count in range(8):
        data_dir = shutil.copytree(model, tmp_path / str(count))
        kill_after(count, start("restore", made, "--data-dir", data_dir), data_dir)
        with opened(data_dir) as app:
            assert app.vault.has(LOCAL, "k")
            assert len(app.graph.every_project(LOCAL)) == 2
        assert problems_after_repair(data_dir) == []


def test_kill_9_during_backup_leaves_the_former_one_and_no_leftovers(furnished: Path, tmp_path: Path) -> None:
    data_dir = furnished
    target = tmp_path / "b.zip"
    run("backup", target, "--data-dir", data_dir)
    for count in range(6):
        former = target.read_bytes()
        kill_after(count, start("backup", target, "--data-dir", data_dir), tmp_path)
        assert target.read_bytes() == former or archive.is_backup(target)
    assert run("backup", target, "--data-dir", data_dir).returncode == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["b.zip", "data"]
    restored(target, tmp_path / "new")


def kill_after(changes: int, process: Process, folder: Path) -> None:
    """SIGKILL after this many changes of a folder, unless the process has ended."""
    seen: set[frozenset[tuple[str, int]]] = set()

    def has_changed() -> bool:
        seen.add(frozenset((path, size) for path, size in sizes(folder)))
        return len(seen) > changes or process.poll() is not None

    eventually(has_changed)
    process.kill()
    process.wait()


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    for place, _, names in os.walk(folder):  # ignores folders that disappear meanwhile
        for name in names:
            with suppress(FileNotFoundError):
                yield f"{place}/{name}", Path(place, name).stat().st_size


def start(*arguments: object) -> Process:
    env = environment(MEMORY_MCP_EMBEDDER="none")
    return Process(arguments, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_too_little_space_is_reported_before_extracting(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(Unavailable, match="needs"):
        restored(made, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["in-use.lock"]


def test_the_lock_of_a_data_directory_is_private(tmp_path: Path) -> None:
    with (
        data_dir_lock.shared(tmp_path),
        data_dir_lock.shared(tmp_path),
        pytest.raises(Unavailable),
        data_dir_lock.exclusive(tmp_path),
    ):
        pass
    with data_dir_lock.exclusive(tmp_path), pytest.raises(Unavailable), data_dir_lock.shared(tmp_path, timeout_s=0):
        pass
    assert stat.S_IMODE((tmp_path / data_dir_lock.LOCK).stat().st_mode) == 0o600
