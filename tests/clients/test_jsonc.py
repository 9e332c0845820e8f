"""JSON with comments, changed in place: only our characters change."""

import difflib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.clients import jsonc
from memory_mcp.clients.jsonc import MalformedFile

PATH = ("mcpServers", "memory")
OURS = {"command": "memory-mcp", "args": ["--data-dir", "/somewhere"]}
ZED = """// Zed settings
//
// For information on how to configure Zed, see the Zed
// documentation: https://zed.dev/docs/configuring-zed
{
  "theme": "One Dark", // the good one
  /* "vim_mode": true, */
  "mcpServers": {
    // mine: "} // not the end"
    "files": {
      "command": "npx", // a comment
      "args": ["-y", "a // b", "c \\" /* d */",],
    },
  },
  "buffer_font_size": 15,
}
"""


def test_a_settings_file_full_of_comments_gets_nothing_but_our_lines() -> None:
    new = jsonc.put(ZED, PATH, OURS)
    assert not [line for line in difflib.ndiff(ZED.splitlines(), new.splitlines()) if line.startswith("-")]
    assert jsonc.value(new) == jsonc.value(ZED) | {
        "mcpServers": jsonc.value(ZED)["mcpServers"] | {"memory": OURS},
    }
    assert '    "memory": {\n      "command": "memory-mcp",\n' in new
    assert jsonc.remove(new, PATH) == ZED


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "mcpServers": {\n    "other": {}\n  }\n}\n',
        '{\n  "mcpServers": {\n    "other": {} // the last\n  }\n}\n',
        '{\n  "mcpServers": {\n    "other": {}, /* and */ // the last\n  },\n}',
        '{\r\n\t"mcpServers": {\r\n\t\t"other": {"a": 1}\r\n\t}\r\n}\r\n',
        '{"mcpServers": {}}',
        '{"mcpServers": {"other": {"command": "x"}}, "a": [1, 2]}',
        '{"a":1,"mcpServers":{"other":{"command":"x"}}}\n',
        '{\n    "mcpServers": {\n        // nothing yet\n    }\n}',
        '/* head */ {"mcpServers": {"other": {}}} // tail',
        '{\n  "mcpServers":\n  {\n    "other": {}\n  }\n}\n',
    ],
)
def test_remove_undoes_put_to_the_byte(text: str) -> None:
    new = jsonc.put(text, PATH, OURS)
    assert jsonc.value(new)["mcpServers"]["memory"] == OURS
    assert ("\r\n" in new) == ("\r\n" in text)
    assert not re.search(r"(?<!\r)\n", new) or "\r\n" not in text
    assert jsonc.remove(new, PATH) == text


@pytest.mark.parametrize("text", ["", "  \n", "{}", "{}\n", "// only a comment\n", "{ // empty\n}", '{"a": 1}'])
def test_missing_sections_are_added(text: str) -> None:
    new = jsonc.put(text, PATH, OURS)
    assert jsonc.value(new) == jsonc.value(text) | {"mcpServers": {"memory": OURS}}
    assert text.strip("{} \n") in new
    assert jsonc.value(jsonc.remove(new, ("mcpServers",))) == jsonc.value(text)


@pytest.mark.parametrize("place", ["first", "middle", "last", "only"])
@pytest.mark.parametrize("layout", ["lines", "one line", "trailing comma"])
def test_an_entry_is_removed_at_any_position(place: str, layout: str) -> None:
    others = {"first": ["b", "c"], "middle": ["a", "c"], "last": ["a", "b"], "only": []}[place]
    names = sorted([*others, {"first": "a", "middle": "b", "last": "c", "only": "a"}[place]])
    [ours] = set(names) - set(others)
    servers = {name: {"command": name} for name in names}
    text = json.dumps({"mcpServers": servers, "z": 1}, indent=None if layout == "one line" else 4)
    if layout == "trailing comma":
        text = text.replace("}\n    },", "},\n    },")
    left = jsonc.remove(text, ("mcpServers", ours))
    assert jsonc.value(left) == {"mcpServers": {name: servers[name] for name in others}, "z": 1}
    assert "  \n" not in left


def test_removing_a_missing_entry_changes_nothing() -> None:
    for text in ("", "{}", '{"mcpServers": {"other": {}}}'):
        assert jsonc.remove(text, PATH) == text


def test_a_value_is_replaced_in_place() -> None:
    text = '{\n  "mcpServers": {\n    // ours\n    "memory": {"command": "old"}, // yes\n    "z": {}\n  }\n}'
    new = jsonc.put(text, (*PATH, "command"), "new")
    assert new == text.replace('"old"', '"new"')


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '{"a": }', '{"a": 1 "b": 2}', "{'a': 1}", "{,}", '{"a": 1} {"b": 2}', "/* open", "[" * 100_000],
)
def test_malformed_texts_are_refused(text: str) -> None:
    with pytest.raises(MalformedFile):
        jsonc.value(text)


@pytest.mark.parametrize("servers", ["[]", "null", '"x"', "1"])
def test_a_section_of_another_kind_is_not_overwritten(servers: str) -> None:
    with pytest.raises(MalformedFile, match="mcpServers"):
        jsonc.put(f'{{"mcpServers": {servers}}}', PATH, OURS)


_names = st.text(max_size=5) | st.sampled_from(["memory", "mcpServers", "//", '"', "/*", "\\", "}", ","])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def _documents(draw: Any) -> tuple[str, dict[str, Any]]:
    parsed = draw(st.dictionaries(_names, _values, max_size=3))
    if draw(st.booleans()):
        parsed["mcpServers"] = draw(st.dictionaries(_names, _values, max_size=3))
    else:
        parsed.pop("mcpServers", None)
    text = json.dumps(parsed, indent=draw(st.sampled_from([None, 2, "\t"])), ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = re.sub(r"(?<=[\]}0-9a-z\"])\n(?=[ \t]*[}\]])", ", // trailing\n", text)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", " /* c */\n", " // c\n"]))), parsed


@given(_documents())
def test_all_other_values_stay(document: tuple[str, dict[str, Any]]) -> None:
    text, parsed = document
    assert jsonc.value(text) == parsed
    new = jsonc.put(text, PATH, OURS)
    assert jsonc.value(new) == parsed | {"mcpServers": parsed.get("mcpServers", {}) | {"memory": OURS}}
    for comment in ("// c", "/* c */", "// trailing"):
        assert "memory" in parsed.get("mcpServers", {}) or new.count(comment) >= text.count(comment)
    left = {name: entry for name, entry in parsed.get("mcpServers", {}).items() if name != "memory"}
    assert jsonc.value(jsonc.remove(new, PATH)) == parsed | {"mcpServers": left}
