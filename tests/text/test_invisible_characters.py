"""What people do not see is shown to them and to models, and stored as it was given."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from memory_mcp.text.invisible_characters import _INVISIBLE, escape_in_json, show
from tests.processes import run

pytestmark = pytest.mark.anyio

_NO_FLAGS = re.compile("\U0001f3f4[\U000e0030-\U000e007a]+\U000e007f")  # _INVISIBLE finds them, too

HIDDEN = "a\u202eb\u200bc\x1b[31md\U000e0041e"
FLAG = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
LEFT_ALONE = f"❤️‍🔥 1️⃣ #️⃣ 葛\U000e0100 👩‍👩‍👧 می‌خواهم \u200fשלום\u200e {FLAG}\tx\n"


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
    for text in (one + other for one in every for other in ("", one)):
        assert (show(text) != text) is (_INVISIBLE.search(text) is not None), ascii(text)


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        (
            "\U0001f3f4\U000e0049\U000e0067\U000e006e",
            "\U0001f3f4<U+E0049><U+E0067><U+E006E>",
        ),
        ("\U0001f3f4" + "\U000e0061" * 9 + "\U000e007f", "\U0001f3f4" + "<U+E0061>" * 9 + "<U+E007F>"),
        ("😀\ufe01\ufe02\ufe0f", "😀\ufe01<U+FE02><U+FE0F>"),
        ("😀\U000e0158\U000e0159", "😀\U000e0158<U+E0159>"),
        ("a\ufe0fb", "a<U+FE0F>b"),
        ("x\u3164\uffa0y", "x<U+3164><U+FFA0>y"),
        ("one\u2028two\u2029", "one<U+2028>two<U+2029>"),
    ],
)
def test_bytes_are_not_carried_by_characters_without_a_width(hidden: str, shown: str) -> None:
    assert show(hidden) == shown
    text = json.dumps(hidden, ensure_ascii=False)
    assert json.loads(escape_in_json(text)) == hidden
    assert escape_in_json(text) != text


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


SMUGGLED = f"{HIDDEN} \U0001f3f4\U000e0049\U000e0067 x\U000e0158 \u3164"


def assert_nothing_is_hidden(texts: list[str], what: str) -> None:
    assert texts, what
    for text in texts:
        assert _INVISIBLE.search(_NO_FLAGS.sub("", text)) is None, (what, ascii(text))


async def store_everywhere(client: Client) -> str:
    """Returns the id of the note."""

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        found = await client.call_tool(tool, arguments)
        assert not found.is_error, found.content
        assert_nothing_is_hidden([one.text for one in found.content if isinstance(one, TextContent)], tool)
        return found.structured_content or {}

    await call("commit_memory", scope="vault", key="hidden", content=SMUGGLED)
    await call("commit_memory", scope="session", key="hidden", content=SMUGGLED)
    await call("add_memory", store="hidden", path="a/b", content=SMUGGLED)
    await call("create_project", name="hidden")
    entities = [{"name": "x", "entity_type": "y", "observations": [SMUGGLED]}, {"name": "z", "entity_type": "y"}]
    await call("create_entities", project="hidden", entities=entities)
    relation = {"from": "x", "to": "z", "relation_type": "sees"}
    await call("create_relations", project="hidden", relations=[relation])
    await call("portal_write", portalUri="mem://a/hidden", table="t", data=[{"text": SMUGGLED}])
    note = await call("memory_create", content=SMUGGLED, metadata={"a": SMUGGLED})
    for tool, arguments in {
        "search_memories": {"query": "a"},
        "get_memory": {"store": "hidden", "path": "a/b"},
        "list_memories": {"store": "hidden", "category": "a"},
        "cortex_get_recent_memories": {"store": "hidden"},
        "memory_search": {"query": "a"},
        "memory_get": {"id": note["id"]},
        "memory_recent": {},
        "read_graph": {"project": "hidden"},
        "search_nodes": {"project": "hidden", "query": "a"},
        "open_nodes": {"project": "hidden", "names": ["x"]},
        "portal_query": {"portalUri": "mem://a/hidden", "sql": "SELECT * FROM t"},
        "portal_view": {"portalUri": "mem://a/hidden"},
        "recall_memories": {"query": "31md"},
        "recall_open": {"ref": f"memory://note/{note['id']}"},
    }.items():
        await call(tool, **arguments)
    return str(note["id"])


async def test_no_answer_of_any_family_hides_what_was_stored(client: Client) -> None:
    """Tools, resources, prompts and lists. Programs get the exact text in the structured content."""
    note = await store_everywhere(client)
    listed = (await client.list_resources()).resources
    assert_nothing_is_hidden(
        [part for one in listed for part in (one.name, one.title or "", one.description or "")], ""
    )
    addresses = ["memory://vault", "memory://recent", "memory://namespace/default", "mem://a/hidden/t"]
    for address in [*(one.uri for one in listed if not one.uri.startswith("ui:")), *addresses]:
        contents = (await client.read_resource(address)).contents
        assert_nothing_is_hidden([one.text for one in contents if isinstance(one, TextResourceContents)], address)
    prompts = (await client.list_prompts()).prompts
    for prompt in prompts:
        given = {argument.name: note if "id" in argument.name else "a" for argument in prompt.arguments or ()}
        messages = (await client.get_prompt(prompt.name, given)).messages
        assert_nothing_is_hidden(
            [one.content.text for one in messages if isinstance(one.content, TextContent)], prompt.name
        )


async def test_no_error_hides_what_it_repeats(client: Client) -> None:
    await store_everywhere(client)
    refusals: dict[str, dict[str, Any]] = {
        "open_nodes": {"project": f"hidden{SMUGGLED}", "names": ["a"]},
        "delete_entities": {"project": f"hidden{SMUGGLED}", "entity_names": ["a"]},
        "memory_get": {"id": SMUGGLED},
        "portal_query": {"portalUri": "mem://a/hidden", "sql": f"SELECT '{SMUGGLED}' FROM none"},
        "recall_open": {"ref": SMUGGLED},
    }
    for tool, arguments in refusals.items():
        refused = await client.call_tool(tool, arguments)
        assert refused.is_error, tool
        assert_nothing_is_hidden([one.text for one in refused.content if isinstance(one, TextContent)], tool)
    for tool, arguments in {
        "get_memory": {"store": "hidden", "path": f"a/{SMUGGLED}"},
        "prune_memory": {"scope": "vault", "key": SMUGGLED},
    }.items():
        try:
            await client.call_tool(tool, arguments)
        except MCPError as exc:
            assert_nothing_is_hidden([exc.error.message], tool)
