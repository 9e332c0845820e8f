"""The file of a search index in SQLite."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.caller import LOCAL_USER as USER
from memory_mcp.services.access import Tenants
from memory_mcp.services.embedding import Embedders
from memory_mcp.services.search_index import IndexRecreated, SearchIndex
from tests.services.search_index.test_index import GROUP, NO_EMBEDDER, find, open_files, refs, text


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Tenants]:
    with closing(open_files(tmp_path)) as tenants:
        yield tenants


@pytest.fixture
def index(tenants: Tenants) -> SearchIndex:
    return SearchIndex(tenants, Embedders(NO_EMBEDDER))


def test_deleted_texts_can_be_erased_from_the_disk(index: SearchIndex, tmp_path: Path) -> None:
    def is_on_disk(word: bytes) -> bool:
        return any(word in path.read_bytes() for path in tmp_path.glob("recall.db*"))

    index.add(USER, GROUP, [text("1", "xyzzyplugh"), text("2", "teapot")])
    assert is_on_disk(b"xyzzyplugh")
    index.delete(USER, ["1"])
    index.erase_deleted(USER)
    assert not is_on_disk(b"xyzzyplugh")
    assert refs(find(index, "teapot")) == ["ref:2"]


def test_a_damaged_file_is_recreated_once(index: SearchIndex, tenants: Tenants, tmp_path: Path) -> None:
    index.add(USER, GROUP, [text("1", "teapot")])
    tenants.database(USER).close()
    for path in tmp_path.glob("recall.db-*"):
        path.unlink()
    (tmp_path / "recall.db").write_bytes(b"no database, and long enough to be taken for one" * 50)
    generation = index.generation(USER)
    with pytest.raises(IndexRecreated):
        find(index, "teapot")
    assert index.generation(USER) == generation + 1
    assert find(index, "teapot") == []
    index.add(USER, GROUP, [text("1", "teapot")])
    assert refs(find(index, "teapot")) == ["ref:1"]
