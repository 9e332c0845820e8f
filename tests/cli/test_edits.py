"""memory-mcp list, edit and rm."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.command_server import command_on_path
from tests.processes import environment
from tests.terminal import Terminal
from tests.wire import Stdio

TEXT = "Aunt Berta keeps her savings\nin the blue teapot."
PLACES = {
    "vault": ["--key", "tea pot/ünïcode ☕", "--tags", "money"],
    "stores": ["--store", "diary", "--path", "days/the 1st of May"],
}
NEW = "Aunt Berta keeps her savings\nin the bank."


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def run(data_dir: Path, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    env = environment(MEMORY_MCP_EMBEDDER="none", **env)
    return processes.run(*arguments, "--data-dir", data_dir, env=env)


def done(data_dir: Path, *arguments: object, **env: str) -> Any:
    ran = run(data_dir, *arguments, "--json", **env)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def editor(tmp_path: Path, *lines: str) -> str:
    """An editor that runs these lines of Python on its file."""
    script = tmp_path / "editor.py"
    script.write_text(
        "\n".join(["import os, signal, sys", "from pathlib import Path", "file = Path(sys.argv[1])", *lines])
    )
    return f"'{sys.executable}' '{script}'"


def writing(tmp_path: Path, text: str) -> str:
    return editor(tmp_path, f"file.write_text({text!r})")


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A data directory, and the reference of a memory of each family that can be edited, by family."""
    data_dir = tmp_path_factory.mktemp("furnished")
    made = {
        "notes": done(data_dir, "add", TEXT, "--title", "Savings"),
        "vault": done(data_dir, "add", TEXT, "--family", "vault", *PLACES["vault"]),
        "stores": done(data_dir, "add", TEXT, "--family", "stores", *PLACES["stores"]),
    }
    server = Stdio.start(data_dir, "--embedder", "none")
    server.call("create_project", name="house")
    entities = [
        {"name": "tea pot/blue", "entity_type": "thing", "observations": [TEXT, "has: a lid"]},
        {"name": "Berta", "entity_type": "person", "observations": []},
    ]
    server.call("create_entities", project="house", entities=entities)
    relation = {"from": "Berta", "to": "tea pot/blue", "relationType": "owns"}
    server.call("create_relations", project="house", relations=[relation])
    assert server.close() == 0
    return data_dir, {name: one["ref"] for name, one in made.items()} | {"graph": "graph:house/tea%20pot%2Fblue"}


@pytest.fixture
def refs(furnished: tuple[Path, dict[str, str]], data_dir: Path) -> dict[str, str]:
    """Of memories in `data_dir`, by family."""
    folder, found = furnished
    shutil.copytree(folder, data_dir)
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """PATH with `memory-mcp`."""
    with command_on_path(tmp_path_factory.mktemp("bin")) as folder:
        yield f"{folder}:{os.environ['PATH']}"


def test_list_shows_everything_last_written_first(data_dir: Path, refs: dict[str, str]) -> None:
    listed = done(data_dir, "list")["memories"]
    assert {one["ref"] for one in listed} == {*refs.values(), "graph:house/Berta"}
    assert [one["updated_at"] for one in listed] == sorted((one["updated_at"] for one in listed), reverse=True)
    assert done(data_dir, "list", "--limit", "2")["memories"] == listed[:2]
    [note] = done(data_dir, "list", "notes")["memories"]
    assert (note["family"], note["ref"], note["title"]) == ("notes", refs["notes"], "Savings")
    for ref in (one["ref"] for one in listed):
        assert done(data_dir, "show", ref)
    printed = run(data_dir, "list", "notes").stdout
    assert refs["notes"] in printed
    assert "Savings" in printed
    assert run(data_dir, "list", "poems").returncode == 2


@pytest.mark.parametrize("family", ["notes", "vault", "stores"])
def test_an_edited_text_is_stored(tmp_path: Path, data_dir: Path, refs: dict[str, str], family: str) -> None:
    ref = refs[family]
    before = done(data_dir, "show", ref)
    seen = tmp_path / "seen"
    command = editor(
        tmp_path,
        f"Path({str(seen)!r}).write_text(repr((file.read_text(), file.stat().st_mode, file.parent.stat().st_mode)))",
        f"file.write_text({NEW + chr(10)!r})",  # editors end the last line
    )
    assert done(data_dir, "edit", ref, VISUAL=command, EDITOR="false") == {"ref": ref, "edited": True}
    assert run(data_dir, "show", ref).stdout == f"{NEW}\n"
    text, *modes = eval(seen.read_text())  # noqa: S307  # our own text
    assert (text, [stat.S_IMODE(mode) for mode in modes]) == (TEXT, [0o600, 0o700])
    assert not list((data_dir / "edits").iterdir())
    after = done(data_dir, "show", ref)
    for kept in ("title", "tags", "namespace", "created_at"):
        assert after.get(kept) == before.get(kept)


