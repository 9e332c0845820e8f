import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment
from tests.server.shared.clients import SHARED, Connect, servers
from tests.wire import Stdio


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A client that a relay connects to the shared server. Processes that run at the end are killed."""
    started: list[Stdio] = []
    data_dirs = {tmp_path}

    def start(*flags: str, data_dir: Path = tmp_path, **more: Any) -> Stdio:
        env = environment(**SHARED) | more.pop("env", {})
        data_dirs.add(data_dir)
        started.append(Stdio.start(data_dir, *flags, env=env, **more))
        return started[-1]

    yield start
    for client in started:
        client.kill()
    for data_dir in data_dirs:
        for server in servers(data_dir):
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)
