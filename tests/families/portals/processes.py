"""What tests of portals see from outside a server: processes, files on the disk and the command line."""

import os
import subprocess
from pathlib import Path

from memory_mcp.engines.chdb import process as engine_process
from tests.processes import environment, run

ENV = environment(MEMORY_MCP_PORTAL_ENGINE_IDLE="300", MEMORY_MCP_EMBEDDER="none")  # no engine leaves for want of work


def engine_handle(folder: Path) -> int:
    """A handle of the process of a portal's engine, which can be read once the process has ended."""
    process = engine_process.EngineProcess(folder, engine_process.EngineRules())
    return os.pidfd_open(int(process.request({"op": "ping"})["pid"]))


def command(*arguments: str, data_dir: Path) -> "subprocess.CompletedProcess[str]":
    return run(*arguments, "--data-dir", data_dir, env=ENV)


def files_with(data_dir: Path, token: str) -> list[str]:
    """Files of the data directory with the text, or a long part of it: a full-text index stores no common prefix."""
    parts = [token[start : start + 12].encode() for start in range(0, len(token) - 11, 6)]
    files = [path for path in data_dir.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(str(path.relative_to(data_dir)) for path in files if any(part in path.read_bytes() for part in parts))
