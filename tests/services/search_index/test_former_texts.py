"""A data directory whose recall.db has no times yet: made by version 0001 of its schema, with vectors."""

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.wire import Stdio

FORMER = Path(__file__).with_name("former_data.tar.gz")  # a vault with "k" and a project with "Ann", both about tea
FLAGS = "--embedder", "none", "--families", "vault,graph,recall"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    with tarfile.open(FORMER) as archive:
        archive.extractall(folder, filter="data")
    return folder


def rows(data_dir: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(data_dir / "recall.db")) as db:
        return db.execute(sql).fetchall()


def test_texts_get_their_times_and_keep_their_vectors(data_dir: Path) -> None:
    vectors = "SELECT text_seq, part, vector FROM text_vectors ORDER BY 1, 2"
    former = rows(data_dir, vectors)
    assert len(former) == 2
    server = Stdio.start(data_dir, *FLAGS)
    answer = server.call("recall_memories", query="tea", after="2026-11-16T00:00Z", before="2026-11-16T23:59Z")
    nothing = server.call("recall_memories", query="tea", before="2026-11-15")
    server.close()
    assert answer["incomplete"] == []
    assert "notice" not in answer
    assert {hit["ref"] for hit in answer["hits"]} == {"memory://vault/k", "graph:garden/Ann"}
    assert all(hit["created_at"].startswith("2026-11-16T10:") for hit in answer["hits"])
    assert nothing["hits"] == []
    assert rows(data_dir, vectors) == former
    assert rows(data_dir, "SELECT * FROM embed_queue") == []
    assert rows(data_dir, "SELECT count(*) FROM texts WHERE has_facts") == [(2,)]
