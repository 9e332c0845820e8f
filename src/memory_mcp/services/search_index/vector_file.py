"""The file of packed vectors beside a database: a cache, which is mapped at a start instead of reading every vector.

The database and the file have the same random token. The file gets a new one each time that it is written, and when the
vectors of deleted texts are overwritten in it. So a file never fits a database that was restored or replaced: until the
last change that the file has, every database with its token has the same history. Later changes are read from the
database, as with vectors that were packed by this process.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.sqlite import sibling_files
from memory_mcp.engines.transactions import Read, UserDatabase
from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding import Space
from memory_mcp.services.search.packed_header import Header, read_header, write_header
from memory_mcp.services.search_index.storage import vector_file as storage
from memory_mcp.services.search_index.storage import vectors
from memory_mcp.services.search_index.storage.vector_file import PackedTable
from memory_mcp.services.search_index.tables import Tables
from memory_mcp.system import operating_system

if TYPE_CHECKING:
    from memory_mcp.services.search.packed_vectors import PackedVectors

log = logging.getLogger(__name__)

MIN_VECTORS = 5000  # fewer are packed in less time than a person notices
LOCK_TIMEOUT_S = 60.0  # another process writes the file of a million vectors
VECTORS_AT_ONCE = 4096
MAX_CHANGES = 5000  # after which the file is written again; a file of many vectors may have more:
MAX_CHANGES_SHARE = 50  # one in so many

Loaded = tuple[object, "PackedVectors", int]
"""The origin of the vectors, the vectors, and the last change among them."""


class _Unwritable(Exception):
    """The file cannot be written."""


class VectorFile:
    """The file of one user's database. Several processes may use it at once; one at a time writes it."""

    def __init__(self, db: UserDatabase, path: Path, tables: Tables) -> None:
        """`path`: of the database."""
        self.path = sibling_files.packed_vectors(path)
        self._db = db
        self._table = PackedTable(tables)
        self._lock = FileLock(sibling_files.packed_vectors_lock(self.path))
        self._is_unwritable = False

    def load(self) -> Loaded | None:
        """The vectors of the file, which is written if it does not fit the database. None for a small database, or if
        the file cannot be written. Not within a write, for which it would wait."""
        with self._db.read() as tx:
            if found := self._map(tx):
                return found
            if self._is_unwritable or not self._table.has_at_least(tx, MIN_VECTORS):
                return None
        return self._load_written()

    def _load_written(self) -> Loaded | None:
        with self._try_lock(LOCK_TIMEOUT_S) as is_held:
            with self._db.read() as tx:
                found = self._map(tx)  # another process may have written it meanwhile
            if found or not is_held or not self._write():
                return found
            with self._db.read() as tx:
                return self._map(tx)

    def renew(self) -> bool:
        """Write the file if it is missing or far behind the database. Whether it was written."""
        with self._db.read() as tx:
            header = self._header(tx)
            if self._is_unwritable or not self._table.has_at_least(tx, MIN_VECTORS):
                return False
            allowed = max(MAX_CHANGES, header.count // MAX_CHANGES_SHARE) if header else 0
            if header and storage.last_change(tx) - header.reached <= allowed:
                return False
        with self._try_lock(0.0) as is_held:
            return is_held and self._write()

    def erase_deleted(self) -> None:
        """Overwrite the vectors of texts that were deleted since the file was written."""
        if not self.path.exists():
            return
        with self._try_lock(LOCK_TIMEOUT_S) as is_held:
            if not is_held:
                return  # it is done a minute later
            with self._db.read() as tx:
                header, last = self._header(tx), storage.last_change(tx)
                deleted = self._table.deleted(tx, max(header.reached, header.erased)) if header else []
            if header is None:
                self.path.unlink(missing_ok=True)  # of former vectors: nothing says which of them were deleted
            elif deleted:
                from memory_mcp.services.search import packed_file

                packed_file.overwrite(self.path, header, deleted)
                # A database that was backed up before has their vectors, which the file has no more.
                token = self._renew_token()
                write_header(self.path, replace(header, token=token, erased=last))

    def _header(self, tx: Read) -> Header | None:
        """None if the file does not fit the database."""
        header, space = read_header(self.path), vectors.space(tx)
        fits = header and space and (header.space, header.token) == (space.name, storage.token(tx))
        return header if fits else None

    def _map(self, tx: Read) -> Loaded | None:
        if not self.path.exists() or (space := vectors.space(tx)) is None:
            return None
        from memory_mcp.services.search import packed_file
        from memory_mcp.services.search.packed_vectors import PackedVectors

        found = packed_file.map_file(self.path)
        if found is None or (found[0].space, found[0].token) != (space.name, storage.token(tx)):
            return None
        header, arrays = found
        return origin(tx, space), PackedVectors(arrays), header.reached

    def _write(self) -> bool:
        """Only while holding the lock. Whether the file was written."""
        part = self.path.with_name(f"{self.path.name}.part")
        try:
            token = self._write_part(part)
            if token is None:
                return False
            with self._db.write() as tx:
                storage.set_token(tx, token)
            part.replace(self.path)
        except (_Unwritable, OSError) as exc:  # a full or read-only disk, or on Windows a file that a process uses
            self._give_up(exc)
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return False
        except Unavailable as exc:  # the database is busy: its token could not be written
            log.warning("The file of packed vectors was not written: %s", exc.message)
            return False
        return True

    def _write_part(self, part: Path) -> str | None:
        """The token of what was written. None if there are no vectors."""
        with self._db.read() as tx:
            space = vectors.space(tx)
            if space is None:
                return None
            header = Header(space.name, space.dimensions, storage.last_change(tx), secrets.token_hex(16))
            try:
                self._write_vectors(tx, part, header)
            except OSError as exc:  # not of the database
                raise _Unwritable(str(exc)) from exc
        return header.token

    def _write_vectors(self, tx: Read, part: Path, header: Header) -> None:
        from memory_mcp.services.search.packed_file import PackedFileWriter

        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | operating_system.O_BINARY, 0o600)
        with os.fdopen(handle, "r+b") as file:
            writer = PackedFileWriter(file, header, self._table.count(tx))
            for rows in _batches(self._table.each(tx)):
                writer.write(rows)
            writer.finish()

    @contextmanager
    def _try_lock(self, timeout_s: float) -> Iterator[bool]:
        """Acquire the lock of writers for the block. Yields whether it is held."""
        with ExitStack() as stack:
            try:
                is_held = stack.enter_context(self._lock.try_acquire(timeout_s))
            except OSError as exc:
                self._give_up(exc)
                is_held = False
            yield is_held

    def _give_up(self, exc: Exception) -> None:
        log.warning("The file of packed vectors cannot be written; they are packed in memory: %s", exc)
        self._is_unwritable = True

    def _renew_token(self) -> str:
        token = secrets.token_hex(16)
        with self._db.write() as tx:
            storage.set_token(tx, token)
        return token


def origin(tx: Read, space: Space) -> object:
    """What packed vectors come from: another file, or another model, has others."""
    return tx.generation, space


def _batches(rows: Iterator[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """All chunks of a text are in one batch."""
    batch: list[tuple[int, bytes]] = []
    for _, chunks in groupby(rows, key=itemgetter(0)):
        batch += chunks
        if len(batch) >= VECTORS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
