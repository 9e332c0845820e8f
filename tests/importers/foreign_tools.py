"""Other tools create their files, and those are imported: `make foreign-tools`.

Each tool is installed from its registry into an environment of its own under .compat/, and writes with the script of
its name in tools/. Then the file moves in dry, for good, and once more. With --fixtures, what the tools made takes the
place of what is kept in fixtures/, for the tests that run everywhere.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOOLS, FIXTURES = HERE / "tools", HERE / "fixtures"
ENVIRONMENTS = HERE.parents[1] / ".compat" / "foreign-tools"
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Tool:
    format: str
    packages: tuple[str, ...]
    made: str  # what of the folder it wrote to moves in
    expected: int  # how many memories that is
    oldest_python: tuple[int, int] = (3, 11)

    @property
    def script(self) -> Path:
        return TOOLS / f"make_{self.format.replace('-', '_')}.py"


FOREIGN = {
    tool.format: tool
    for tool in (
        Tool("server-memory", ("@modelcontextprotocol/server-memory@2026.8.31",), "memory.jsonl", 3),
        # pysqlite3-binary: for a Python whose sqlite3 loads no extensions
        Tool("mcp-memory-service", ("mcp-memory-service==12.2.0", "pysqlite3-binary"), "sqlite_vec.db", 3),
        Tool("basic-memory", ("basic-memory==0.24.1",), "basic-memory", 3, oldest_python=(3, 12)),
        Tool("mem0", ("mem0ai==2.2.1",), "mem0.json", 3),
        Tool("anthropic-memory", ("anthropic==2.8.0",), "memory", 3),
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make foreign-tools", description=__doc__)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"{', '.join(FOREIGN)}; the default is all.")
    parser.add_argument("--fixtures", action="store_true", help="Keep what the tools make as fixtures.")
    arguments = parser.parse_args()
    if unknown := set(arguments.tools) - FOREIGN.keys():
        parser.error(f"unknown tool: {', '.join(sorted(unknown))}")
    results = [visit(FOREIGN[name], keep=arguments.fixtures) for name in arguments.tools or FOREIGN]
    print(f"{results.count(True)} passed, {results.count(False)} failed, {results.count(None)} skipped")
    return 1 if False in results else 0


def visit(tool: Tool, *, keep: bool) -> bool | None:
    """Whether everything the tool made was imported, once. None if it cannot run on this Python."""
    if sys.version_info < tool.oldest_python:
        print(f"{tool.format}: skipped, it needs Python {'.'.join(map(str, tool.oldest_python))}")
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "made").mkdir()
        subprocess.run([*interpreter(tool), folder / "made"], check=True, stdout=subprocess.DEVNULL)
        made = folder / "made" / tool.made
        dry, first, again = (moved_in(tool, made, folder / "data", *option) for option in (["--dry-run"], [], []))
        if keep:
            keep_fixture(tool, made)
    passed = [dry["imported"], first["imported"], again["imported"], again["skipped"]] == [tool.expected] * 2 + [
        0,
        tool.expected,
    ]
    print(f"{tool.format}: {'passed' if passed else f'FAILED: {dry} {first} {again}'}")
    return passed


def interpreter(tool: Tool) -> list[Path | str]:
    """The command that runs the tool's script, once the tool is installed."""
    environment = ENVIRONMENTS / tool.format
    if tool.packages[0].startswith("@"):
        subprocess.run(["npm", "install", "--silent", "--prefix", environment, *tool.packages], check=True)
        return [
            sys.executable,
            tool.script,
            environment / "node_modules/@modelcontextprotocol/server-memory/dist/index.js",
        ]
    uv = [str(BIN / "uv"), "--quiet"]
    subprocess.run([*uv, "venv", "--allow-existing", "--python", sys.executable, environment], check=True)
    subprocess.run([*uv, "pip", "install", "--python", environment, *tool.packages], check=True)
    return [environment / "bin" / "python", tool.script]


def moved_in(tool: Tool, made: Path, data: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "memory_mcp", "import", tool.format, str(made), "--json", *options]
    done = subprocess.run([*command, "--data-dir", str(data)], check=True, stdout=subprocess.PIPE)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def keep_fixture(tool: Tool, made: Path) -> None:
    place = FIXTURES / tool.format / tool.made
    shutil.rmtree(FIXTURES / tool.format, ignore_errors=True)
    place.parent.mkdir(parents=True)
    if made.is_dir():
        shutil.copytree(made, place)
    elif made.suffix == ".db":  # mostly empty pages
        place.with_name(f"{place.name}.gz").write_bytes(gzip.compress(made.read_bytes(), mtime=0))
    else:
        shutil.copy(made, place)


if __name__ == "__main__":
    sys.exit(main())
