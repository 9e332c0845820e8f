"""An answer's head and body leave the server together."""

import asyncio
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from memory_mcp.server.buffered_transport import MAX_BUFFERED_BYTES, BufferedTransport
from memory_mcp.server.connections import Connections, LimitedConfig, LimitedProtocol

pytestmark = pytest.mark.anyio


class RecordingTransport(asyncio.Transport):
    """Records what would be sent, piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.ending = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def write_eof(self) -> None:
        self.ending = "eof"

    def close(self) -> None:
        self.ending = "closed"

    def abort(self) -> None:
        self.ending = "aborted"

    def is_closing(self) -> bool:
        return self.ending in ("closed", "aborted")

    def get_write_buffer_size(self) -> int:
        return 1000

    def resume_reading(self) -> None: ...

    def pause_reading(self) -> None: ...


def buffered() -> tuple[RecordingTransport, BufferedTransport]:
    transport = RecordingTransport()
    return transport, BufferedTransport(transport, asyncio.get_running_loop())


async def test_what_is_written_in_one_round_is_sent_in_one_piece() -> None:
    transport, writes = buffered()
    for data in (b"head", b""):
        writes.write(data)
    writes.writelines([b"bo", b"dy"])
    assert transport.pieces == []
    assert writes.get_write_buffer_size() == 1008, "bytes that wait count"
    await checkpoint()
    assert transport.pieces == [b"headbody"]
    writes.write(b"more")
    await checkpoint()
    assert transport.pieces == [b"headbody", b"more"]


async def test_much_is_sent_at_once_so_that_its_writer_is_paused() -> None:
    transport, writes = buffered()
    writes.write(b"x" * MAX_BUFFERED_BYTES)
    assert transport.pieces == []
    writes.write(b"y")
    assert [len(piece) for piece in transport.pieces] == [MAX_BUFFERED_BYTES + 1]


async def test_the_rest_is_sent_before_the_end_and_dropped_by_an_abort() -> None:
    for end, ending, sent in (
        ("close", "closed", [b"rest"]),
        ("write_eof", "eof", [b"rest"]),
        ("abort", "aborted", []),
    ):
        transport, writes = buffered()
        writes.write(b"rest")
        getattr(writes, end)()
        await checkpoint()
        assert (transport.ending, transport.pieces) == (ending, sent)


async def test_an_answer_over_http_is_one_piece() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body"})
        answered.set()

    answered = asyncio.Event()
    connections = Connections(max_per_address=10, max_total=10)
    config = LimitedConfig(app, connections=connections, header_s=10, body_s=10, send_s=10, log_config=None)
    config.load()
    transport = RecordingTransport()
    protocol = LimitedProtocol(config, _State(), {}, asyncio.get_running_loop())
    protocol.connection_made(transport)
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await answered.wait()
    assert len(transport.pieces) == 1
    assert transport.pieces[0].endswith(b"\r\n\r\nbody")
    protocol.connection_lost(None)


class _State:
    """As uvicorn's server shares it among its connections."""

    def __init__(self) -> None:
        self.connections: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.default_headers: list[tuple[bytes, bytes]] = []
        self.total_requests = 0
