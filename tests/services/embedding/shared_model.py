"""Servers in this process share the built-in model that they load: each would read 35 MB again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.services.embedding import builtin, model_files


def share_model() -> None:
    """Links to one file share what was loaded from it; a file that was written again is loaded again."""
    for loader, file in (("_tokenizer", model_files.TOKENIZER_FILE), ("_session", model_files.MODEL_FILE)):
        pytest.MonkeyPatch().setattr(builtin, loader, _sharing(getattr(builtin, loader), file))


def _sharing(load: Callable[[Path], Any], file: str) -> Callable[[Path], Any]:
    loaded: dict[tuple[int, int, int], Any] = {}

    def load_once(folder: Path) -> Any:
        found = (folder / file).stat()
        key = found.st_ino, found.st_size, found.st_mtime_ns
        if key not in loaded:
            loaded[key] = load(folder)
        return loaded[key]

    return load_once
