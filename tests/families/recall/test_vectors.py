"""With an embedder every family is found by meaning, and scores of all families can be compared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.events import eventually
from tests.families.recall.calls import FAMILIES, PORTAL, checked
from tests.services.embedding.fake_service import FakeService, running_service
from tests.services.embedding.servers import Server, needs_model, server, shorten_timeouts

EVERYTHING: dict[str, Any] = {"families": ",".join([*FAMILIES, "recall"]), "durability": "normal"}
BUSY = "The cat chases a mouse through the barn."


@pytest.fixture
def service() -> Iterator[FakeService]:
    with running_service() as service:
        yield service


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_timeouts(monkeypatch)


def keep(kept: Server, content: str, name: str = "one", *, portals: bool = False) -> None:
    kept.call("commit_memory", scope="vault", key=name, content=content)
    kept.create(content)
    kept.call("add_memory", store="diary", path=name, content=content)
    kept.call("create_project", name=f"p-{name}")
    entity = {"name": name, "entity_type": "thing", "observations": [content]}
    kept.call("create_entities", project=f"p-{name}", entities=[entity])
    if portals:
        kept.call("portal_write", portalUri=PORTAL, table="turns", data=[{"role": "user", "content": content}])


def recall(kept: Server, query: str, **more: Any) -> list[dict[str, Any]]:
    answer = checked(kept.call("recall_memories", query=query, **more))
    assert answer["incomplete"] == []
    found: list[dict[str, Any]] = answer["hits"]
    return found


def waiting(data_dir: Path) -> int:
    """How many texts wait for their vectors."""
    count = 0
    for name in ("notes.db", "recall.db"):
        db = apsw.Connection(str(data_dir / name))
        db.set_busy_timeout(5000)
        count += len(db.execute("SELECT 1 FROM embed_queue").fetchall())
        db.close()
    return count


@needs_model
def test_every_family_is_found_by_meaning(tmp_path: Path, short_timeouts: None) -> None:
    with server(tmp_path, embedder="builtin", **EVERYTHING) as kept:
        keep(kept, "The feline chased a rodent across the barn.", portals=True)
        for number, text in enumerate(
            ("The invoice is due in March.", "She plays the violin.", "Servers restart at midnight.")
        ):
            keep(kept, text, f"other-{number}")
        recall(kept, "anything")
        eventually(lambda: waiting(tmp_path) == 0, 60)
        found = recall(kept, "cat hunting mice", limit=5)
        assert {hit["family"] for hit in found} == set(FAMILIES)
        assert all("feline" in hit["snippet"] for hit in found)
        assert {hit["why"] for hit in found} == {"its meaning"}
        both = recall(kept, "feline hunting", limit=5)
        assert {hit["why"] for hit in both} == {"its words and its meaning"}


def test_copies_without_vectors_do_not_outrank_notes_that_have_them(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    options = {"embedder": "ollama", "ollama_host": service.url, "embed_model": "tiny", **EVERYTHING}
    with server(tmp_path, **options) as kept:
        kept.create("the blue teapot on the table")
        recall(kept, "x")
        eventually(lambda: waiting(tmp_path) == 0)
        service.stop()
        kept.call("commit_memory", scope="vault", key="k", content="a blue roof, and nothing of what was asked for")
        found = recall(kept, "the blue teapot on the table")
        assert [hit["family"] for hit in found] == ["notes", "vault"]
        service.start()


def test_a_server_whose_embedder_is_down_finds_by_words(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    service.stop()
    options = {"embedder": "ollama", "ollama_host": service.url, "embed_model": "tiny", **EVERYTHING}
    with server(tmp_path, **options) as kept:
        keep(kept, BUSY)
        assert len(recall(kept, "cat mouse")) == 4
