import json
from pathlib import Path

import pytest

from memory_mcp import settings
from memory_mcp.errors import Invalid
from tests.processes import environment, run


def test_flags_win_over_the_environment_over_the_file_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('port = 1\nhost = "::1"\nembedding_dim = 8\nfamilies = ["vault"]\n')
    environ = {"MEMORY_MCP_PORT": "2", "MEMORY_MCP_HOST": "localhost", "MEMORY_MCP_DATA_DIR": str(tmp_path)}
    loaded = settings.load({"port": "3"}, environ)

    assert (loaded.settings.port, loaded.settings.host, loaded.settings.embedding_dim) == (3, "localhost", 8)
    sources = {origin.name: origin.source for origin in loaded.origins}
    assert sources["port"] == "--port"
    assert sources["host"] == "MEMORY_MCP_HOST"
    assert sources["embedding_dim"] == "config.toml"
    assert sources["transport"] == "default"
    assert loaded.settings.vault_path == tmp_path / "memory.db"


def test_the_specs_environment_works_as_written(tmp_path: Path) -> None:
    environ = {
        "MEMORY_MCP_DB_PATH": str(tmp_path / "elsewhere.db"),
        "MEMORY_MCP_SESSION_ID": "s",
        "MEMORY_MCP_SESSION_PERSIST": "true",
        "MEMORY_MCP_SCOPES": "read-only",
        "MEMORY_MCP_FAMILIES": "vault",
    }
    chosen = settings.load({"data_dir": tmp_path}, environ).settings

    assert chosen.vault_path == tmp_path / "elsewhere.db"
    assert (chosen.session_id, chosen.session_persist) == ("s", True)
    assert (chosen.scopes, chosen.families) == (("read-only",), ("vault",))


@pytest.mark.parametrize(
    ("flags", "environ", "complaint"),
    [
        ({"port": "many"}, {}, "--port"),
        ({}, {"MEMORY_MCP_PORT": "70000"}, "MEMORY_MCP_PORT"),
        ({}, {"MEMORY_MCP_TRANSPORT": "pigeon"}, "MEMORY_MCP_TRANSPORT"),
        ({"database_url": "mysql://x"}, {}, "--database-url: give a URL such as postgresql://user@host/database"),
        ({}, {"MEMORY_MCP_SESSION_PERSIST": "perhaps"}, "MEMORY_MCP_SESSION_PERSIST"),
    ],
)
def test_a_bad_value_is_refused_naming_where_it_stands(
    tmp_path: Path, flags: dict[str, str], environ: dict[str, str], complaint: str
) -> None:
    with pytest.raises(Invalid, match=complaint):
        settings.load({"data_dir": tmp_path, **flags}, environ)


@pytest.mark.parametrize("text", ["port = ", "colour = 'red'", "port = 'x'"])
def test_a_bad_config_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(Invalid, match=r"config\.toml"):
        settings.load({"data_dir": tmp_path}, {})


def test_config_prints_each_value_and_where_it_came_from(tmp_path: Path) -> None:
    command = ["config", "--data-dir", tmp_path, "--port", "9"]
    env = environment(MEMORY_MCP_LOG_LEVEL="error")
    shown = json.loads(run(*command, "--json", check=True, env=env).stdout)

    assert set(shown) == {*settings.Settings.model_fields, "server_log"}
    assert shown["server_log"] == {"value": str(tmp_path / "server.log"), "source": "data_dir"}
    assert shown["port"] == {"value": 9, "source": "--port"}
    assert shown["log_level"] == {"value": "error", "source": "MEMORY_MCP_LOG_LEVEL"}
    assert shown["host"] == {"value": "127.0.0.1", "source": "default"}
    table = run(*command, check=True, env=env).stdout
    assert "MEMORY_MCP_LOG_LEVEL" in table
    assert not list(tmp_path.iterdir())
