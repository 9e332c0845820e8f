"""The HTTP server over chDB that stands for a ClickHouse server in tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, cast

import pytest

CHOSEN_URL = os.environ.get("MEMORY_MCP_TEST_PORTALS_URL")
"""The server that the tests of portals run on, or `fixture` for one over chDB; None for portals in files."""
FILES_ONLY = pytest.mark.skipif(CHOSEN_URL is not None, reason="of portals in files")


@contextmanager
def clickhouse_over_chdb() -> Iterator[str]:
    """The address of a new one."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "tests.engines.clickhouse.http_fixture", folder]
        root = Path(__file__).parents[1]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as server:
            try:
                port = cast(IO[str], server.stdout).readline().strip()
                yield f"http://127.0.0.1:{port}"
            finally:
                server.kill()
