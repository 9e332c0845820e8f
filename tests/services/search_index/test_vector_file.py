"""The file of packed vectors beside a database."""

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.transactions import Read
from memory_mcp.services.embedding import Embedders, QueryVectors, Space
from memory_mcp.services.search import packed_file
from memory_mcp.services.search.packed_header import read_header
from memory_mcp.services.search.vector_cache import CacheBudget
from memory_mcp.services.search.vectors import Floats, pack, unit
from memory_mcp.services.search_index import SCHEMA, IndexText, vector_file
from memory_mcp.services.search_index.storage import texts, vectors
from memory_mcp.services.search_index.storage.vector_file import PackedTable
from memory_mcp.services.search_index.storage.vectors import VectorTable
from memory_mcp.services.search_index.vector_search import QueryVector, SpaceChanged, VectorSearch
from tests.services.search_index.test_index import NO_EMBEDDER

DIMENSIONS = 32
SPACE = Space("ollama", "tiny", DIMENSIONS)
COUNT = 300
FILE = "recall.db-vectors"
QUERIES = QueryVectors(Embedders(NO_EMBEDDER))


def vector(number: int) -> Floats:
    return unit(np.random.default_rng(number).standard_normal(DIMENSIONS).astype(np.float32))


def opened(folder: Path) -> Database:
    return Database(folder / "recall.db", SCHEMA, backups=folder, durability="normal")


def write(db: Database, numbers: range, chunks: int = 1) -> None:
    """Texts with one vector, or with several of which the first is their own."""
    with db.write() as tx:
        vectors.set_space(tx, SPACE, bytes(pack(np.stack([vector(10_000 + one) for one in range(5)]))))
        ids = [IndexText(str(number), f"ref:{number}", "label", "", f"text {number}") for number in numbers]
        texts.insert_all(tx, "group", ids, ())
        for number in numbers:
            save(tx, number, [vector(number + 1000 * chunk) for chunk in range(chunks)])


def save(tx: Read, number: int, of: list[Floats]) -> None:
    VectorTable(texts.TABLES).save(tx, seq_of(tx, number), [pack(one) for one in of])  # type: ignore[arg-type]  # a write


def seq_of(tx: Read, number: int) -> int:
    return tx.number("SELECT seq FROM texts WHERE id = :id", {"id": str(number)})


def delete(db: Database, number: int) -> None:
    with db.write() as tx:
        texts.delete_all(tx, [str(number)])


def nearest(db: Database, search: VectorSearch, number: int, count: int = 1) -> list[str]:
    """The texts nearest to the vector of a text."""
    with db.read() as tx:
        near = search.near(tx, QueryVector(SPACE, vector(number), QUERIES), (), None, count)
        return [ref for ref, *_ in texts.by_seq(tx, near.nearest)]


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "MIN_VECTORS", 10)
    monkeypatch.setattr(vector_file, "MAX_CHANGES", 50)
    monkeypatch.setattr(vector_file, "VECTORS_AT_ONCE", 64)


@pytest.fixture(params=[10_000_000, 10], ids=["all compared", "with bits"])
def rows_with_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_file, "MIN_ROWS_WITH_BITS", request.param)


@pytest.fixture
def db(tmp_path: Path, rows_with_bits: None) -> Iterator[Database]:
    with closing(opened(tmp_path)) as db:
        write(db, range(COUNT))
        yield db


