"""Power loss: what was not synced is gone.

A process runs the product over a file system of which only synced bytes are durable: for SQLite by a VFS that keeps a
copy of each file at its xSync, for all other files by os.fsync, whose folder must be synced, too, before a name lasts.
After an acknowledged write the durable copy is all that is left.
"""

import os
import random
import shutil
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import apsw

from benchmarks.chaos.connections import ERAS, stdio_client
from benchmarks.chaos.ledger import Ledger

TRIALS = 40
MAX_WRITES = 8
FAMILIES = ("vault", "notes", "stores", "graph")  # chDB has its own files and no VFS
SEED = 2


class DurableFiles:
    """A copy of a data directory as a disk would have it after a power loss."""

    def __init__(self, data_dir: Path, copy: Path) -> None:
        self._data_dir = data_dir.resolve()
        self._copy = copy
        self._synced: dict[tuple[int, int], bytes] = {}  # contents by device and inode
        self._fsync = os.fsync

    def copied(self, path: Path) -> Path:
        return self._copy / path.resolve().relative_to(self._data_dir)

    def sync_file(self, path: Path) -> None:
        target = self.copied(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.{threading.get_ident()}")
        shutil.copyfile(path, unfinished)
        unfinished.replace(target)  # a kill leaves the former copy or this one

    def delete(self, path: Path) -> None:
        self.copied(path).unlink(missing_ok=True)

    def fsync(self, fd: int) -> None:
        """In place of os.fsync."""
        self._fsync(fd)
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if not path.is_relative_to(self._data_dir):
            return
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            self._sync_folder(path)
        else:
            self._synced[found.st_dev, found.st_ino] = path.read_bytes()

    def _sync_folder(self, folder: Path) -> None:
        target = self.copied(folder)
        target.mkdir(parents=True, exist_ok=True)
        names = {path.name: path.stat() for path in folder.iterdir() if path.is_file()}
        for name, found in names.items():
            if (content := self._synced.get((found.st_dev, found.st_ino))) is not None:
                (target / name).write_bytes(content)
        for path in target.iterdir():
            if path.is_file() and path.name not in names:
                path.unlink()


class DurableVfs(apsw.VFS):
    def __init__(self, files: DurableFiles) -> None:
        self._files = files
        self._base = apsw.vfs_names()[0]  # of the system
        super().__init__("durable", self._base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        return _DurableFile(self._files, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._files.delete(Path(filename))


class _DurableFile(apsw.VFSFile):
    def __init__(self, files: DurableFiles, base: str, name: Any, flags: list[int]) -> None:
        self._files = files
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        super().__init__(base, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if self._path.is_absolute():
            self._files.sync_file(self._path)


def run(folder: Path, trials: int = TRIALS) -> list[Ledger]:
    """In each trial a client writes, and after an answer the server is killed and all but the durable copy is lost."""
    ledger, chance = Ledger("power loss below SQLite and below stores"), random.Random(SEED)
    for trial in range(trials):
        data_dir, copy = folder / f"power-{trial}" / "data", folder / f"power-{trial}" / "durable"
        module = (__name__, str(data_dir), str(copy))
        one = Ledger(ledger.name)
        with stdio_client(data_dir, ERAS[trial % 2], shared=False, module=module) as client:
            client("create_project", {"name": "chaos"})
            for number in range(chance.randint(1, MAX_WRITES)):
                family = chance.choice(FAMILIES)
                one.write(client, family, f"p{trial}-{family}-{number}")
            client.kill()
        one.check(copy)
        ledger.attempts += 1
        ledger.merge(one)
        shutil.rmtree(data_dir.parent)
    return [ledger]


def main() -> None:
    """`memory-mcp` with the arguments after the first two, over durable files."""
    os.umask(0o077)  # as the product makes its own files; the copy has no other mode
    data_dir, copy, *arguments = sys.argv[1:]
    Path(data_dir).mkdir(parents=True, exist_ok=True)
    files = DurableFiles(Path(data_dir), Path(copy))
    os.fsync = files.fsync  # type: ignore[assignment]  # the product gives it descriptors only
    vfs = DurableVfs(files)
    from memory_mcp.__main__ import main as memory_mcp

    sys.argv = ["memory-mcp", *arguments]
    try:
        memory_mcp(arguments)
    finally:
        vfs.unregister()


if __name__ == "__main__":
    main()
