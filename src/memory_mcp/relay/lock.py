"""Locks on files, as `engines.files.lock` has them, without the imports of that module."""

import os
from contextlib import suppress

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # the module is simply absent there

HAS_LOCKS = fcntl is not None


def acquire(path: str) -> int:
    """Lock a file, which is created if it is missing. Returns its handle, which frees the lock when it is closed."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if is_in_place(handle, path):
            return handle
        os.close(handle)  # another process removed the file before it was locked


def is_in_place(handle: int, path: str) -> bool:
    """Whether an open file still has this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