def search_in(db: Database) -> VectorSearch:
    return VectorSearch(db, texts.TABLES, CacheBudget())


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An element for each time that all vectors were read from a database."""
    found: list[int] = []
    each = PackedTable.each

    def counted(table: PackedTable, tx: Read) -> Iterator[tuple[int, bytes]]:
        found.append(1)
        return each(table, tx)

    monkeypatch.setattr(PackedTable, "each", counted)
    return found


def test_the_file_is_written_once_and_only_its_owner_may_read_it(
    db: Database, tmp_path: Path, packings: list[int]
) -> None:
    assert nearest(db, search_in(db), 7) == ["ref:7"]
    assert nearest(db, search_in(db), 8) == ["ref:8"]  # as another process
    assert packings == [1]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_few_vectors_need_no_file(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as db:
        write(db, range(9))
        assert nearest(db, search_in(db), 7) == ["ref:7"]
    assert not (tmp_path / FILE).exists()


def test_changes_after_the_file_was_written_are_found(db: Database, packings: list[int]) -> None:
    first = search_in(db)
    nearest(db, first, 0)
    write(db, range(COUNT, COUNT + 20), chunks=3)
    delete(db, 5)
    with db.write() as tx:
        save(tx, 6, [vector(777), vector(778)])
    for search in (first, search_in(db)):
        assert nearest(db, search, COUNT + 3) == [f"ref:{COUNT + 3}"]
        assert nearest(db, search, COUNT + 2003) == [f"ref:{COUNT + 3}"]  # by its third chunk
        assert nearest(db, search, 5) != ["ref:5"]
        assert nearest(db, search, 778) == ["ref:6"]
        assert nearest(db, search, 299) == ["ref:299"]
        assert len({*nearest(db, search, 6, COUNT + 20)}) == COUNT + 19
    assert packings == [1]


def test_deleted_vectors_are_overwritten_in_the_file(db: Database, tmp_path: Path, packings: list[int]) -> None:
    search, other = search_in(db), search_in(db)
    assert nearest(db, search, 5) == nearest(db, other, 5) == ["ref:5"]
    assert bytes(pack(vector(5))) in (tmp_path / FILE).read_bytes()
    delete(db, 5)
    search.erase_deleted()
    assert bytes(pack(vector(5))) not in (tmp_path / FILE).read_bytes()
    assert bytes(pack(vector(6))) in (tmp_path / FILE).read_bytes()
    for each in (search, other, search_in(db)):
        assert nearest(db, each, 5) != ["ref:5"]
        assert len({*nearest(db, each, 6, COUNT)}) == COUNT - 1
    assert packings == [1]


def test_a_restored_database_has_the_vectors_that_were_erased(db: Database, tmp_path: Path) -> None:
    nearest(db, search_in(db), 5)
    db.erase_deleted()  # everything is in the file now
    shutil.copy(tmp_path / "recall.db", tmp_path / "copy")
    delete(db, 5)
    search_in(db).erase_deleted()
    db.close()
    (tmp_path / "copy").replace(tmp_path / "recall.db")
    with closing(opened(tmp_path)) as restored:
        assert nearest(restored, search_in(restored), 5) == ["ref:5"]


def test_the_file_of_another_history_is_not_used(db: Database, tmp_path: Path, packings: list[int]) -> None:
    db.erase_deleted()
    shutil.copy(tmp_path / "recall.db", tmp_path / "copy")
    write(db, range(COUNT, COUNT + 5))
    nearest(db, search_in(db), 5)
    db.close()
    (tmp_path / "copy").replace(tmp_path / "recall.db")
    with closing(opened(tmp_path)) as restored:
        write(restored, range(2000, 2010))  # as many changes, of other texts
        search = search_in(restored)
        assert nearest(restored, search, 2003) == ["ref:2003"]
        assert nearest(restored, search, COUNT + 1) != [f"ref:{COUNT + 1}"]
    assert packings == [1, 1]


def flip(offset: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[offset] ^= 0xFF
        path.write_bytes(data)

    return damage


def spoil_vectors(path: Path) -> None:
    header = read_header(path)
    assert header
    offset, _ = header.layout["vectors"]
    data = bytearray(path.read_bytes())
    data[offset : offset + 4 * DIMENSIONS] = np.full(DIMENSIONS, np.nan, dtype="<f4").tobytes()
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: os.truncate(path, 0),
    "shorter": lambda path: os.truncate(path, path.stat().st_size - 1),
    "another file": lambda path: shutil.copy(__file__, path),
    "the header": flip(20),
    "an owner": flip(4096),
    "a vector": spoil_vectors,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_again(damage: str, db: Database, tmp_path: Path, packings: list[int]) -> None:
    nearest(db, search_in(db), 5)
    DAMAGE[damage](tmp_path / FILE)
    assert nearest(db, search_in(db), 0) == ["ref:0"]
    assert nearest(db, search_in(db), 7) == ["ref:7"]
    assert packings == [1, 1]


def test_what_a_killed_writer_left_is_replaced(db: Database, tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.part").write_bytes(b"unfinished" * 100_000)
    assert nearest(db, search_in(db), 5) == ["ref:5"]
    assert not (tmp_path / f"{FILE}.part").exists()


def test_vectors_are_packed_in_memory_where_the_file_cannot_be_written(
    db: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"{FILE}.part").mkdir()
    search = search_in(db)
    assert nearest(db, search, 5) == nearest(db, search, 5) == ["ref:5"]
    assert caplog.text.count("packed in memory") == 1
    assert not (tmp_path / FILE).exists()


def test_the_file_is_written_again_when_it_is_far_behind(db: Database, packings: list[int]) -> None:
    search = search_in(db)
    search.maintain()
    assert packings == [1]
    write(db, range(COUNT, COUNT + 50))
    search.maintain()
    assert packings == [1]
    write(db, range(COUNT + 50, COUNT + 51))
    search.maintain()
    assert packings == [1, 1]
    assert nearest(db, search, COUNT + 50) == [f"ref:{COUNT + 50}"]
    assert len({*nearest(db, search, 6, COUNT + 51)}) == COUNT + 51


def test_several_processes_write_one_file(tmp_path: Path, db: Database, packings: list[int]) -> None:
    found: list[list[str]] = []
    ready = threading.Barrier(4)

    def run(number: int) -> None:
        with closing(opened(tmp_path)) as own:
            ready.wait()
            found.append(nearest(own, search_in(own), number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[f"ref:{number}"] for number in range(4)]
    assert packings == [1]


def test_the_file_of_another_model_is_not_used(db: Database) -> None:
    search = search_in(db)
    nearest(db, search, 5)
    with db.write() as tx:
        VectorTable(texts.TABLES).delete_all(tx)
    with pytest.raises(SpaceChanged):
        nearest(db, search_in(db), 5)


def test_more_rows_than_the_file_has_to_spare(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_file, "MIN_SPARE", 3)
    monkeypatch.setattr(packed_file, "SPARE_SHARE", 1000)
    search = search_in(db)
    nearest(db, search, 5)
    write(db, range(COUNT, COUNT + 40), chunks=2)
    assert [nearest(db, search, number) for number in (0, COUNT + 39, COUNT + 1039)] == [
        ["ref:0"],
        [f"ref:{COUNT + 39}"],
        [f"ref:{COUNT + 39}"],
    ]
    assert len({*nearest(db, search, 6, COUNT + 40)}) == COUNT + 40
