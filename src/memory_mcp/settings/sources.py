"""Reads the settings, once, at the start.

Each value comes from, first found wins: a flag, the environment (MEMORY_MCP_*), config.toml in the data
directory, the default. `memory-mcp config` shows which.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memory_mcp.caller import parse_scopes
from memory_mcp.errors import Invalid
from memory_mcp.settings.flag_parser import FlagParser
from memory_mcp.settings.model import Settings
from memory_mcp.system.paths import expand_home
from memory_mcp.text.validation import sentence

ENV_PREFIX = "MEMORY_MCP_"
OTHER_ENV = {
    "embed_model": "MCP_EMBED_MODEL",
    "ollama_host": "OLLAMA_HOST",
    "openai_base_url": "OPENAI_BASE_URL",
    "openai_api_key": "OPENAI_API_KEY",
}
"""Variables that other programs use for the same thing. Ours come first."""
SECRETS = {"openai_api_key"}  # never a flag: other users of the machine can read a process's flags
HIDDEN = SECRETS | {
    "database_url",
    "direct_database_url",
    "portals_url",
}  # never shown: they may have a password in them
CONFIG_FILE = "config.toml"
DEFAULT = "default"  # the source of a setting that nothing sets


@dataclass(frozen=True)
class SettingSource:
    """A setting's value and where it came from."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True)
class LoadedSettings:
    settings: Settings
    origins: tuple[SettingSource, ...]

    def is_given(self, name: str) -> bool:
        """Whether a flag, a variable or the file sets it."""
        return any(origin.name == name and origin.source != DEFAULT for origin in self.origins)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def env_name(name: str) -> str:
    return ENV_PREFIX + name.upper()


def env_names(name: str) -> list[str]:
    """Every variable that sets it, the strongest first."""
    return [env_name(name), *([OTHER_ENV[name]] if name in OTHER_ENV else [])]


def parser(prog: str, names: Iterable[str] | None = None) -> FlagParser:
    """The flags of settings, of all or of those named, under the names the specs give them."""
    flags = FlagParser(prog=prog, allow_abbrev=False, add_help=False)
    for name, field in Settings.model_fields.items():
        if name in SECRETS or (names is not None and name not in names):
            continue
        is_switch = field.annotation is bool  # such as --session-persist, which may also be given a value
        flags.add_argument(flag(name), nargs="?" if is_switch else None, const="true" if is_switch else None)
    return flags


def load(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ, *, config: bool = True) -> LoadedSettings:
    """Read every source once; without `config`, not the file. Raises Invalid naming the setting and the source of the
    bad value."""
    given = _from_environ(environ) | _from_flags(flags)
    given = (_from_config(_data_dir(given)) if config else {}) | given
    settings = _validated(given)
    parse_scopes(settings.scopes)
    shown = {name: "(hidden)" if value and name in HIDDEN else value for name, value in settings}
    sources = {name: origin.source for name, origin in given.items()}
    return LoadedSettings(
        settings, tuple(SettingSource(name, shown[name], sources.get(name, DEFAULT)) for name in shown)
    )


def _from_flags(flags: Mapping[str, Any]) -> dict[str, SettingSource]:
    return {
        name: SettingSource(name, value, flag(name))
        for name, value in flags.items()
        if name in Settings.model_fields and value is not None
    }


def _from_environ(environ: Mapping[str, str]) -> dict[str, SettingSource]:
    variables = [(name, variable) for name in Settings.model_fields for variable in reversed(env_names(name))]
    return {
        name: SettingSource(name, environ[variable], variable) for name, variable in variables if environ.get(variable)
    }


def _data_dir(given: Mapping[str, SettingSource]) -> Path:
    chosen = given.get("data_dir")
    return expand_home(chosen.value) if chosen else Settings().data_dir


def _from_config(data_dir: Path) -> dict[str, SettingSource]:
    path = data_dir / CONFIG_FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise Invalid(f"{path} is not valid TOML: {exc}. Correct or remove it.") from exc
    except OSError as exc:
        raise Invalid(f"{path} cannot be read ({exc.strerror}). Correct its permissions or remove it.") from exc
    if "data_dir" in table:
        raise Invalid(f"{path} cannot set data_dir: the file is inside the data directory. Use --data-dir.")
    if unknown := sorted(set(table) - set(Settings.model_fields)):
        raise Invalid(f"{path} has unknown settings: {', '.join(unknown)}. `memory-mcp config` lists the known ones.")
    return {name: SettingSource(name, value, CONFIG_FILE) for name, value in table.items()}


def _validated(given: Mapping[str, SettingSource]) -> Settings:
    try:
        settings = Settings.model_validate({name: origin.value for name, origin in given.items()})
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        name = str(first["loc"][0])
        why = sentence(first, is_secret=name in HIDDEN)
        raise Invalid(f"{given[name].source}: {why}.", field=name) from exc
    paths = {name: getattr(settings, name) for name in ("data_dir", "db_path", "models_dir", "shared_folder")}
    return settings.model_copy(update={name: path and expand_home(path).absolute() for name, path in paths.items()})
