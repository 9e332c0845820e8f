"""resources/list over the wire: pages are full, whichever families they come from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire import Stdio

KEYS, NAMESPACES, NOTES = 140, 30, 62
FIXED = {"memory://vault", "memory://recent", "ui://memory/viewer"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    running = Stdio.start(tmp_path_factory.mktemp("pages"), "--embedder", "none")
    for number in range(KEYS):
        running.call("commit_memory", scope="vault", key=f"key {number}", content="c")
    for number in range(NOTES):
        running.call("memory_create", content=f"note {number}", namespace=f"ns {number % NAMESPACES}")
    running.call("portal_write", portalUri="mem://work/facts", table="t", data=[{"a": 1}])
    yield running
    assert running.close() == 0


def pages(server: Stdio) -> list[list[str]]:
    found: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = server.ask("resources/list", cursor)["result"]
        found.append([resource["uri"] for resource in page["resources"]])
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


def test_each_resource_is_listed_once_on_full_pages(server: Stdio) -> None:
    found = pages(server)

    assert [len(page) for page in found[:-1]] == [100] * (len(found) - 1)
    listed = [uri for page in found for uri in page]
    assert len(listed) == len(set(listed)) == len(FIXED) + 1 + KEYS + NAMESPACES + NOTES + 1  # a session, a portal
    assert set(listed) > FIXED | {"mem://work/facts"}
    kinds = [sum(uri.startswith(f"memory://{kind}/") for uri in listed) for kind in ("vault", "namespace", "note")]
    assert kinds == [KEYS, NAMESPACES, NOTES]
    assert pages(server) == found  # the same cursors give the same pages


def test_one_page_shows_all_that_a_small_memory_has(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--embedder", "none")
    server.call("commit_memory", scope="vault", key="k", content="c")
    server.call("memory_create", content="n", namespace="work")
    [page] = pages(server)
    kinds = ["vault", "session", "vault", "recent", "namespace", "note"]
    assert [uri.removeprefix("memory://").split("/")[0] for uri in page[:-1]] == kinds
    assert page[-1] == "ui://memory/viewer"
    assert server.close() == 0


def test_a_family_that_cannot_be_listed_does_not_hide_those_before_it(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--embedder", "none")
    server.call("commit_memory", scope="vault", key="k", content="c")
    server.call("memory_create", content="n")
    (tmp_path / "notes.db").write_bytes(b"no database" * 1000)
    (tmp_path / "notes.db-wal").unlink(missing_ok=True)

    page = server.ask("resources/list")["result"]
    assert [resource["name"] for resource in page["resources"]] == ["vault", "session", "k"]
    following = server.ask("resources/list", {"cursor": page["nextCursor"]})
    assert following["error"]["data"]["error"] == "unavailable"
    server.close()
