"""memory-mcp stores add|list|remove, and stores over HTTP."""

import io
import json
import os
import stat
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, Caller
from memory_mcp.cli import command_line
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.errors import NotFound, Unavailable
from memory_mcp.families.stores.model import Metadata
from memory_mcp.progress import report_nothing
from tests import processes
from tests.families.stores.calls import CALLER, register, tree, write
from tests.processes import environment
from tests.wire import http_server


def process(*arguments: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    return processes.run(*arguments, "--data-dir", data_dir, env=environment(COLUMNS="200"))


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str, data_dir: Path) -> Done:
    """The same without a process of its own, which takes a second to start."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment(COLUMNS="200"), clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            command_line([*arguments, "--data-dir", str(data_dir)])
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 0
    return Done(code, out.getvalue(), err.getvalue())


def answer(*arguments: str, data_dir: Path) -> Any:
    done = run(*arguments, "--json", data_dir=data_dir)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_folder_is_registered_listed_and_unregistered_and_stays_as_it_is(tmp_path: Path, elsewhere: Path) -> None:
    write(elsewhere, "a.md")
    before = tree(elsewhere)
    assert answer("stores", "list", data_dir=tmp_path) == {"stores": []}
    assert "no stores yet" in run("stores", "list", data_dir=tmp_path).stdout

    here = {"name": "vault", "path": str(elsewhere)}
    assert answer("stores", "add", "vault", str(elsewhere), data_dir=tmp_path) == here
    assert answer("stores", "list", data_dir=tmp_path) == {"stores": [here]}
    shown = run("stores", "list", data_dir=tmp_path).stdout
    assert "vault" in shown
    assert str(elsewhere) in shown
    assert answer("stores", "remove", "vault", data_dir=tmp_path) == here
    assert answer("stores", "list", data_dir=tmp_path) == {"stores": []}
    assert tree(elsewhere) == before


def test_it_prints_its_result_as_a_sentence(tmp_path: Path, elsewhere: Path) -> None:
    added = process("stores", "add", "vault", str(elsewhere), data_dir=tmp_path)
    assert (added.returncode, added.stdout) == (0, f"vault is registered: {elsewhere}\n")
    removed = run("stores", "remove", "vault", data_dir=tmp_path)
    assert (removed.returncode, removed.stderr) == (0, "")
    assert "files stay" in removed.stdout


def test_a_relative_path_starts_at_the_current_folder(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "notes").mkdir()
    monkeypatch.chdir(elsewhere)
    assert run("stores", "add", "n", "notes", data_dir=tmp_path).returncode == 0
    [store] = answer("stores", "list", data_dir=tmp_path)["stores"]
    assert store == {"name": "n", "path": str(elsewhere / "notes")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "new", "{folder}/none"], "is not a folder"),
        (["add", "new", "{folder}/file"], "is not a folder"),
        (["add", "taken", "{folder}"], "already"),
        (["add", "Taken", "{folder}"], "already"),
        (["add", "no/slash", "{folder}"], "store"),
        (["add", "..", "{folder}"], "store"),
        (["add", "con", "{folder}"], "store"),
        (["remove", "none"], "not registered"),
    ],
)
def test_a_refusal_exits_with_one_and_says_why(
    tmp_path: Path, elsewhere: Path, arguments: list[str], message: str
) -> None:
    write(elsewhere, "file", "x")
    run("stores", "add", "taken", str(elsewhere), data_dir=tmp_path)
    before = (tmp_path / "stores.yaml").read_text(), tree(elsewhere)
    done = run("stores", *(one.format(folder=elsewhere) for one in arguments), data_dir=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("memory-mcp: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert ((tmp_path / "stores.yaml").read_text(), tree(elsewhere)) == before


@pytest.mark.parametrize("arguments", [[], ["add"], ["add", "a"], ["remove"], ["list", "x"], ["bogus"]])
def test_bad_usage_leaves_with_two(tmp_path: Path, arguments: list[str]) -> None:
    assert run("stores", *arguments, data_dir=tmp_path).returncode == 2


def test_one_folder_under_two_names_is_one_folder(app: App, elsewhere: Path) -> None:
    stores = app.stores
    register(app, elsewhere, "one")
    register(app, elsewhere, "two")
    stores.add(CALLER, "one", "a", "by one", Metadata())
    assert stores.get(CALLER, "two", "a", include_expired=False).content == "by one"
    stores.unregister(CALLER, "one")
    assert [one.path for one in stores.recent(CALLER, "two", None, 5, include_expired=False).memories] == ["a"]
    with pytest.raises(NotFound):
        stores.get(CALLER, "one", "a", include_expired=False)
    assert (elsewhere / "a.md").is_file()


def test_a_store_that_agents_made_keeps_its_files_when_it_is_unregistered(app: App, tmp_path: Path) -> None:
    app.stores.add(CALLER, "s", "a", "c", Metadata())
    app.stores.unregister(CALLER, "s")
    assert (tmp_path / "stores" / "s" / "a.md").is_file()
    app.stores.add(CALLER, "s", "b", "c", Metadata())
    assert len(app.stores.list_category(CALLER, "s", None, 0, include_expired=False).memories) == 2


def test_a_registry_edited_by_hand_keeps_its_lines(app: App, tmp_path: Path, elsewhere: Path) -> None:
    by_hand = f'# mine\n2026: "{elsewhere}" # this year\ntrue:   {elsewhere}\nnull: {elsewhere}\n'
    (tmp_path / "stores.yaml").write_text(by_hand)
    assert [store.name for store in app.stores.all(CALLER)] == ["2026", "null", "true"]
    register(app, elsewhere, "1.0")
    assert (tmp_path / "stores.yaml").read_text() == f"{by_hand}'1.0': {elsewhere}\n"
    for name in ("2026", "true", "null", "1.0"):
        app.stores.unregister(CALLER, name)
    assert (tmp_path / "stores.yaml").read_text() == "# mine\n"
    assert app.stores.all(CALLER) == []


def test_a_home_folder_may_be_abbreviated(
    app: App, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(elsewhere))
    write(elsewhere, "notes/a.md", "at home")
    (tmp_path / "stores.yaml").write_text("n: ~/notes\n")
    assert app.stores.get(CALLER, "n", "a", include_expired=False).content == "at home"


@pytest.mark.parametrize("broken", ["[", "- a\n", "words", "\x00", "[" * 100_000])
def test_a_registry_that_is_broken_is_explained_and_kept(tmp_path: Path, elsewhere: Path, broken: str) -> None:
    (tmp_path / "stores.yaml").write_text(broken)
    for arguments in (["list"], ["add", "x", str(elsewhere)]):
        done = (process if len(broken) > 100 else run)("stores", *arguments, data_dir=tmp_path)
        assert done.returncode == 1
        assert "stores.yaml" in done.stderr
    assert (tmp_path / "stores.yaml").read_text() == broken


def test_a_name_with_a_hidden_character_is_shown_escaped_and_hides_no_other_store(
    tmp_path: Path, elsewhere: Path
) -> None:
    (tmp_path / "stores.yaml").write_text(f"good: {elsewhere}\nab\u202ecd: {elsewhere}\n", encoding="utf-8")
    shown = process("stores", "list", "--json", data_dir=tmp_path)
    assert json.loads(shown.stdout) == {"stores": [{"name": "good", "path": str(elsewhere)}]}
    assert "ab\\u202ecd" in shown.stderr.replace("\\\\", "\\")
    assert "U+202E" in shown.stderr
    for done in (shown, process("doctor", "--json", data_dir=tmp_path)):
        assert "\u202e" not in done.stdout + done.stderr


@pytest.mark.parametrize("bad", ["~nobodyhere/x", "", "''", "[b]", "{b: c}"])
def test_a_line_that_names_no_folder_is_named_and_hides_no_other_store(
    tmp_path: Path, elsewhere: Path, app: App, bad: str
) -> None:
    (tmp_path / "stores.yaml").write_text(f"good: {elsewhere}\nodd: {bad}\n")
    shown = process("stores", "list", "--json", data_dir=tmp_path)
    assert shown.returncode == 0
    assert json.loads(shown.stdout) == {"stores": [{"name": "good", "path": str(elsewhere)}]}
    assert "'odd' in stores.yaml" in shown.stderr
    for act in (
        lambda: app.stores.add(CALLER, "odd", "a", "c", Metadata()),
        lambda: app.stores.list_category(CALLER, "odd", None, 0, include_expired=False),
    ):
        with pytest.raises(Unavailable, match=r"'odd' in stores\.yaml"):
            act()
    app.stores.add(CALLER, "good", "a", "c", Metadata())
    register(app, elsewhere, "more")
    assert f"odd: {bad}\n" in (tmp_path / "stores.yaml").read_text()


@pytest.mark.parametrize("of_data", [0o700, 0o755])
def test_a_store_that_agents_made_is_for_its_owner_alone(app: App, tmp_path: Path, of_data: int) -> None:
    tmp_path.chmod(of_data)
    synced: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderEntry, "sync_folder", lambda place: synced.append(place.name))
        app.stores.add(CALLER, "s", "a", "c", Metadata())
    for folder in (tmp_path / "stores", tmp_path / "stores" / "s"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"stores", "s"} <= set(synced)


def test_the_folder_of_stores_may_be_a_symlink(app: App, tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "stores").symlink_to(elsewhere)
    app.stores.add(CALLER, "s", "a", "c", Metadata())
    assert (elsewhere / "s" / "a.md").is_file()


def test_a_store_with_a_relative_path_in_the_registry_is_not_ours(app: App, tmp_path: Path, elsewhere: Path) -> None:
    write(elsewhere, "a.md")
    (tmp_path / "stores.yaml").write_text(f"s: {os.path.relpath(elsewhere, tmp_path)}\n")
    before = tree(elsewhere)
    app.stores.list_category(CALLER, "s", None, 0, include_expired=False)
    assert tree(elsewhere) == before


def test_a_registered_folder_that_is_gone_is_explained_and_not_recreated(app: App, elsewhere: Path) -> None:
    folder = elsewhere / "drive"
    folder.mkdir()
    register(app, folder)
    folder.rmdir()
    for act in (
        lambda: app.stores.add(CALLER, "s", "a", "c", Metadata()),
        lambda: app.stores.get(CALLER, "s", "a", include_expired=False),
        lambda: app.stores.list_category(CALLER, "s", None, 0, include_expired=False),
        lambda: app.stores.recent(CALLER, "s", None, 5, include_expired=False),
        lambda: app.stores.prune(CALLER, "s"),
        lambda: app.stores.reindex(CALLER, "s", report_nothing),
    ):
        with pytest.raises(Unavailable, match="is not there") as raised:
            act()
        assert str(folder) not in raised.value.message
    assert not folder.exists()


# Over HTTP, and for several users


def test_stores_work_over_http_in_both_eras(tmp_path: Path, elsewhere: Path) -> None:
    write(elsewhere, "old.md", "by hand")
    run("stores", "add", "mine", str(elsewhere), data_dir=tmp_path)
    with http_server(tmp_path, "--families", "stores") as server:
        added = server.modern_call("add_memory", store="mine", path="a/new", content="over the wire")
        assert added == {"store": "mine", "path": "a/new", "created": True}
        session = server.handshake()
        arguments = {"store": "mine", "path": "a/new"}
        got = server.legacy(session, "tools/call", {"name": "get_memory", "arguments": arguments})
        assert got["result"]["structuredContent"]["content"] == "over the wire"
        error = server.modern("tools/call", {"name": "get_memory", "arguments": {"store": "x", "path": "a"}})["error"]
        assert (error["code"], error["data"]["error"]) == (-32602, "store_not_registered")
        refused = server.modern("tools/call", {"name": "get_memory", "arguments": {"store": "mine", "path": "../a"}})
        assert refused["error"]["data"] == {"error": "invalid", "field": "path"}

        key = answer("keys", "create", "--name", "reader", "--scopes", "read-only", data_dir=tmp_path)["key"]
        reader = replace(server, key=key)
        assert len(reader.modern_call("cortex_get_recent_memories", store="mine")["memories"]) == 2
        denied = reader.modern("tools/call", {"name": "remove_memory", "arguments": arguments})["error"]
        assert denied["data"] == {"error": "scope_required", "scope": "delete_memory"}


def test_two_users_have_stores_of_their_own(app: App, tmp_path: Path) -> None:
    other = Caller("other", ALL_SCOPES, frozenset({"stores"}))
    app.stores.add(CALLER, "s", "mine", "c", Metadata())
    with pytest.raises(NotFound) as refused:
        app.stores.get(other, "s", "mine", include_expired=False)
    assert refused.value.code == "store_not_registered"
    app.stores.add(other, "s", "theirs", "c", Metadata())
    assert (tmp_path / "users" / "other" / "stores" / "s" / "theirs.md").is_file()
    for caller, path in ((CALLER, "mine"), (other, "theirs")):
        found = app.stores.recent(caller, "s", None, 5, include_expired=False)
        assert [one.path for one in found.memories] == [path]
