"""A server over HTTP that can be killed and started again on the same port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.wire import Http, http_server


@dataclass
class RestartableServer:
    data_dir: Path
    flags: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)  # of its process
    _running: ExitStack = field(default_factory=ExitStack)
    _http: Http | None = None  # also of one that was killed

    @property
    def http(self) -> Http:
        assert self._http is not None
        return self._http

    @property
    def port(self) -> int:
        return int(self.http.url.rpartition(":")[2])

    def start(self) -> None:
        port = self.port if self._http else 0
        self._http = self._running.enter_context(http_server(self.data_dir, *self.flags, port=port, **self.options))

    def kill(self) -> None:
        self._running.close()

    @contextmanager
    def client(self, key: str) -> Iterator[Http]:
        """One that is not closed when the server ends."""
        with httpx.Client(base_url=self.http.url, timeout=60) as client:
            yield Http(self.http.process, self.http.url, key, client, "", self.data_dir)


@contextmanager
def started(server: RestartableServer) -> Iterator[RestartableServer]:
    """Started now, and killed at the end."""
    server.start()
    try:
        yield server
    finally:
        server.kill()
