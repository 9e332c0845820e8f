"""Atomic renames: exchange two files, or use a name only if it is free.

Linux has both (renameat2). Elsewhere these functions return False.
"""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

from memory_mcp.engines.files.rooted_folder import FolderEntry

_NO_REPLACE, _EXCHANGE = 1, 2


def exchange(one: FolderEntry, other: FolderEntry) -> bool:
    """False, and nothing is done, where the system or disk cannot. Raises FileNotFoundError if one is missing."""
    return _rename(one, other, _EXCHANGE)


def rename_to_new(one: FolderEntry, other: FolderEntry) -> bool:
    """False, and nothing is done, where the system or disk cannot. Raises FileExistsError if the name is taken."""
    return _rename(one, other, _NO_REPLACE)


def _rename(one: FolderEntry, other: FolderEntry, how: int) -> bool:
    renameat2 = _renameat2()
    if renameat2 is None or one.fd is None or other.fd is None:
        return False
    if renameat2(one.fd, os.fsencode(one.name), other.fd, os.fsencode(other.name), ctypes.c_uint(how)) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), other.name)


@cache
def _renameat2() -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
