"""Recall over HTTP, with keys."""

from pathlib import Path
from typing import Any

from tests.cli.test_users import key_of, made
from tests.families.recall.calls import checked
from tests.wire import Http, http_server


def found(server: Http, query: str) -> list[str]:
    for _ in range(50):
        answer: dict[str, Any] = checked(server.modern_call("recall_memories", query=query))
        if not answer["incomplete"]:
            return [hit["ref"] for hit in answer["hits"]]
    raise AssertionError(answer)


def test_a_key_searches_its_users_data_in_its_families(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        made(tmp_path, "users", "add", name)
    with http_server(tmp_path, "--embedder", "none") as server:
        ann, bob = key_of(server, "ann"), key_of(server, "bob")
        narrow = key_of(server, "ann", "--families", "stores,recall")
        for name, key in (("ann", ann), ("bob", bob)):
            key.modern_call("commit_memory", scope="vault", key=name, content=f"a wombat of {name}")
            key.modern_call("add_memory", store="s", path=name, content=f"a wombat of {name}")
        assert set(found(ann, "wombat")) == {"memory://vault/ann", "stores:s/ann"}
        assert set(found(bob, "wombat")) == {"memory://vault/bob", "stores:s/bob"}
        assert found(narrow, "wombat") == ["stores:s/ann"]
        assert found(server, "wombat") == []
    assert (tmp_path / "recall.db").exists()
    assert len(list((tmp_path / "users").glob("*/recall.db"))) == 2