def test_the_observations_of_an_entity_are_edited_as_a_list(
    tmp_path: Path, data_dir: Path, refs: dict[str, str]
) -> None:
    ref = refs["graph"]
    command = editor(tmp_path, "text = file.read_text()", "file.write_text(text.replace('has: a lid', 'is round'))")
    assert done(data_dir, "edit", ref, EDITOR=command)["edited"]
    [entity] = done(data_dir, "show", ref)["entities"]
    assert sorted(entity["observations"]) == sorted([TEXT, "is round"])
    wrong = run(data_dir, "edit", ref, EDITOR=writing(tmp_path, "- 1: {"), VISUAL="")
    assert wrong.returncode == 1
    assert "YAML" in wrong.stderr
    assert kept_in(data_dir).read_text() == "- 1: {"


def kept_in(data_dir: Path) -> Path:
    [folder] = (data_dir / "edits").iterdir()
    [file] = folder.iterdir()
    return file


@pytest.mark.parametrize("lines", [[], ["file.write_text(file.read_text() + '\\n')"], ["file.unlink()"]])
def test_an_unchanged_text_changes_nothing(tmp_path: Path, data_dir: Path, lines: list[str]) -> None:
    ref = done(data_dir, "add", TEXT)["ref"]
    before = done(data_dir, "show", ref)
    assert done(data_dir, "edit", ref, EDITOR=editor(tmp_path, *lines), VISUAL="") == {"ref": ref, "unchanged": True}
    assert done(data_dir, "show", ref) == before
    assert not list((data_dir / "edits").iterdir())


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_an_emptied_text_is_refused(tmp_path: Path, data_dir: Path, refs: dict[str, str], text: str) -> None:
    for family, ref in refs.items():
        before = done(data_dir, "show", ref)
        refused = run(data_dir, "edit", ref, VISUAL=writing(tmp_path, text))
        assert refused.returncode == 1, family
        assert f"The text is empty. Nothing was stored. `memory-mcp rm {shlex.quote(ref)}" in refused.stderr
        assert done(data_dir, "show", ref) == before
    assert not list((data_dir / "edits").iterdir())


def test_edit_starts_an_editor_without_a_terminal_only_if_one_is_set(data_dir: Path) -> None:
    ref = done(data_dir, "add", TEXT)["ref"]
    refused = run(data_dir, "edit", ref, "--json", VISUAL="", EDITOR="")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "terminal" in json.loads(refused.stderr)["message"]


@pytest.mark.parametrize("family", ["notes", "vault", "stores", "graph"])
def test_an_edit_that_came_too_late_is_kept(
    tmp_path: Path, data_dir: Path, refs: dict[str, str], path: str, family: str
) -> None:
    """A second process stores another edit of the same memory while the editor is open."""
    ref = refs[family]
    first, second = ("- first", "- second") if family == "graph" else ("first", "second")
    other = tmp_path / "other.py"
    other.write_text(f"import sys; open(sys.argv[1], 'w').write({second!r})")
    edit = ["memory-mcp", "edit", ref, "--data-dir", str(data_dir)]
    slow = editor(
        tmp_path,
        "import subprocess",
        f"subprocess.run({edit!r}, env={{**os.environ, 'VISUAL': {f'{sys.executable} {other}'!r}}}, check=True)",
        f"file.write_text({first!r})",
    )
    late = run(data_dir, "edit", ref, "--json", VISUAL=slow, PATH=path)
    assert late.returncode == 1
    error = json.loads(late.stderr.splitlines()[-1])
    assert error["error"] == "changed"
    assert str(kept_in(data_dir)) in error["hint"]
    assert kept_in(data_dir).read_text() == first
    shown = run(data_dir, "show", ref).stdout
    assert "second" in shown
    assert "first" not in shown


def test_a_killed_editor_stores_nothing_and_loses_nothing(tmp_path: Path, data_dir: Path) -> None:
    ref = done(data_dir, "add", TEXT)["ref"]
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    killed = run(data_dir, "edit", ref, VISUAL=editor(tmp_path, f"file.write_text({NEW!r})", kill))
    assert killed.returncode == 1
    assert str(kept_in(data_dir)) in killed.stderr
    assert kept_in(data_dir).read_text() == NEW
    assert run(data_dir, "show", ref).stdout == f"{TEXT}\n"
    missing = run(data_dir, "edit", ref, VISUAL="/no/such/editor")
    assert missing.returncode == 1
    assert "EDITOR" in missing.stderr
    assert kept_in(data_dir).read_text() == NEW  # and no further file


