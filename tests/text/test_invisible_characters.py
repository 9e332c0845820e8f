"""What people do not see is shown to them and to models, and stored as it was given."""

import json
from pathlib import Path

import pytest
from mcp import Client

from memory_mcp.text.invisible_characters import _INVISIBLE, escape_in_json, show
from tests.processes import run

pytestmark = pytest.mark.anyio

HIDDEN = "a\u202eb\u200bc\x1b[31md\U000e0041e"
LEFT_ALONE = "👩‍👩‍👧 می‌خواهم \u200fשלום\u200e 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f\tx\n"


def test_each_is_named_and_texts_that_need_them_are_left_alone() -> None:
    assert show(HIDDEN) == "a<U+202E>b<U+200B>c<U+001B>[31md<U+E0041>e"
    assert show(LEFT_ALONE) == LEFT_ALONE


def test_json_reads_as_the_same_value() -> None:
    text = json.dumps([HIDDEN, LEFT_ALONE], ensure_ascii=False)
    assert "\\u202e" in escape_in_json(text)
    assert not set(escape_in_json(text)) & {"\u202e", "\u200b", "\x1b", "\U000e0041"}
    assert json.loads(escape_in_json(text)) == [HIDDEN, LEFT_ALONE]


def test_a_text_without_line_breaks_hides_none() -> None:
    """Whichever character it is: those that Python prints are not looked for."""
    every = [chr(number) for number in range(0x110000) if not 0xD800 <= number <= 0xDFFF]
    assert {one for one in every if _INVISIBLE.fullmatch(one)} <= {one for one in every if not one.isprintable()}
    assert all(show(one) != one for one in every if _INVISIBLE.fullmatch(one))


async def test_a_model_reads_them_and_a_program_gets_them_unchanged(client: Client) -> None:
    note = await client.call_tool("memory_create", {"content": HIDDEN})
    assert note.structured_content is not None
    found = await client.call_tool("memory_get", {"id": note.structured_content["id"]})
    assert found.structured_content is not None
    assert found.structured_content["content"] == HIDDEN
    shown = found.content[0].text  # type: ignore[union-attr]  # it is text
    assert "a\\u202eb\\u200bc\\u001b[31md\\udb40\\udc41e" in shown
    assert json.loads(shown) == found.structured_content


async def test_a_terminal_gets_no_command_from_a_memory(tmp_path: Path) -> None:
    run("add", HIDDEN, "--data-dir", tmp_path / "data", check=True)
    for verb in (["list"], ["search", "a"], ["list", "--json"]):
        printed = run(*verb, "--data-dir", tmp_path / "data", check=True).stdout
        assert "U+202E" in printed or "\\u202e" in printed
        assert not set(printed) & {"\x1b", "\u202e"}
