"""Pipes and sockets that carry one message per line. Servers read and write theirs by the same limits."""

import os
import stat

MAX_READ_BYTES = 65_536
SAFE_WRITE_BYTES = 4096  # a pipe that is ready accepts this much without blocking (PIPE_BUF)
MAX_LINE_BYTES = 16 * 1024 * 1024  # servers refuse longer ones


class LineBuffer:
    """Splits chunks into lines. A long line is not copied again with each of its chunks."""

    def __init__(self) -> None:
        self.partial = bytearray()  # a line whose end has not been read

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their ends."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self.partial) + lines[0]
            self.partial.clear()
        self.partial += rest
        return lines

    def take_partial(self) -> bytes:
        """Remove and return the beginning of a line."""
        partial = bytes(self.partial)
        self.partial.clear()
        return partial


def make_nonblocking(fd: int) -> bool:
    """True for pipes and sockets. A terminal stays blocking: other programs share it and do not expect the change."""
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    os.set_blocking(fd, False)
    return True
