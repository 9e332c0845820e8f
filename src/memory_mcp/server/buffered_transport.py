"""A transport that sends the head of an HTTP answer and its body together."""

import asyncio
from collections.abc import Iterable
from typing import Any

MAX_BUFFERED_BYTES = 64 * 1024  # more than that is sent without waiting


class BufferedTransport:
    """Wraps a transport: what is written in one round of the event loop, or before `flush`, is sent in one piece. Each
    time a piece is sent, threads that compute may take the interpreter, and keep it for a while."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []
        self._bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(data)
        self._bytes += len(data)
        if self._bytes > MAX_BUFFERED_BYTES:  # so that the transport can pause the writer
            self.flush()

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def flush(self) -> None:
        if self._pending:
            data = b"".join(self._pending)
            self._pending, self._bytes = [], 0
            self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + self._bytes

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._pending, self._bytes = [], 0
        self._transport.abort()
