"""Files with many notes: the notes are kept by our own storage, their vectors are drawn by lot.

100,000 notes take minutes to write. So each file is written once, to the user's cache, and copied from there until the
code that wrote it changes.
"""

import hashlib
import itertools
import os
import shutil
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import apsw
import numpy as np
from numpy.typing import NDArray

from benchmarks import texts
from benchmarks.texts import Texts
from memory_mcp import engines, families
from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import precise_stamp
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.engines.transactions import UserDatabase, Write
from memory_mcp.families.notes import schema
from memory_mcp.families.notes.model import NewNote, Note
from memory_mcp.families.notes.storage import index, notes
from memory_mcp.families.notes.transactions import merged_tags
from memory_mcp.services import search, search_index
from memory_mcp.services.embedding import Space, model_files
from memory_mcp.services.embedding.worker import BACKGROUND
from memory_mcp.services.search.vectors import pack
from memory_mcp.services.search_index.storage import vectors

Floats = NDArray[np.float32]

SPACE = Space("builtin", model_files.MODEL, 384)
SEED = 1
NOTES_PER_TRANSACTION = (
    500  # notes in one transaction: the full-text index then has pieces of many ages, as in real use
)
NOTES_PER_SESSION = 5  # notes written one after another in one session, each the context of the next
BETWEEN = timedelta(minutes=5)
MERGES = 200  # at most: what a server does in as many pauses


def notes_file(path: Path, count: int) -> None:
    """This many notes in a file, the last of them written when the file was."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-mcp-benchmarks"
    stored = cache / f"notes-{count}-{_version()}.db"
    if not stored.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            write(Path(scratch) / path.name, count, unit_vectors(count))
            for former in cache.glob(f"notes-{count}-*.db"):
                former.unlink(missing_ok=True)
            (Path(scratch) / path.name).rename(stored)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(stored, path)


def _version() -> str:
    """Of the code that decides what is in the file."""
    sources = [Path(__file__), Path(texts.__file__)]
    for package in (families.notes, search, search_index, engines.sqlite):
        sources += sorted(Path(package.__path__[0]).rglob("*.*"))
    digest = hashlib.sha256()
    for source in sources:
        if source.suffix in (".py", ".sql"):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def write(path: Path, count: int, own: Floats) -> None:
    with closing(Database(path, schema.SCHEMA, backups=path.parent, durability="normal")) as db:
        fill(db, count, own)
        index_merge = IndexMerge("notes_words", lambda: [db])
        for _ in range(MERGES):
            index_merge.merge()


def fill(db: UserDatabase, count: int, own: Floats | None = None) -> None:
    """Write this many notes, each with its own vector and most with one of their context."""
    own = unit_vectors(count) if own is None else own
    with db.write() as tx:
        vectors.set_space(tx, SPACE, bytes(pack(unit_vectors(len(BACKGROUND), SEED + 2))))
    numbered = enumerate(Texts(SEED).notes(count))
    while batch := list(itertools.islice(numbered, NOTES_PER_TRANSACTION)):
        with db.write() as tx:
            for number, new in batch:
                _keep(tx, number, count, new, own[number])


def _keep(tx: Write, number: int, count: int, new: NewNote, vector: Floats) -> None:
    place = number % NOTES_PER_SESSION
    written = precise_stamp(datetime.now(UTC) - BETWEEN * (count - number))
    tags = merged_tags(new.tags, ("mcp", "memory", "benchmark", f"ns/{new.namespace}"), ())
    note = Note(
        id=str(UUID(bytes=hashlib.md5(str(number).encode(), usedforsecurity=False).digest())),
        user_id=LOCAL_USER,
        namespace=new.namespace or "",
        title=new.title or new.content.partition(".")[0],
        content=new.content,
        folder=new.folder,
        tags=[tag.name for tag in tags],
        importance=new.importance,
        metadata={},
        source="import" if number % 10 == 0 else "mcp",
        client="benchmark",
        created_at=written,
        updated_at=written,
        last_referenced_at=written if number % 4 == 0 else None,
        archived=False,
        expires_at=None,
        superseded_by=None,
        version=1,
    )
    seq = notes.insert(
        tx,
        note,
        has_own_title=new.title is not None,
        previous=number if place else None,
        session_id=f"sitting-{number - place}",
    ).seq
    notes.set_tags(tx, seq, tags)
    index.index_words(tx, seq)
    index.VECTORS.save(tx, seq, [pack(vector)])


def bare_file(path: Path, count: int) -> None:
    """The texts of the same notes in nothing but a full-text table."""
    connection = bare_connection(path)
    connection.execute("CREATE VIRTUAL TABLE bare USING fts5(text, tokenize = 'porter')")
    rows = ((bare_text(note),) for note in Texts(SEED).notes(count))
    while batch := list(itertools.islice(rows, NOTES_PER_TRANSACTION)):
        with connection:
            connection.executemany("INSERT INTO bare (text) VALUES (?)", batch)
    connection.execute("INSERT INTO bare (bare) VALUES ('optimize')")
    connection.close()


def bare_connection(path: Path) -> apsw.Connection:
    """Durable and with as much cache as our own."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -64000)
    return connection


def bare_text(note: NewNote) -> str:
    return f"{note.title}\n{note.content}" if note.title else note.content


def unit_vectors(count: int, seed: int = SEED) -> Floats:
    """Rows that point anywhere."""
    drawn = np.random.default_rng(seed).standard_normal((count, SPACE.dimensions), dtype=np.float32)
    units: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return units
