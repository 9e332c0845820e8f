"""What a query must not reach: files beside the portal, another portal, a server in the network."""

import secrets
import socketserver
import sqlite3
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SECRET = "TOPSECRET"


@dataclass
class Outside:
    """What must not be reached."""

    folder: Path
    other: Path
    listener: tuple[str, int]
    calls: list[str] = field(default_factory=list)

    def statement(self, text: str) -> str:
        host, port = self.listener
        return text.format(out=self.folder, other=self.other, host=host, port=port)

    def traces(self) -> list[str]:
        """Of whatever has been there: calls, and files that are new or gone."""
        return [*self.calls, *sorted({path.name for path in self.folder.iterdir()} ^ {"secret.csv", "secret.sqlite"})]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.csv").write_text(f"{SECRET},1\n")
    with sqlite3.connect(folder / "secret.sqlite") as db:
        db.execute("CREATE TABLE t (a)")
        db.execute("INSERT INTO t VALUES (?)", [SECRET])
    db.close()
    calls: list[str] = []

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            calls.append(f"call from {self.client_address}: {self.request.recv(100)!r}")
            self.request.sendall(f"HTTP/1.0 200 OK\r\n\r\n{SECRET},1\n".encode())

    with socketserver.ThreadingTCPServer((_own_loopback_address(), 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.socket.getsockname()
        yield Outside(folder, data_dir / "portals" / "walled" / "other", (host, port), calls)
        server.shutdown()


def _own_loopback_address() -> str:
    """Tests of other processes call ports of 127.0.0.1 whose server has just ended, and a new server may get such a
    port. Linux has many more loopback addresses, which they do not call."""
    if sys.platform != "linux":
        return "127.0.0.1"
    return f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
