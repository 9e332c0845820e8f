"""Whole-file writes: the old file or the new one, and nothing left lying about."""

import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.rooted_folder import FolderEntry, Root
from tests.families.stores.calls import unfinished


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FolderEntry]:
    with Root(tmp_path).folder(()) as opened:
        yield opened


def full_disk(*arguments: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_and_replaced(folder: FolderEntry, tmp_path: Path, durable: bool) -> None:
    for data in (b"one", b"", b"\x00\xff\r\n" * 100_000):
        atomic_write.write(folder.sibling("a.md"), data, durable=durable)
        assert (tmp_path / "a.md").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


@pytest.mark.parametrize("there", ["file", "folder", "link", "dangling"])
def test_a_new_file_never_replaces_an_existing_one(folder: FolderEntry, tmp_path: Path, there: str) -> None:
    target = tmp_path / "a.md"
    (tmp_path / "other").write_text("other")
    match there:
        case "file":
            target.write_text("old")
        case "folder":
            target.mkdir()
        case "link":
            target.symlink_to("other")
        case _:
            target.symlink_to("nowhere")
    before = sorted((path.name, path.lstat().st_ino) for path in tmp_path.iterdir())
    with pytest.raises(FileExistsError):
        atomic_write.write_new(folder.sibling("a.md"), b"new")
    assert sorted((path.name, path.lstat().st_ino) for path in tmp_path.iterdir()) == before
    assert (tmp_path / "other").read_text() == "other"


@pytest.fixture
def no_renaming_to_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system, or a disk, that cannot rename a file only if the new name is free."""
    monkeypatch.setattr(atomic_write, "rename_to_new", lambda one, other: False)


@pytest.mark.usefixtures("no_renaming_to_new")
@pytest.mark.parametrize("problem", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_file_system_without_links_has_new_files_too(
    folder: FolderEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    def no_links(*arguments: Any, **more: Any) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(os, "link", no_links)
    atomic_write.write_new(folder.sibling("a.md"), b"new")
    with pytest.raises(FileExistsError):
        atomic_write.write_new(folder.sibling("a.md"), b"newer")
    assert (tmp_path / "a.md").read_bytes() == b"new"
    assert unfinished(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all that is left is to look and then rename")
def test_a_new_file_never_replaces_one_made_at_the_last_moment_where_there_are_no_links_either(
    folder: FolderEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*arguments: Any, **more: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "replace", lambda *arguments, **more: pytest.fail("this would replace it"))
    atomic_write.write_new(folder.sibling("a.md"), b"new")
    with pytest.raises(FileExistsError):
        atomic_write.write_new(folder.sibling("a.md"), b"newer")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.md", "new")]


@pytest.mark.usefixtures("no_renaming_to_new")
def test_other_errors_of_a_hard_link_are_not_treated_as_missing_support(
    folder: FolderEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda *arguments, **more: full_disk())
    with pytest.raises(OSError, match="No space"):
        atomic_write.write_new(folder.sibling("a.md"), b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["at once", "by a link"])
def test_of_many_processes_that_create_a_file_one_wins(
    tmp_path: Path, request: pytest.FixtureRequest, way: str
) -> None:
    if way == "by a link":
        request.getfixturevalue("no_renaming_to_new")
    won: list[bytes] = []
    start = threading.Barrier(8)

    def make(number: int) -> None:
        data = str(number).encode() * 1000
        with Root(tmp_path).folder(()) as folder:
            start.wait()
            for count in range(20):
                try:
                    atomic_write.write_new(folder.sibling(f"{count}.md"), data, durable=False)
                except FileExistsError:
                    continue
                won.append(data)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 20
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == sorted(won)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o664, 0o755, 0o400])
def test_the_permissions_of_a_replaced_file_are_kept(folder: FolderEntry, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "a.md"
    file.write_text("old")
    file.chmod(mode)
    atomic_write.write(folder.sibling("a.md"), b"new")
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.read_text() == "new"


@pytest.mark.parametrize(("of_folder", "of_file"), [(0o700, 0o600), (0o755, 0o644), (0o750, 0o644)])
def test_a_new_file_is_as_private_as_its_folder(tmp_path: Path, of_folder: int, of_file: int) -> None:
    tmp_path.chmod(of_folder)
    umask = os.umask(0o022)
    try:
        with Root(tmp_path).folder(["sub"], make=True) as folder:
            atomic_write.write_new(folder.sibling("a.md"), b"new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "sub" / "a.md").stat().st_mode) == of_file
    assert stat.S_IMODE((tmp_path / "sub").stat().st_mode) == (0o700 if of_folder == 0o700 else 0o755)


@pytest.mark.usefixtures("no_renaming_to_new")
@pytest.mark.parametrize("broken", ["fsync", "fchmod", "replace", "link+replace"])
@pytest.mark.parametrize("write", [atomic_write.write, atomic_write.write_new])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    folder: FolderEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, broken: str
) -> None:
    (tmp_path / "a.md").write_text("old")
    (tmp_path / "a.md").chmod(0o640)
    target = folder.sibling("a.md" if write is atomic_write.write else "b.md")
    if broken == "fchmod" and write is atomic_write.write_new:
        pytest.skip("a new file has no permissions to keep")
    if broken == "replace" and write is atomic_write.write_new:
        pytest.skip("a new file is linked")
    for name in broken.split("+"):
        monkeypatch.setattr(os, name, lambda *arguments, **more: full_disk())
    with pytest.raises(OSError, match="No space"):
        write(target, b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.md", "old")]


def test_a_disk_that_fills_up_while_we_write_leaves_the_old_file(tmp_path: Path) -> None:
    """A real one: /dev/full takes nothing."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    (tmp_path / "a.md").write_text("old")
    real = os.open

    def open_full(path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        opened = real(path, flags, *arguments, **more)
        if flags & os.O_CREAT:
            full = real("/dev/full", os.O_WRONLY)
            os.dup2(full, opened)
            os.close(full)
        return opened

    with Root(tmp_path).folder(()) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_full)
        patch.setattr(os, "fchmod", lambda fd, mode: None)
        for write in (atomic_write.write, atomic_write.write_new):
            with pytest.raises(OSError, match="No space"):
                write(folder.sibling("a.md"), b"new" * 100_000)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.md", "old")]


def test_readers_see_the_old_file_or_the_new_one(folder: FolderEntry, tmp_path: Path) -> None:
    texts = [bytes([65 + number]) * 50_000 for number in range(2)]
    atomic_write.write(folder.sibling("a.md"), texts[0], durable=False)
    done, seen = threading.Event(), set()

    def read() -> None:
        while not done.is_set():
            seen.add((tmp_path / "a.md").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for count in range(500):
        atomic_write.write(folder.sibling("a.md"), texts[count % 2], durable=False)
    done.set()
    reader.join()
    assert seen <= set(texts)


def test_only_leftovers_of_a_crash_are_removed(folder: FolderEntry, tmp_path: Path) -> None:
    kept = ["a.md", ".hidden", "x.memory-mcp-part", ".gitignore"]
    left = [".abc.memory-mcp-part", ".def.memory-mcp-part"]
    for name in (*kept, *left):
        (tmp_path / name).write_text("x")
    os.utime(tmp_path / left[0], (0, 0))
    atomic_write.remove_unfinished(
        folder, time.time() + atomic_write.ABANDONED_AFTER_S - 30
    )  # a living writer's, for all we know
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept + left)
    atomic_write.remove_unfinished(folder, time.time() + atomic_write.ABANDONED_AFTER_S + 30)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
