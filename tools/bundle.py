"""Build the MCP bundle for desktop clients, dist/five-memories-VERSION.mcpb: `make bundle`.

The bundle holds the wheel and names its dependencies with their pinned versions; the client installs them with its own
uv, for its own platform.
"""

import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from memory_mcp import DISTRIBUTION, __version__
from memory_mcp.families.registry import FAMILIES
from tools.distribution import ROOT, build_wheel, copy_tree

MANIFEST_VERSION = "0.4"  # the first with the server type uv
ENTRY_POINT = "server.py"
PROGRAM = "from memory_mcp.__main__ import main\n\nmain()\n"
PIN = re.compile(r"^[\w.-]+==[^\s;]+(?: ; [^\\\n]+)?", re.MULTILINE)
OFFERED = tuple(name for name in FAMILIES if name != "portals")  # their engine, 0.9 GB, is not in the bundle
TIMESTAMP = (2020, 1, 1, 0, 0, 0)  # of every file, so that equal content gives an equal bundle


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(copy_tree(Path(scratch) / "tree"), Path(scratch) / "wheel")
        print(write_bundle(wheel, ROOT / "dist"))
    return 0


def write_bundle(wheel: Path, out: Path) -> Path:
    """Write the bundle of a wheel. Returns its path."""
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "manifest.json": json.dumps(manifest(), indent=2).encode() + b"\n",
        "pyproject.toml": project(wheel.name).encode(),
        ENTRY_POINT: PROGRAM.encode(),
        "icon.png": (ROOT / "deploy" / "icon.png").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    path = out / f"{DISTRIBUTION}-{__version__}.mcpb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            bundle.writestr(zipfile.ZipInfo(name, TIMESTAMP), content, zipfile.ZIP_DEFLATED)
    return path


def manifest() -> dict[str, Any]:
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": DISTRIBUTION,
        "display_name": "Memory MCP",
        "version": __version__,
        "description": "One memory for every agent: facts, notes, files and a knowledge graph, on your machine.",
        "author": {"name": "The Memory MCP authors"},
        "icon": "icon.png",
        "server": {
            "type": "uv",
            "entry_point": ENTRY_POINT,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--quiet", "--directory", "${__dirname}", ENTRY_POINT],
                "env": {"MEMORY_MCP_FAMILIES": "${user_config.families}"},
            },
        },
        "tools": [
            {"name": name, "description": tool.title}
            for family in OFFERED
            for name, tool in FAMILIES[family].tools.items()
            if not tool.app_only
        ],
        "tools_generated": True,
        "prompts_generated": True,
        "keywords": ["memory", "notes", "knowledge-graph", "search", "offline"],
        "license": "MIT",
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": ">=3.11"}},
        "user_config": {
            "families": {
                "type": "string",
                "title": "Families",
                "description": "Which families of tools to offer, comma-separated. Fewer tools leave more of each "
                "conversation to you.",
                "required": False,
                "default": ",".join(OFFERED),
            }
        },
    }


def project(wheel_name: str) -> str:
    """The pyproject.toml of the bundle: the wheel, and the versions that were tested with it."""
    pins = PIN.findall((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    return "\n".join(
        (
            "[project]",
            f'name = "{DISTRIBUTION}-bundle"',
            f'version = "{__version__}"',
            'requires-python = ">=3.11"',
            f'dependencies = ["{DISTRIBUTION}"]',
            "",
            "[tool.uv]",
            "package = false",
            f"constraint-dependencies = {json.dumps([pin.strip() for pin in pins], indent=4)}",
            "",
            "[tool.uv.sources]",
            f'{DISTRIBUTION} = {{ path = "{wheel_name}" }}',
            "",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
