"""The types of settings, as flags, variables and TOML files write them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator


def _names(value: object) -> object:
    """'vault, notes' or ['vault', 'notes'], as flags and TOML files write a list."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _path(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("Must not be empty")
    return value


EmbedderKind = Literal["auto", "builtin", "ollama", "openai", "none"]
Folder = Annotated[Path, BeforeValidator(_path)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
