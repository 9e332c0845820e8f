"""The types of settings, as flags, variables and TOML files write them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator


def _names(value: object) -> object:
    """'vault, notes' or ['vault', 'notes'], as flags and TOML files write a list."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _path(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("Must not be empty")
    return value


def _postgres_url(value: str) -> str:
    if not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("give a URL such as postgresql://user@host/database")
    return value


EmbedderKind = Literal["auto", "builtin", "ollama", "openai", "none"]
Folder = Annotated[Path, BeforeValidator(_path)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
PostgresUrl = Annotated[str, AfterValidator(_postgres_url)]
