"""The input that a parser is working on, in a file that outlives its process: a process that the system ends, such as
for a stack overflow, says nothing."""

import mmap
from collections.abc import Callable
from pathlib import Path

LENGTH_BYTES = 8


def remembering(check: Callable[[bytes], None], path: Path, max_bytes: int) -> Callable[[bytes], None]:
    """The same check, which first writes its input to the file."""
    path.write_bytes(bytes(LENGTH_BYTES + max_bytes))
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)

    def remember(data: bytes) -> None:
        memory[: LENGTH_BYTES + len(data)] = len(data).to_bytes(LENGTH_BYTES, "little") + data
        check(data)

    return remember


def read(path: Path) -> bytes:
    """The last input, empty if there was none."""
    kept = path.read_bytes() if path.exists() else b""
    length = int.from_bytes(kept[:LENGTH_BYTES], "little")
    return kept[LENGTH_BYTES : LENGTH_BYTES + length]
