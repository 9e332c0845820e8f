"""Paths that people write."""

import os
from pathlib import Path


def expand_home(path: str | Path) -> Path:
    """The path with a leading `~` or `~USER` replaced. As in a shell, it stays as it is if there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path.expanduser raises RuntimeError
