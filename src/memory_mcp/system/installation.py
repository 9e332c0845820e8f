"""How this program was installed, and the command that adds an extra to it."""

import json
import os
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from memory_mcp import DISTRIBUTION

PROGRAM = "memory-mcp"
REINSTALL = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
"""The file that a tool leaves in its environments, and how it installs again."""


def uv_of_uvx() -> str | None:
    """The uv that runs this program from its cache. None for every other installation."""
    is_in_cache = re.fullmatch(r"(archive|environments)-v\d+", Path(sys.prefix).parent.name)
    return os.environ.get("UV") if is_in_cache else None


def requirement(extra: str = "") -> str:
    """What this installation was made from: a file, an address or the name on PyPI; with an extra, if there is one."""
    recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")  # pip and uv write it, except for PyPI
    origin = json.loads(recorded)["url"] if recorded else DISTRIBUTION
    source = url2pathname(urlsplit(origin).path) if origin.startswith("file:") else origin
    if not extra:
        return source
    return f"{DISTRIBUTION}[{extra}] @ {source}" if "://" in source else f"{source}[{extra}]"


def install_command(extra: str) -> str:
    """The command that adds an extra, in the way this was installed. It has paths of this machine."""
    wanted = shlex.quote(requirement(extra))
    if uv_of_uvx():
        return f"uvx --from {wanted} {PROGRAM} connect"
    tool = next((again for file, again in REINSTALL.items() if (Path(sys.prefix) / file).is_file()), "pip install")
    return f"{tool} {wanted}"
