"""Moves messages between a client's streams and the shared server, and survives the server's end."""

import json
import os
import select
import signal
import socket
import time
from collections import deque

from memory_mcp.relay import link, protocol
from memory_mcp.relay.conversation import ConversationState, PendingRequest
from memory_mcp.relay.options import NotShared, RelayOptions
from memory_mcp.relay.presence import Presence
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.relay.streams import MAX_LINE_BYTES, MAX_READ_BYTES, SAFE_WRITE_BYTES, LineBuffer, make_nonblocking

MAX_WAITING_BYTES = 1024 * 1024  # read from one side before the other side accepts it
END_TIMEOUT_S = 10.0  # from the end of the client's input to the end of this process
MAX_SILENT_SERVERS = 3  # in a row, which accept the client and end without a message to it
RETRY_INTERVAL_S = 0.1
POLL_INTERVAL_S = 2.0  # between two checks of the parent process, where the system sends no event
READABLE = select.POLLIN | select.POLLHUP | select.POLLERR if hasattr(select, "poll") else 0


class Ended(Exception):
    """The conversation is over."""


class Pump:
    def __init__(self, options: RelayOptions, client_in: int, client_out: int) -> None:
        self._options = options
        self._server = ServerSocket(options.data_dir)
        self._id = os.urandom(16).hex()
        self._presence = Presence(options.data_dir, self._id)
        self._in, self._out = client_in, client_out
        self._max_write_bytes: int | None = SAFE_WRITE_BYTES  # None if the client's end does not block
        self._wire: socket.socket | None = None
        self._conversation = ConversationState()
        self._client_lines, self._server_lines = LineBuffer(), LineBuffer()
        self._to_server: deque[tuple[bytes, PendingRequest | None]] = deque()
        self._waiting_bytes = 0  # of all lines in it
        self._written_bytes = 0  # of the first line in it
        self._to_client = bytearray()
        self._server_reads = self._client_reads = True
        self._client_has_ended = False
        self._input_is_closed = False  # the server knows that the client has ended
        self._reconnects_on_demand = False
        self._silent_servers = 0
        self._deadline: float | None = None
        self._parent = os.getppid()
        self._parent_handle: int | None = None

    def connect(self) -> None:
        """Reach the server, or start one. Raises NotShared."""
        try:
            self._reach(self._hello())
        except NotShared:
            self._presence.remove()
            raise

    def run(self) -> int:
        """Until the client or the server ends the conversation. Returns the exit code."""
        self._max_write_bytes = None if make_nonblocking(self._out) else SAFE_WRITE_BYTES
        self._parent_handle = _open_process(self._parent)
        self._handle_signals()
        try:
            while True:
                self._move()
        except Ended:
            return 0
        finally:
            self._presence.remove()

    def _handle_signals(self) -> None:
        """From now on: a server in this process, in place of a shared one, has handlers of its own."""
        self._signalled, wake = os.pipe()  # Python's handlers run between two polls only: this ends a poll
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._end_input())
        signal.signal(signal.SIGCHLD, _reap)
        _reap()  # one that has ended before

    def _reach(self, hello: dict[str, object]) -> None:
        """Raises NotShared."""
        self._server.prepare()
        try:
            self._presence.hold()
        except OSError as exc:
            raise NotShared(f"the data directory cannot be written ({exc.strerror})") from None
        self._attach(link.reach(self._options, self._server, hello))

    def _hello(self) -> dict[str, object]:
        return link.greeting(
            arguments=self._options.server_arguments,
            environ=self._options.environ,
            connection=self._id,
            setup=self._conversation.setup(),
            lost=self._conversation.take_lost(),
        )

    def _attach(self, reached: link.ServerLink) -> None:
        self._wire = reached.wire
        self._wire.setblocking(False)
        self._server_lines, self._written_bytes, self._server_reads = LineBuffer(), 0, True
        self._input_is_closed = self._reconnects_on_demand = False
        self._silent_servers += 1  # until it sends something
        self._receive(reached.received)

    def _move(self) -> None:
        """Wait until a side is ready, then read from it or write to it."""
        if self._wire is None and (self._to_server or not self._reconnects_on_demand):
            self._reconnect()
        self._close_input()
        for fd, events in self._poll():
            if fd == self._parent_handle:
                self._end_input()
            elif fd == self._signalled:
                os.read(fd, MAX_READ_BYTES)
            elif fd == self._in and not self._client_has_ended:
                self._read_client()
            elif fd == self._out:
                self._write_client()
            elif self._wire is not None and fd == self._wire.fileno():
                if events & select.POLLOUT:
                    self._write_server(self._wire)
                if events & READABLE:
                    self._read_server(self._wire)
        self._write_at_once()
        self._end_in_time()

    def _write_at_once(self) -> None:
        """Write without another poll, as is possible for most messages."""
        if self._wire is not None and self._to_server and self._server_reads:
            self._write_server(self._wire)
        if self._to_client and self._max_write_bytes is None:
            self._write_client()

    def _poll(self) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._signalled, select.POLLIN)
        if not self._client_has_ended and self._waiting_bytes < MAX_WAITING_BYTES:
            poll.register(self._in, select.POLLIN)
        if self._to_client:
            poll.register(self._out, select.POLLOUT)
        if self._wire is not None:
            reads = select.POLLIN if len(self._to_client) < MAX_WAITING_BYTES else 0
            writes = select.POLLOUT if self._to_server and self._server_reads else 0
            poll.register(self._wire.fileno(), reads | writes)
        if self._parent_handle is not None and not self._client_has_ended:
            poll.register(self._parent_handle, select.POLLIN)
        timeout_s = POLL_INTERVAL_S if self._parent_handle is None or self._deadline else None
        return poll.poll(None if timeout_s is None else timeout_s * 1000)

    def _end_in_time(self) -> None:
        """Raises Ended when nothing is left to do, or the time for it is over."""
        if self._parent_handle is None and os.getppid() != self._parent:
            self._end_input()
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise Ended
        if self._wire is None and self._client_has_ended and not self._to_server and not self._to_client:
            raise Ended

    # From the client to the server

    def _read_client(self) -> None:
        try:
            chunk = os.read(self._in, MAX_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a socket whose other end was closed before all was read from it
            chunk = b""
        for line in self._client_lines.add(chunk):
            self._note_and_queue(line)
        if not chunk:
            self._note_and_queue(self._client_lines.take_partial())  # the last line may lack its end
            self._end_input()
        elif len(self._client_lines.partial) > MAX_LINE_BYTES:
            self._queue(self._client_lines.take_partial(), None)  # the server refuses it

    def _note_and_queue(self, line: bytes) -> None:
        if line.strip():
            line += b"\n"
            self._queue(line, self._conversation.note_request(line))

    def _queue(self, line: bytes, request: PendingRequest | None) -> None:
        self._to_server.append((line, request))
        self._waiting_bytes += len(line)

    def _end_input(self) -> None:
        """The client has ended, or a signal ends this process. What the client sent before is still answered."""
        self._client_has_ended = True
        self._deadline = self._deadline or time.monotonic() + END_TIMEOUT_S

    def _close_input(self) -> None:
        if self._client_has_ended and not self._to_server and self._wire is not None and not self._input_is_closed:
            self._input_is_closed = True
            try:
                self._wire.shutdown(socket.SHUT_WR)
            except OSError:
                self._lose_server()

    def _write_server(self, wire: socket.socket) -> None:
        line, request = self._to_server[0]
        try:
            self._written_bytes += wire.send(memoryview(line)[self._written_bytes :])
        except BlockingIOError:
            return
        except OSError:  # it ends: what it still sends is read first
            self._server_reads = False
            return
        if self._written_bytes == len(line):
            self._to_server.popleft()
            self._waiting_bytes -= len(line)
            self._written_bytes = 0
            if request is not None:
                request.is_sent = True

    # From the server to the client

    def _read_server(self, wire: socket.socket) -> None:
        try:
            chunk = wire.recv(MAX_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._lose_server()
            return
        self._receive(chunk)

    def _receive(self, chunk: bytes) -> None:
        if chunk:
            self._silent_servers = 0
        for line in self._server_lines.add(chunk):
            self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        if line.startswith(protocol.PREFIX):
            self._handle_control(json.loads(line)[protocol.KEY])
            return
        self._conversation.note_answer(line)
        if self._client_reads:
            self._to_client += line + b"\n"

    def _handle_control(self, message: str) -> None:
        """Do what a message to the relay itself says, before the server closes the connection."""
        if message == protocol.GOODBYE:
            self._to_server.clear()
            self._waiting_bytes = self._written_bytes = 0
            self._conversation = ConversationState()
            self._end_input()
        elif message == protocol.PAUSED:
            self._reconnects_on_demand = True

    def _write_client(self) -> None:
        try:
            del self._to_client[: os.write(self._out, self._to_client[: self._max_write_bytes])]
        except BlockingIOError:
            return
        except OSError:  # the client has closed its end
            self._client_reads = False
            self._to_client.clear()
            self._end_input()

    # The server's end

    def _lose_server(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire, self._written_bytes, self._server_lines = None, 0, LineBuffer()
        if self._client_has_ended and self._conversation.is_settled:
            self._reconnects_on_demand = True

    def _reconnect(self) -> None:
        """Reach another server. If there is none, requests are answered with that, and the next one tries again."""
        if self._silent_servers >= MAX_SILENT_SERVERS:
            self._fail_requests(f"{self._silent_servers} servers have ended at once")
            return
        if self._silent_servers:
            time.sleep(RETRY_INTERVAL_S * 2**self._silent_servers)
        try:
            self._reach(self._hello())
        except NotShared as exc:
            self._fail_requests(str(exc))

    def _fail_requests(self, reason: str) -> None:
        message = f"The server has ended, and no other can be reached: {reason}. Try again later."
        self._silent_servers = 0
        self._to_server.clear()
        self._waiting_bytes = self._written_bytes = 0
        self._reconnects_on_demand = True
        for line in self._conversation.take_failures(message):
            self._to_client += line + b"\n"


def _reap(*_: object) -> None:
    """Remove the entries of servers that this process has started, and that have ended, from the process table."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _open_process(pid: int) -> int | None:
    """A handle that is readable when the process has ended."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
