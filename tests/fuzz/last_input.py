"""The input that a parser is working on, in a file that outlives its process: if the system kills the process, such as
after a stack overflow, the process itself cannot report it."""

import mmap
from collections.abc import Callable
from pathlib import Path

LENGTH_BYTES = 8


def record_inputs(check: Callable[[bytes], None], path: Path, max_bytes: int) -> Callable[[bytes], None]:
    """The same check, which writes each input to the file before it looks at it."""
    path.write_bytes(bytes(LENGTH_BYTES + max_bytes))
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)

    def record_and_check(data: bytes) -> None:
        memory[: LENGTH_BYTES + len(data)] = len(data).to_bytes(LENGTH_BYTES, "little") + data
        check(data)

    return record_and_check


def read(path: Path) -> bytes:
    """The last input, empty if there was none."""
    recorded = path.read_bytes() if path.exists() else b""
    length = int.from_bytes(recorded[:LENGTH_BYTES], "little")
    return recorded[LENGTH_BYTES : LENGTH_BYTES + length]