@pytest.mark.parametrize("family", ["notes", "vault", "stores", "graph"])
def test_the_printed_command_undoes_a_deletion(data_dir: Path, refs: dict[str, str], path: str, family: str) -> None:
    ref = refs[family]
    before = done(data_dir, "show", ref)
    deleted = done(data_dir, "rm", ref, "--yes")
    assert deleted["ref"] == ref
    assert ref not in [one["ref"] for one in done(data_dir, "list")["memories"]]
    for copy in (data_dir / "removed").iterdir():
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    env = environment(MEMORY_MCP_EMBEDDER="none", PATH=path)
    undone = subprocess.run(["sh", "-c", deleted["undo"]], capture_output=True, text=True, env=env, check=False)
    assert undone.returncode == 0, undone.stderr
    after = done(data_dir, "show", ref)
    assert without_ids(after) == without_ids(before)
    assert not list((data_dir / "removed").iterdir())
    again = run(data_dir, "rm", ref, "--undo")
    assert again.returncode == 1
    assert "Traceback" not in again.stderr


def without_ids(shown: Any) -> Any:
    """Without what a restored memory has new."""
    new = {"id", "version", "created_at", "updated_at"} if "entities" in shown else {"version", "updated_at"}
    if isinstance(shown, dict):
        return {key: without_ids_of(value, new) for key, value in shown.items() if key not in new}
    return shown


def without_ids_of(value: Any, new: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without_ids_of(one, new) for key, one in value.items() if key not in new}
    return [without_ids_of(one, new) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("family", ["vault", "stores", "graph"])
def test_an_undo_overwrites_nothing_newer(data_dir: Path, refs: dict[str, str], family: str) -> None:
    ref = refs[family]
    done(data_dir, "rm", ref, "--yes")
    if family == "graph":
        server = Stdio.start(data_dir, "--embedder", "none")
        entity = {"name": "tea pot/blue", "entity_type": "newer", "observations": []}
        server.call("create_entities", project="house", entities=[entity])
        assert server.close() == 0
    else:
        done(data_dir, "add", "newer", "--family", family, *PLACES[family])
    refused = run(data_dir, "rm", ref, "--undo", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]) == (1, "conflict")
    assert list((data_dir / "removed").iterdir())


@pytest.mark.parametrize("family", ["notes", "vault"])
def test_for_good_keeps_no_copy(data_dir: Path, refs: dict[str, str], family: str) -> None:
    ref = refs[family]
    done(data_dir, "rm", ref, "--yes")
    if family == "vault":
        done(data_dir, "rm", ref, "--undo")
    assert done(data_dir, "rm", ref, "--yes", "--for-good")["undo"] is None
    assert run(data_dir, "show", ref).returncode == 1
    assert run(data_dir, "rm", ref, "--undo").returncode == 1
    assert not [path for path in data_dir.rglob("*.json") if "teapot" in path.read_text()]


def test_rm_requires_a_confirmation(data_dir: Path) -> None:
    ref = done(data_dir, "add", TEXT)["ref"]
    refused = run(data_dir, "rm", ref)
    assert refused.returncode == 1
    assert "--yes" in refused.stderr
    for answer, code in (("n\n", 1), ("y\n", 0)):
        terminal = Terminal("rm", ref, "--data-dir", data_dir)
        assert "Aunt Berta" in terminal.read_until("[y/N]")
        terminal.type(answer)
        ended, shown = terminal.finish()
        assert ended == code
        assert ("rm --undo" in shown) is (code == 0)
        assert done(data_dir, "show", ref)["archived"] is (code == 0)


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("memory://vault", 1),
        ("memory://recent", 1),
        ("stores:", 1),
        ("graph:house", 1),
        ("memory://vault/nothing", 1),
        ("memory://note/..%2f..", 1),
        ("mem://tests/talk/turns", 1),
        ("nonsense", 1),
        ("", 1),
    ],
)
@pytest.mark.usefixtures("refs")
def test_other_references_are_refused(data_dir: Path, ref: str, code: int) -> None:
    for arguments in (["edit", ref], ["rm", ref, "--yes"], ["rm", ref, "--undo"]):
        refused = run(data_dir, *arguments, "--json", EDITOR="false", VISUAL="")
        assert refused.returncode == code, arguments
        assert json.loads(refused.stderr)["error"]
    assert not (data_dir / "removed").exists()


def test_the_memories_of_other_users_are_not_reached(tmp_path: Path, data_dir: Path) -> None:
    done(data_dir, "users", "add", "zoe")
    source = tmp_path / "memory.jsonl"
    source.write_text('{"type": "entity", "name": "diary", "entityType": "thing", "observations": ["secret"]}\n')
    assert done(data_dir, "import", "server-memory", source, "--user", "zoe", "--project", "hers")["imported"]
    assert done(data_dir, "list")["memories"] == []
    for arguments in (["edit", "graph:hers/diary"], ["rm", "graph:hers/diary", "--yes"]):
        refused = run(data_dir, *arguments, "--json", VISUAL=writing(tmp_path, "- mine"))
        assert json.loads(refused.stderr)["error"] == "not_found"
        assert "secret" not in refused.stderr
