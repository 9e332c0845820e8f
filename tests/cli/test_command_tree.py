"""All verbs, by walking the tree of commands: every one has JSON for programs, also for errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from memory_mcp.cli import command_line
from memory_mcp.cli.main import cli
from tests.exhaustive import sample

SERVING = {"serve", "hub"}  # they print no data: their options are the settings
MORE = {"add": ["x"], "connect": ["x"], "hook": ["--explain"], "models pull": ["--from", "missing.whl"]}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(path), command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


VERBS = dict(commands(typer.main.get_command(cli)))


def required(verb: str) -> list[str]:
    """A value for each argument and option that the verb requires."""
    words: list[str] = []
    for parameter in VERBS[verb].params:
        if parameter.required:
            is_option = parameter.param_type_name == "option"
            words += [parameter.opts[0], "x"] if is_option else ["x"]
    return words


def options(verb: str) -> set[str]:
    return {option for parameter in VERBS[verb].params for option in parameter.opts}


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, dict[str, str]]:
    """The exit code and the error, which is alone on stderr."""
    with pytest.raises(SystemExit) as ended:
        command_line([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert out == ""
    return ended.value.code, json.loads(err)


def help_of(capsys: pytest.CaptureFixture[str], verb: str) -> str:
    with pytest.raises(SystemExit) as ended:
        command_line([*verb.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - SERVING))
def test_every_verb_takes_json_and_prints_errors_as_json(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "true")
    code, error = failure(capsys, *verb.split(), "--bogus")
    assert (code, error["error"]) == (2, "invalid")
    assert "--bogus" in error["message"]
    if verb == "config":  # its options are the settings
        return
    assert "--json" in options(verb)
    if "--data-dir" in options(verb):
        (tmp_path / "file").write_text("")
        arguments = [*verb.split(), *required(verb), *MORE.get(verb, []), "--data-dir", "file"]
        code, error = failure(capsys, *arguments)
        assert code in (1, 2)
        assert error.keys() - {"hint"} == {"error", "message"}
        assert error["message"]
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("columns", [40, 80])
def test_help_cuts_nothing_at_a_narrow_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option stands on one line, and all lines fit. What fits into 40 columns hardly fails to fit into 80."""
    monkeypatch.setenv("COLUMNS", str(columns))
    groups = {verb.split()[0] for verb in VERBS if " " in verb}
    for verb in ("", *groups, *(VERBS if columns == 40 else sample(sorted(VERBS), every=8))):
        shown = help_of(capsys, verb)
        assert "…" not in shown, verb
        assert max(map(len, shown.splitlines())) <= columns, verb
        names = {name for name in options(verb) if name.startswith("-")} if verb in VERBS else {"--help"}
        assert names <= set(shown.replace(",", " ").split()), verb
    assert {"--import-expanded-bytes", "--forwarded-allow-ips"} <= set(help_of(capsys, "serve").split())


@pytest.mark.parametrize("arguments", [["serach", "x"], ["keys"], ["keys", "lits"], []])
def test_an_unknown_verb_is_reported_as_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, error = failure(capsys, *arguments)
    assert (code, error["error"]) == (2, "invalid")
    assert error["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--limit", "x"], "Invalid value for '--limit': give a whole number, not \"x\"."),
        (["users", "plan", "a", "b"], "Invalid value for 'PLAN': 'b' is not one of 'community', "),
    ],
)
def test_a_wrong_value_is_answered_with_what_to_give(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = failure(capsys, *arguments)
    assert code == 2
    assert error["message"].startswith(message)
