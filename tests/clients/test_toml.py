"""TOML, changed in place."""

import pytest

from memory_mcp.clients import toml
from memory_mcp.clients.jsonc import MalformedFile

PATH = ("mcp_servers", "memory")
OURS = {"url": "http://127.0.0.1:8765/mcp", "http_headers": {"Authorization": "Bearer x"}}
CODEX = """# Codex, as I like it
model = "gpt-5" # for now

[mcp_servers.files]
command = "npx"
args = [
    "-y", # always
    "server-files",
]

[projects."/home/me/work"]
trust_level = "trusted"
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        CODEX,
        CODEX.replace("\n", "\r\n"),
        "[mcp_servers]\n",
        'mcp_servers = { files = {command="npx"} }\n',
        'mcp_servers.files.command = "npx"\n',
        '[mcp_servers.a]\ncommand="x"\n[z]\n[mcp_servers.b]\ncommand="q" # y\n',
    ],
)
def test_remove_undoes_put_to_the_byte(text: str) -> None:
    new = toml.put(text, PATH, OURS)
    assert toml.value(new) == toml.value(text) | {
        "mcp_servers": toml.value(text).get("mcp_servers", {}) | {"memory": OURS}
    }
    assert toml.remove(new, PATH) == text


def test_our_table_comes_last_with_the_line_ends_of_the_file() -> None:
    assert toml.put(CODEX, PATH, OURS).startswith(CODEX + "\n[mcp_servers.memory]\nurl = ")
    assert "\n" not in toml.put(CODEX.replace("\n", "\r\n"), PATH, OURS).replace("\r\n", "")


def test_a_field_is_changed_in_place() -> None:
    text = CODEX + '\n[mcp_servers.memory]\n# by me\ncommand = "old" # why\nstartup_timeout_sec = 30\n'
    new = toml.put(text, (*PATH, "command"), "new")
    assert new == text.replace('"old"', '"new"')
    assert toml.remove(new, (*PATH, "command")) == text.replace('command = "old" # why\n', "")


@pytest.mark.parametrize("text", ["a = \n", "[a\n", "a = 1\na = 2\n"])
def test_malformed_texts_are_refused(text: str) -> None:
    with pytest.raises(MalformedFile, match=r"line \d"):
        toml.value(text)


def test_a_section_of_another_kind_is_not_overwritten() -> None:
    with pytest.raises(MalformedFile, match="mcp_servers"):
        toml.put("mcp_servers = 1\n", PATH, OURS)
