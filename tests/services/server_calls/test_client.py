"""What a server makes of answers that no server of ours would send."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Unavailable
from memory_mcp.services.server_calls import ServerClient
from tests.events import TIMEOUT_S

SECRET = "x" * 32
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"portals"}))


@dataclass(frozen=True)
class Server:
    url: str
    id: str = "other"


@contextmanager
def answering(answer: bytes) -> Iterator[Server]:
    """A server that begins an answer, and leaves the connection open until the block ends."""
    is_over = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)
            is_over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT_S)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Server(f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            is_over.set()
            thread.join()


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
def test_something_else_whose_answer_never_ends_is_named_at_once(status: str) -> None:
    begun = f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n".encode()
    with answering(begun) as server, closing(ServerClient(lambda: SECRET)) as client:
        with pytest.raises(Unavailable, match="something else answers") as raised:
            client.call(server, CALLER, "summaries", {}, is_write=True)
        assert "may_have_happened" not in raised.value.data
