"""A search index: texts in groups, found by words, tags and meaning."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.caller import LOCAL_USER as USER
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.transactions import Read, UserDatabases
from memory_mcp.families.recall.family import RECALL_CACHE
from memory_mcp.services.access import Tenants
from memory_mcp.services.embedding import Embedders, EmbeddingOptions
from memory_mcp.services.search_index import SCHEMA, IndexHit, IndexQuery, IndexText, SearchIndex
from tests.events import eventually
from tests.services.embedding.fake_service import FakeService, running_service
from tests.services.embedding.servers import shorten_timeouts

GROUP = "stores/diary"
NO_EMBEDDER = EmbeddingOptions("none", None, "", "", None, Path("/nowhere"))


@pytest.fixture
def service() -> Iterator[FakeService]:
    with running_service() as service:
        yield service


@pytest.fixture
def tenants(tmp_path: Path, database_url: str | None) -> Iterator[UserDatabases]:
    if database_url is None:
        with closing(open_files(tmp_path)) as tenants:
            yield tenants
        return
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.engines.postgres.tenants import PostgresTenants

    with closing(PostgresPool(database_url)) as pool:
        pool.open([RECALL_CACHE.tables])
        yield PostgresTenants(pool, RECALL_CACHE.tables, durable=False)


def open_files(folder: Path) -> Tenants:
    open_file = partial(Database, schema=SCHEMA, backups=folder / "backups", durability="normal")
    return Tenants(folder, folder / "recall.db", open_file)


@pytest.fixture
def index(tenants: UserDatabases) -> SearchIndex:
    return SearchIndex(tenants, Embedders(NO_EMBEDDER))


def text(id_: str, content: str, **more: Any) -> IndexText:
    return IndexText(id_, f"ref:{id_}", f"label of {id_}", more.pop("title", ""), content, **more)


def find(index: SearchIndex, query: str, prefix: str = "stores/", **more: Any) -> list[IndexHit]:
    return index.search(USER, IndexQuery(query, prefix, **more))


def refs(hits: list[IndexHit]) -> list[str]:
    return [hit.ref for hit in hits]


def test_texts_are_found_by_content_title_and_tags(index: SearchIndex) -> None:
    several = [
        text("1", "the teapot is blue", tags=("Kitchen",)),
        text("2", "nothing of that kind", title="teapots"),
        text("3", "a chair", tags=("teapot", "kitchen")),
    ]
    index.add(USER, GROUP, several)
    assert set(refs(find(index, "teapot"))) == {"ref:1", "ref:2", "ref:3"}
    assert set(refs(find(index, "teapot", tags=("KITCHEN",)))) == {"ref:1", "ref:3"}
    assert refs(find(index, "teapot", tags=("kitchen", "teapot"))) == ["ref:3"]
    [hit] = find(index, "blue")
    assert (hit.label, hit.snippet, hit.cosine) == ("label of 1", "the teapot is blue", None)
    assert find(index, "wombat") == []


def test_only_groups_with_the_prefix_are_searched(index: SearchIndex) -> None:
    for group in ("stores/a", "stores/ab", "storesX/a", "graph/a"):
        index.add(USER, group, [text(group, "teapot")])
    assert set(refs(find(index, "teapot"))) == {"ref:stores/a", "ref:stores/ab"}
    assert refs(find(index, "teapot", "stores/ab")) == ["ref:stores/ab"]
    assert index.ids(USER, "stores/a") == {"stores/a": True}
    assert index.groups(USER) == {"stores/a", "stores/ab", "storesX/a", "graph/a"}


def test_scores_of_a_confined_search_ignore_other_groups(index: SearchIndex) -> None:
    index.add(USER, "portals/mine/p", [text("1", "teapot and cup"), text("2", "teapot")])
    before = find(index, "teapot cup", "portals/mine/", is_confined=True)
    index.add(USER, "portals/other/p", [text(f"o{number}", "cup") for number in range(50)])
    assert find(index, "teapot cup", "portals/mine/", is_confined=True) == before


def test_deleted_texts_are_not_found(index: SearchIndex) -> None:
    index.add(USER, GROUP, [text("1", "teapot", tags=("x",)), text("2", "teapot")])
    index.delete(USER, ["1", "unknown"])
    assert refs(find(index, "teapot")) == ["ref:2"]
    assert find(index, "teapot", tags=("x",)) == []
    index.delete_group(USER, GROUP)
    assert find(index, "teapot") == []
    assert index.groups(USER) == set()


def test_an_existing_text_stays_unchanged(index: SearchIndex) -> None:
    index.add(USER, GROUP, [text("1", "teapot")])
    index.add(USER, GROUP, [text("1", "wombat"), text("2", "wombat")])
    assert refs(find(index, "teapot")) == ["ref:1"]
    assert refs(find(index, "wombat")) == ["ref:2"]


def test_a_new_version_with_the_same_text_keeps_its_vectors(
    tenants: UserDatabases, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_timeouts(monkeypatch)
    options = EmbeddingOptions("ollama", None, service.url, "tiny", None, Path("/nowhere"))
    index = SearchIndex(tenants, Embedders(options))
    first = [text("same", "the teapot is blue", tags=("Kitchen",)), text("other", "a red chair")]
    index.add(USER, GROUP, first)
    index.worker.start()
    try:
        eventually(lambda: [hit.cosine is not None for hit in find(index, "teapot chair")] == [True, True])
    finally:
        index.worker.stop()
    changed = replace(first[1], id="other-2", content="a green chair")
    index.add(USER, GROUP, [replace(first[0], id="same-2"), changed], former_ids={"same", "other"})
    assert set(index.ids(USER, GROUP)) == {"same-2", "other-2"}
    assert [hit.cosine is not None for hit in find(index, "teapot")] == [True]
    assert [(hit.snippet, hit.cosine) for hit in find(index, "chair") if hit.lexical] == [("a green chair", None)]


def test_a_group_has_a_version_until_it_is_deleted(index: SearchIndex) -> None:
    assert index.group_version(USER, GROUP) is None
    index.set_group_version(USER, GROUP, "1")
    index.add(USER, GROUP, [text("1", "teapot")])
    assert index.group_version(USER, GROUP) == "1"
    index.set_group_version(USER, GROUP, None)
    assert index.group_version(USER, GROUP) is None
    index.set_group_version(USER, GROUP, "2")
    index.delete_group(USER, GROUP)
    assert index.group_version(USER, GROUP) is None


def test_texts_are_found_by_meaning_when_the_worker_has_embedded_them(
    tenants: UserDatabases, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_timeouts(monkeypatch)
    options = replace(NO_EMBEDDER, kind="ollama", ollama_host=service.url, model="tiny")
    index = SearchIndex(tenants, Embedders(options))
    index.add(USER, GROUP, [text("1", "teapot"), text("2", "a chair")])
    index.worker.start()
    try:
        eventually(lambda: all(hit.cosine is not None for hit in find(index, "teapot")))
        assert find(index, "teapot")[0].ref == "ref:1"
        index.delete(USER, ["1"])
        assert "ref:1" not in refs(find(index, "teapot"))
    finally:
        index.worker.stop()


def test_a_search_takes_few_statements(
    index: SearchIndex, tenants: UserDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same search took 11 when recall.db was a file of notes."""
    index.add(USER, GROUP, [text(str(number), f"teapot {number}") for number in range(30)])
    statements: list[str] = []
    with tenants.database(USER).read() as tx:
        kind = type(tx)
    execute = kind.all

    def count(tx: Read, sql: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        statements.append(sql)
        return execute(tx, sql, values)

    monkeypatch.setattr(kind, "all", count)
    assert len(find(index, "teapot chair", limit=10)) == 10
    assert 3 <= len(statements) <= 8
