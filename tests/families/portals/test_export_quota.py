"""Exports are files on the server's disk: what a user's take up together, how long they stay, who may write where."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, Caller, Scope
from memory_mcp.errors import Forbidden, Invalid
from memory_mcp.families.portals import exports
from memory_mcp.families.portals.exports import DAY_S
from tests.clickhouse import FILES_ONLY
from tests.families.portals.calls import CALLER, PORTAL, put
from tests.wire import Stdio

QUOTA = 3_000_000
FAMILIES = frozenset({"portals"})
READER = Caller("local", frozenset({Scope.READ}), FAMILIES)
OTHER = Caller("other", ALL_SCOPES, FAMILIES)


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("more")


@pytest.fixture(scope="module")
def options(more: Path) -> dict[str, Any]:
    return {"families": "portals", "export_quota": QUOTA, "export_dirs": str(more)}


@pytest.fixture(scope="module", autouse=True)
def filled(app: App) -> None:
    put(app, "t", [{"n": 1}])
    app.portals.write(OTHER, PORTAL, "t", [{"n": 1}])


@pytest.fixture(autouse=True)
def emptied(data_dir: Path) -> Iterator[None]:
    yield
    for folder in (data_dir, data_dir / "users" / "other"):
        for path in sorted((folder / "exports").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


def export(app: App, name: str, megabytes: int, caller: Caller = READER, format_: Any = "csv") -> int:
    query = f"SELECT randomPrintableASCII(1000) AS t FROM numbers({megabytes * 1000})"
    return app.portals.exports.export_file(caller, PORTAL, name, format_, None, query, lambda *progress: None).bytes


def stored(data_dir: Path) -> int:
    return sum(path.stat().st_size for path in (data_dir / "exports").rglob("*") if path.is_file())


def unfinished(data_dir: Path) -> list[Path]:
    return list((data_dir / "portals" / "tests" / "shared" / "staging").iterdir())


def test_a_read_only_caller_cannot_fill_the_disk(app: App, data_dir: Path) -> None:
    for number in range(2):
        export(app, f"{number}.csv", 1)
    with pytest.raises(Invalid) as caught:
        export(app, "2.csv", 1)
    assert caught.value.code == "too_large"
    (data_dir / "exports" / "0.csv").write_bytes(bytes(QUOTA))
    with pytest.raises(Invalid) as caught:  # nothing is left: the engine is not asked
        export(app, "none.csv", 0)
    assert (caught.value.code, caught.value.data) == ("too_large", {"field": "destination", "quota": QUOTA})
    assert str(data_dir) not in caught.value.message
    assert sorted(path.name for path in (data_dir / "exports").iterdir()) == ["0.csv", "1.csv"]
    assert unfinished(data_dir) == []
    (data_dir / "exports" / "0.csv").unlink()
    export(app, "2.csv", 1)


def test_a_file_that_grows_beyond_what_the_engine_counts_is_stopped(app: App, data_dir: Path) -> None:
    """In JSON every record repeats the names of its columns."""
    query = f"SELECT number AS {'x' * 4000} FROM numbers(300000)"
    with pytest.raises(Invalid) as caught:
        app.portals.exports.export_file(READER, PORTAL, "long.json", "json", None, query, lambda *progress: None)
    assert caught.value.code == "too_large"
    assert not (data_dir / "exports" / "long.json").exists()
    assert stored(data_dir) == 0


@pytest.mark.parametrize("table", ["t", None])
def test_an_export_that_the_rest_of_the_quota_is_too_small_for_names_the_quota(
    app: App, data_dir: Path, table: str | None
) -> None:
    (data_dir / "exports").mkdir(exist_ok=True)
    (data_dir / "exports" / "full").write_bytes(bytes(QUOTA - 5000))
    with pytest.raises(Invalid, match=f"more than {QUOTA} bytes.*delete files in the folder 'exports'") as caught:
        if table is None:
            export(app, "x.csv", 1)
        else:
            put(app, "large", [{"t": "x" * 10_000}])
            app.portals.exports.export_file(READER, PORTAL, "x.csv", "csv", "large", None, lambda *progress: None)
    assert (caught.value.code, caught.value.data) == ("too_large", {"field": "destination", "quota": QUOTA})


def test_an_export_that_is_too_large_for_any_quota_names_the_query(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.portals.exports, "_max_export_bytes", 500_000)
    with pytest.raises(Invalid, match=r"^query: this reads or gives too much") as caught:
        export(app, "x.csv", 1)
    assert (caught.value.code, caught.value.data) == ("too_large", {"field": "query"})


@FILES_ONLY
def test_a_whole_portal_counts_too(app: App, data_dir: Path) -> None:
    (data_dir / "exports").mkdir(exist_ok=True)
    (data_dir / "exports" / "full").write_bytes(bytes(QUOTA - 5000))
    with pytest.raises(Invalid) as caught:
        app.portals.exports.export_file(READER, PORTAL, "x.db", "db", None, None, lambda *progress: None)
    assert (caught.value.code, caught.value.data) == ("too_large", {"field": "destination", "quota": QUOTA})
    assert unfinished(data_dir) == []


def test_there_are_only_so_many_files_and_folders(app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_ENTRIES", 10)
    with pytest.raises(Invalid) as caught:
        export(app, "/".join("abcdefghij") + "/x.csv", 0)
    assert caught.value.code == "too_large"
    assert list((data_dir / "exports").iterdir()) == []
    export(app, "a/x.csv", 0)


def test_other_folders_need_the_scope_to_write(app: App, more: Path) -> None:
    with pytest.raises(Forbidden) as caught:
        export(app, str(more / "x.csv"), 0)
    assert caught.value.data == {"scope": "write_memory"}
    assert list(more.iterdir()) == []
    for number in range(2):  # no quota there: it is the local user's own folder
        export(app, str(more / f"{number}.csv"), 2, CALLER)


def test_files_of_further_users_expire_and_those_of_the_local_user_stay(app: App, data_dir: Path) -> None:
    for caller in (OTHER, CALLER):
        export(app, "deep/old.csv", 0, caller)
        export(app, "new.csv", 0, caller)
        export(app, "downloads/x.csv", 0, caller)
    folders = [data_dir / "exports", data_dir / "users" / "other" / "exports"]
    old = time.time() - 8 * DAY_S
    for folder in folders:
        for path in (folder / "deep" / "old.csv", folder / "deep", folder / "downloads" / "x.csv"):
            os.utime(path, (old, old))
    app.portals.exports.delete_expired_exports()
    app.portals.exports.delete_expired_exports()  # a folder has just been changed when its last file goes
    left = [{path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} for folder in folders]
    assert left == [{"deep/old.csv", "new.csv"}, {"new.csv"}]


def test_the_quota_holds_for_many_at_once_in_two_servers(tmp_path: Path) -> None:
    flags = ("--families", "portals", "--embedder", "none", "--export-quota", str(QUOTA))
    servers = [Stdio.start(tmp_path, *flags) for _ in range(2)]
    try:
        servers[0].call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
        query = "SELECT randomPrintableASCII(1000) AS t FROM numbers(900)"

        def export_some(server: Stdio, name: str) -> list[bool]:
            common = {"portalUri": PORTAL, "format": "csv", "query": query}
            for number in range(6):
                arguments = {**common, "destination": f"{name}{number}.csv"}
                server.post("tools/call", {"name": "portal_export", "arguments": arguments})
            answers: list[bool] = []
            while len(answers) < 6:
                if "id" in (message := server.receive()):
                    answers.append(bool(message["result"].get("isError")))
            return answers

        with ThreadPoolExecutor() as threads:
            outcomes = [one for some in threads.map(export_some, servers, ("a", "b")) for one in some]
        assert 1 <= outcomes.count(False) <= 3
        assert len(list((tmp_path / "exports").iterdir())) == outcomes.count(False)
        assert stored(tmp_path) <= QUOTA
    finally:
        for server in servers:
            server.kill()
