"""Requests that an engine is answering, and how long each may take.

chDB checks its time limit, and KILL QUERY, only between two blocks of rows: a function that takes long for one block
stops for neither. So the process ends itself if a request does not stop after its time limit, or after its client left.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from memory_mcp.engines.chdb import frames

POLL_INTERVAL_S = 0.2
DISCONNECT_GRACE_S = 3.0  # that a request may go on after its client has left
TIMEOUT = {"ok": False, "kind": "timeout", "message": "The time limit was reached.", "code": 0}


@dataclass(frozen=True)
class EngineClient:
    """A server that is connected to this engine. It sends nothing while it waits for an answer."""

    wire: socket.socket
    tag: str  # marks the statements that stop when it disconnects

    def has_left(self) -> bool:
        try:
            return not self.wire.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def check_waiting(self) -> None:
        if self.has_left():
            raise ConnectionError("the client has left")


@dataclass(eq=False)
class OpenRequest:
    """A request that is being answered."""

    client: EngineClient
    timeout_s: float
    stops: bool  # whether it ends when its client leaves
    started_at: float
    processor_s_at_start: float  # that this process had used
    left_at: float | None = None  # when its client was first seen to be gone
    _is_answered: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send the answer. Raises ConnectionError if it has one already."""
        with self._lock:
            if self._is_answered:
                raise ConnectionError("this request has its answer")
            self._is_answered = True
        frames.send(self.client.wire, header, payload)

    def is_over_limit(self, now: float) -> bool:
        return now > self.started_at + self.timeout_s

    def is_stuck(self, now: float) -> bool:
        """Whether it is past its limit, or its client has left, for so long that it will not stop by itself."""
        has_left = self.stops and self.left_at is not None and now > self.left_at + DISCONNECT_GRACE_S
        return has_left or self.is_over_limit(now - frames.GRACE_S)


class OpenRequests:
    """All requests that are being answered, for the threads that watch them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[OpenRequest] = set()
        self._none_left = threading.Condition(self._lock)
        self.last_at = time.monotonic()  # when one last ended

    @contextmanager
    def track(self, client: EngineClient, timeout_s: float, *, stops: bool) -> Iterator[OpenRequest]:
        """A request that is open until the block ends."""
        request = OpenRequest(client, timeout_s, stops, time.monotonic(), time.process_time())
        with self._lock:
            self._open.add(request)
        try:
            yield request
        finally:
            with self._lock:
                self._open.discard(request)
                self._none_left.notify_all()
                self.last_at = time.monotonic()

    def request_processor_s(self) -> float:
        """The processor time that this process has used since the oldest open request began."""
        with self._lock:
            return time.process_time() - min(
                (request.processor_s_at_start for request in self._open), default=time.process_time()
            )

    def abandoned(self) -> list[OpenRequest]:
        """Those whose client has left."""
        return [request for request in self._find_departures() if request.left_at is not None]

    def stuck(self) -> list[OpenRequest]:
        now = time.monotonic()
        return [request for request in self._find_departures() if request.is_stuck(now)]

    def _find_departures(self) -> list[OpenRequest]:
        """All open requests. Those whose client has left get their `left_at`."""
        with self._lock:
            opened = list(self._open)
        for request in opened:
            if request.left_at is None and request.client.has_left():
                request.left_at = time.monotonic()
        return opened

    def end_overdue(self) -> None:
        """Answer those that are over their limit, so that their clients do not send them again."""
        now = time.monotonic()
        with self._lock:
            overdue = [request for request in self._open if request.is_over_limit(now)]
        for request in overdue:
            with suppress(OSError):
                request.answer(TIMEOUT)

    def wait_for_none(self, timeout_s: float) -> None:
        with self._lock:
            self._none_left.wait_for(lambda: not self._open, timeout_s)

    @contextmanager
    def none_open(self) -> Iterator[bool]:
        """Whether no request is open; none begins within the block."""
        with self._lock:
            yield not self._open
