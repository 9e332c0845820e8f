"""Data directories of every former version: `python -m tests.maintenance.former_data NAME [SOURCE]`.

Each was written by the program of its time, over its tools. When a migration is added, keep one of the version before
it: run this with the folder `src` of that version as SOURCE. A test names the schema versions that have none. The names
have the number and the commit of each version; the first four commits wrote drafts of server.db that are refused.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "former"
TEXTS = tuple(f"kept since {word}" for word in ("spring", "summer", "autumn", "winter"))
PORTAL = "mem://kept/seasons"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("commit_memory", {"scope": "vault", "key": f"k{n}", "content": text}) for n, text in enumerate(TEXTS)),
    *(("memory_create", {"content": f"{text} [[Other]] #season", "title": f"t{n}"}) for n, text in enumerate(TEXTS)),
    ("create_project", {"name": "seasons"}),
    ("switch_project", {"name": "seasons"}),
    ("create_entities", {"entities": [{"name": text, "entity_type": "season"} for text in TEXTS]}),
    *(
        ("add_memory", {"store": "kept", "path": f"seasons/s{n}", "content": text, "tags": ["season"]})
        for n, text in enumerate(TEXTS)
    ),
    ("portal_write", {"portalUri": PORTAL, "table": "seasons", "data": [{"name": text} for text in TEXTS]}),
)
KINDS = {  # the files that a data directory may have, and how often each text is in them
    "memory.db": "SELECT content FROM vault_memories",
    "notes.db": "SELECT replace(content, ' [[Other]] #season', '') FROM notes",
    "projects/*.db": "SELECT name FROM entities",
}


def write(data_dir: Path, source: Path) -> list[str]:
    """Let the program in `source` write to a new data directory. Returns the tools that it does not have."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_MCP_")}
    environ |= {"PYTHONPATH": str(source), "MEMORY_MCP_SHARED": "off", "MEMORY_MCP_EMBEDDER": "none"}
    client = {"name": "former", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    calls = [("tools/call", {"name": name, "arguments": given}) for name, given in CALLS]
    command = [sys.executable, "-m", "memory_mcp", "--data-dir", str(data_dir)]
    missing = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for number, (method, params) in enumerate([("initialize", hello), *calls]):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            if not number:
                server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
            server.stdin.flush()
            while (answer := json.loads(server.stdout.readline())).get("id") != number:
                pass
            if "error" in answer or answer["result"].get("isError"):
                missing.append(f"{params.get('name')}: {json.dumps(answer)[:200]}")
        server.stdin.close()
        server.wait()
    return missing


def pack(data_dir: Path, path: Path) -> None:
    """The files that a user would copy: no locks and sockets, nothing that only a running server has."""
    with tarfile.open(path, "w:xz") as archive:
        for file in sorted(data_dir.rglob("*")):
            if file.is_file() and file.suffix not in (".lock", ".sock", ".log") and "live.db" not in file.name:
                archive.add(file, arcname=file.relative_to(data_dir).as_posix(), filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def unpack(name: str, data_dir: Path) -> Path:
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(data_dir, filter="data")
    return data_dir


def names() -> list[str]:
    return sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.iterdir())


def main() -> None:
    _, name, *rest = sys.argv
    source = Path(rest[0]) if rest else Path(__file__).parents[2] / "src"
    with tempfile.TemporaryDirectory(prefix="former-") as folder:
        missing = write(Path(folder) / "data", source.resolve())
        pack(Path(folder) / "data", FOLDER / f"{name}.tar.xz")
    print(f"{name}: {(FOLDER / f'{name}.tar.xz').stat().st_size:,} bytes", *missing, sep="\n  ")


if __name__ == "__main__":
    main()
