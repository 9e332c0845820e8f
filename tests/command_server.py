"""`memory-mcp` on PATH for shell scripts, without the start of an interpreter that imports the product.

The program on PATH sends its arguments, environment, folder and standard streams to this process, which forks the
product (see tests/processes.py) and answers with the exit code.
"""

import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Process

PROGRAM = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(line, [len(request).to_bytes(4, "big")], [0, 1, 2])
    line.sendall(request)
    code = int(line.makefile("rb").read())
sys.exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def command_on_path(folder: Path) -> Iterator[Path]:
    """The folder for PATH. The socket's own path must be short."""
    address, program = str(folder / "socket"), folder / "memory-mcp"
    program.write_text(PROGRAM.format(python=sys.executable, address=address), "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        thread = threading.Thread(target=_serve, args=(listening,))
        thread.start()
        try:
            yield folder
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listening: socket.socket) -> None:
    """One command after another, as a script runs them."""
    while True:
        try:
            line, _ = listening.accept()
        except OSError:  # it was shut down
            return
        with line:
            line.sendall(str(_run(line)).encode())


def _run(line: socket.socket) -> int:
    size, streams, _, _ = socket.recv_fds(line, 4, 3)
    with line.makefile("rb") as sent:
        arguments, env, folder = json.loads(sent.read(int.from_bytes(size, "big")))
    stdin, stdout, stderr = streams
    try:
        process = Process(arguments, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=Path(folder))
    finally:
        for fd in streams:
            os.close(fd)
    return process.wait()
