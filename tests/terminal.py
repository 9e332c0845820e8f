"""The product at a terminal."""

import fcntl
import os
import select
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.processes import Process, environment

ANSWER_TIMEOUT_S = 60.0


class Terminal:
    """`memory-mcp`, or another program, with a terminal of its own as stdin, stdout and stderr."""

    def __init__(
        self,
        *arguments: object,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        self._fd, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        own = {"TERM": "xterm-256color", "MEMORY_MCP_EMBEDDER": "none", **(env or {})}
        kept = {name: value for name, value in environment(**own).items() if name not in ("COLUMNS", "LINES")}
        start = partial(subprocess.Popen, [*program, *map(str, arguments)]) if program else partial(Process, arguments)
        self.process = start(stdin=theirs, stdout=theirs, stderr=theirs, env=kept, cwd=cwd)
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def read_until(self, text: str) -> str:
        """All that was printed, once it contains a text."""
        while text not in self.shown and self._read():
            pass
        assert text in self.shown, self.shown
        return self.shown

    def finish(self) -> tuple[int, str]:
        """The exit code, and all that was printed."""
        while self._read():
            pass
        os.close(self._fd)
        return self.process.wait(ANSWER_TIMEOUT_S), self.shown

    def _read(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], ANSWER_TIMEOUT_S)
        assert ready, f"nothing more was printed after: {self.shown}"
        try:
            part = os.read(self._fd, 65_536)
        except OSError:  # Linux: the last process with the terminal is gone
            return False
        self.shown += part.decode(errors="replace").replace("\r\n", "\n")
        return bool(part)
