"""recall.db was a notes file in former versions. Such a file is rebuilt."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.services.search_index import schema
from tests import processes
from tests.wire import Stdio

FORMER = Path(__file__).with_name("former_recall.db.gz")  # holds a vault, a store, a project and a portal with "tea"
FLAGS = "--embedder", "none", "--families", "vault,notes,stores,graph,recall"
REFS = {"memory://vault/k", "stores:s/a/b", "graph:garden/Ann"}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory of the former version."""
    folder = tmp_path / "data"
    server = Stdio.start(folder, *FLAGS)
    server.call("commit_memory", scope="vault", key="k", content="tea")
    server.call("add_memory", store="s", path="a/b", content="tea")
    server.call("create_project", name="garden")
    server.call("create_entities", entities=[{"name": "Ann", "entity_type": "t", "observations": ["tea"]}])
    server.close()
    (folder / "recall.db").write_bytes(gzip.decompress(FORMER.read_bytes()))
    (folder / "recall.db").chmod(0o600)
    return folder


def run(*arguments: str) -> dict[str, Any]:
    done = processes.run(*arguments, "--json")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def problems(data_dir: Path) -> list[dict[str, Any]]:
    return [one for one in run("doctor", "--data-dir", str(data_dir))["findings"] if one["state"] == "problem"]


def application_id(file: Path) -> int:
    with closing(sqlite3.connect(file)) as db:
        return int(db.execute("PRAGMA application_id").fetchone()[0])


def recalled(data_dir: Path) -> set[str]:
    server = Stdio.start(data_dir, *FLAGS)
    answer = server.call("recall_memories", query="tea")
    server.close()
    assert answer["incomplete"] == []
    return {hit["ref"] for hit in answer["hits"]}


def test_recall_finds_everything_after_the_first_start(data_dir: Path) -> None:
    assert application_id(data_dir / "recall.db") == schema.SCHEMA.replaces
    assert problems(data_dir) == []
    assert recalled(data_dir) == REFS
    assert application_id(data_dir / "recall.db") == schema.SCHEMA.application_id
    assert problems(data_dir) == []
    assert not list((data_dir / "backups").glob("recall*")), "a cache needs no copy"
    assert recalled(data_dir) == REFS


def test_a_backup_and_its_restore_leave_the_cache_out(data_dir: Path, tmp_path: Path) -> None:
    archive = tmp_path / "backup.zip"
    run("backup", str(archive), "--data-dir", str(data_dir))
    run("restore", str(archive), "--data-dir", str(tmp_path / "new"))
    assert not (tmp_path / "new" / "recall.db").exists()
    assert recalled(tmp_path / "new") == REFS
