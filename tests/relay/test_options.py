import os
from pathlib import Path

import pytest

from memory_mcp import settings
from memory_mcp.relay.options import NotShared, RelayOptions, default_data_dir


@pytest.mark.parametrize("home", [None, "/elsewhere", " "])
def test_the_default_data_directory_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    if home is None:
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_DATA_HOME", home)

    found = Path(default_data_dir(dict(os.environ))).expanduser()
    assert found == settings.default_data_dir("memory-mcp")


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        (["--data-dir", "/a"], {}, "/a"),
        (["--data-dir=/a", "--data-dir", "/b"], {"MEMORY_MCP_DATA_DIR": "/c"}, "/b"),
        (["--families", "notes"], {"MEMORY_MCP_DATA_DIR": "/c/../d"}, "/d"),
    ],
)
def test_the_data_directory_comes_from_flags_then_the_environment(
    arguments: list[str], environ: dict[str, str], expected: str
) -> None:
    assert RelayOptions(arguments, environ).data_dir == expected


@pytest.mark.parametrize(
    ("arguments", "environ", "config"),
    [
        (["--shared", "off"], {}, ""),
        (["--transport=http"], {}, ""),
        ([], {"MEMORY_MCP_SHARED": "off"}, ""),
        ([], {}, 'shared = "off"'),
        ([], {}, "not toml"),
        (["--shared"], {}, ""),
    ],
)
def test_settings_can_ask_for_a_server_in_the_own_process(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], config: str
) -> None:
    if config:
        (tmp_path / "config.toml").write_text(config)
    with pytest.raises(NotShared):
        RelayOptions(["--data-dir", str(tmp_path), *arguments], environ)


def test_only_our_variables_are_sent_to_the_server() -> None:
    environ = {"MEMORY_MCP_SCOPES": "read-only", "OLLAMA_HOST": "x", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert RelayOptions([], environ).environ == {"MEMORY_MCP_SCOPES": "read-only", "OLLAMA_HOST": "x"}
