"""Paths that match a pattern, in folders that other processes change meanwhile."""

import glob
from collections.abc import Iterator
from pathlib import Path


def find(folder: Path, pattern: str) -> Iterator[Path]:
    """Like Path.glob, which raises if a folder is deleted while it is searched: that one is left out."""
    for found in glob.iglob(pattern, root_dir=folder, include_hidden=True):
        yield folder / found
