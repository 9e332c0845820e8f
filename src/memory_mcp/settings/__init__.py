from memory_mcp.settings.model import Settings, default_data_dir
from memory_mcp.settings.sources import (
    ENV_PREFIX,
    SECRETS,
    LoadedSettings,
    SettingSource,
    env_name,
    env_names,
    flag,
    load,
    parser,
)

__all__ = [
    "ENV_PREFIX",
    "SECRETS",
    "LoadedSettings",
    "SettingSource",
    "Settings",
    "default_data_dir",
    "env_name",
    "env_names",
    "flag",
    "load",
    "parser",
]
